"""The Spark session of a process, and the engine: the warm Spark of a home.

- ``sessions``: opens the session; the only place with its Spark and Delta settings.
- ``own_spark``: starts and ends a Spark of this process.
- ``own_session``: prepares our own session on a Spark that may belong to another program, and statements over few rows.
- ``engine``: starts the engine of a home; its lock, its address and its token.
- ``engine_main``: the process of the engine.
- ``connect``: sessions on an engine or another Spark Connect server, with a limit on each wait.
- ``orphans``: interrupts the work that a dead client left on an engine, and waits for its end.

The package uses the settings and ``lakehouse.local``, and knows no tables.
"""
