"""The Spark session of a process, and the engine: the warm Spark of a home.

- ``sessions``: opens the session; the only place with its Spark and Delta settings.
- ``few_rows``: faster settings for single statements over few rows.
- ``own_spark``: starts and ends a Spark of this process.
- ``own_session``: prepares our own session on a Spark that may belong to another program.
- ``engine``: starts the engine of a home; its lock, its address and its token.
- ``engine_main``: the process of the engine.
- ``heap``: the memory use of a Java process.
- ``connect``: sessions on an engine or another Spark Connect server, with a limit on each wait.

The package uses the settings and ``lakehouse.local``, and knows no tables.
"""
