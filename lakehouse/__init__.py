"""A lakehouse of Kafka topics merged exactly into Delta tables.

The flow, room by room::

    declaration   what a table is: columns, key, order; and the decoding of one record by it
    topic         bounded ranges of a topic           -> records (bytes and their position)
    batch         records                             -> rows, or a reason why not -> one fenced commit
    delta         one table: its layout, its fenced commits, and what its own history tells
    derive        changes of the merged table         -> change feed and rollups
    upkeep        maintenance, repair, status, checks

``tables`` holds the declared tables, ``cli`` and ``defs`` (through ``definitions``) are the command and Dagster,
``local`` is the stack on one machine. Importing this package imports nothing else.
"""
