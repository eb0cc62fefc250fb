"""A lakehouse of Kafka topics merged exactly into Delta tables.

The flow, stage by stage; each stage is one module::

    topic      bounded ranges of a topic           -> records (bytes and their position)
    decode     records                             -> rows, or a reason why not
    rejected   records that may not enter          -> a table of their own
    merge      rows                                -> the merged table, newest per key
    derive     changes of the merged table         -> change feed and rollups
    ingest     one batch, from plan to commit: where the stages meet

``declaration`` is the vocabulary in which a table is declared, ``tables`` holds the declared ones,
``ledger`` reads a table's own history back, ``definitions`` tells Dagster what exists.
Importing this package imports nothing else.
"""
