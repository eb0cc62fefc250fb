"""The processes of a stack on one machine: Java, jars, a Kafka broker, a schema registry and Dagster.

- ``java``, ``ivy``, ``jars``: find Java; fetch and verify the jars.
- ``embedded``: a server of a home, as a child process. ``broker`` (with ``kafka_server`` and ``ports``) and
  ``registry`` are such servers. Add another local service in the same way.
- ``process``: a child process that ends with its parent.
- ``wire``: one request of Kafka's protocol over a socket.
- ``tail``: follow a log file.
- ``locks``: wait for a lock, with a limit.
- ``dagster_home``, ``dagster_run``, ``failed_runs``: prepare and start Dagster's own commands; list its failed runs.

The package depends only on the settings. Production needs only Java and the jars.
"""
