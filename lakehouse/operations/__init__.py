"""Operations that maintain tables and report their state.

``planned_changes`` reports what a declaration changes in its tables. ``rewrite_tables`` rewrites tables with other
types or partitions, or returns one to an earlier version. ``remove_tables`` removes them, ``rebuild_tables``
starts them again, and ``erase_rows`` erases rows for good. ``maintain`` compacts and
vacuums, once ``readers`` of a table need no old files. ``repair`` records the decisions of a person.
``materialize`` finds the columns of views and stores their rows. ``status`` reports the progress of a table and how its
declaration changed, also as objects of JSON, ``rejections`` the open rejected records. ``verify`` checks the data, and
what a change stream did not send. ``compare`` compares a table with the table of a database (``source_database``).
``foreach_batch`` merges as far as a streaming query has come. A new command that reads or maintains tables belongs
here; ``lakehouse.cli`` and ``lakehouse.defs`` call it. This package may use batches, derived tables and queries, and
everything below them. It does not know which tables are declared, nor Dagster.
"""
