"""The stack on one machine, as processes: Java, jars, a Kafka broker, a Spark server, Dagster's folder and storage.

``java``, ``ivy`` and ``jars`` find or fetch what has to be there; ``ports``, ``process``, ``kafka`` and ``broker``
run the embedded broker, ``wire`` asks one question over a plain socket, ``tail`` follows a log while it is written;
``engine`` runs the Spark Connect server of a home, and knows its lock, its address and its token;
``dagster_home`` and ``dagster_run`` prepare and start Dagster's own commands. Another service of the laptop's stack
goes here. It knows the settings only; production needs none of it but Java and the jars.
"""
