"""What keeps tables in shape and shows how they stand.

``planned_changes`` tells what a declaration changes in its tables (``layouts``), ``evolution`` what it has changed,
``rewrite_tables`` writes them once in another form, ``maintain`` compacts and vacuums, ``repair`` records what a person
decides where records or the history are gone, ``status`` tells how far a table is, ``open_rejections`` how many
rejected records are open, ``rejections`` which, ``verify`` checks the data itself. A new verb that looks at tables, or
looks after them, goes here; ``lakehouse.cli`` and ``lakehouse.defs`` call it. It knows batches, derived tables, queries
and all they are made of, but not which tables are declared, nor Dagster.
"""
