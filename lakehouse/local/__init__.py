"""The stack on one machine, as processes: Java, jars, a Kafka broker, Dagster's folder and storage.

``java``, ``ivy`` and ``jars`` find or fetch what has to be there; ``embedded`` is a server of a home as a child of a
command: ``broker`` (with ``kafka_server`` and ``ports``) and ``registry`` are such. ``process`` is a child, ``wire``
asks one question over a plain socket, ``tail`` follows a log while it is written, ``locks`` waits for a lock with a
limit; ``dagster_home`` and ``dagster_run`` prepare and start Dagster's own commands, ``failed_runs`` tells which of its
runs failed. Another service of the laptop's stack goes here. It knows the settings only; production needs none of it
but Java and the jars.
"""
