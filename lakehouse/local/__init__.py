"""The processes of a stack on one machine: Java, jars, a Kafka broker, a schema registry and Dagster.

- ``java``, ``jars``: find Java, and read the use of its memory; fetch and verify the jars.
- ``embedded``: a server of a home, as a child process with its ports. ``servers``: the broker and the registry are such
  servers. Add another local service in the same way.
- ``process``: a child process that ends with its parent, its log, and locks with a limit on the wait.
- ``dagster_home``: prepare and start Dagster's own commands; list its failed runs.

The package depends only on the settings. Production needs only Java and the jars.
"""
