"""The stack on one machine, as processes: Java, jars, a Kafka broker, a Spark server, Dagster's folder and storage.

``java``, ``ivy`` and ``jars`` find or fetch what has to be there; ``embedded`` is a server of a home as a child of a
command: ``broker`` (with ``kafka`` and ``ports``) and ``registry`` are such. ``process`` is a child, ``wire`` asks
one question over a plain socket, ``tail`` follows a log while it is written, ``locks`` waits for a lock with a limit,
``asking`` for a program; ``engine`` runs the warm Spark of a home, and knows its lock, its address and its token,
``engine_main`` is its process, ``own_spark`` starts a Spark in it or in a command, and ends it, and ``own_session``
makes a session of our own on one that runs; ``heap`` tells how full the memory of a Java is; ``dagster_home`` and
``dagster_run`` prepare and start Dagster's own commands, ``failed_runs`` tells which of its runs failed. Another
service of the laptop's stack goes here. It knows the settings only; production needs none of it but Java and the jars.
"""
