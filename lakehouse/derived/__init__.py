"""Change feed and rollups: each update reads what changed in the merged table and makes one commit.

Each commit of a derived table records the table (id) and the version that it has consumed. The changes cannot be read
if the id is another one, the version is lower, or VACUUM deleted the change data. Then a rollup is rebuilt, and the
feed writes the net difference, marked as reconciled.

``feed`` reads the changes and writes them to the change feed; ``refresh`` updates it and the rollups to the version of
the merged table. A new kind of derived table is a module next to ``feed``, and a function in ``refresh``. This package
is built on ``lakehouse.storage`` and does not use batches.
"""
