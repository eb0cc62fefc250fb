"""One Delta table: its layout, its schema changes and its writers.

Steps use ``stored_table``: it creates a table by its layout, reads it, and writes it with one of two writers. The
other modules are parts of it, or read a table without a session.

The stored form: ``layout`` (columns, partitions, properties), ``row_order`` (which row is newer, and the layout of the
merged table, which stores that order), ``schema_diff`` and ``schema_change`` (from the schema of a table to the
declared one), ``sql_analysis`` (whether Spark can compute the SQL of a declaration), ``data_files`` (their form, and
few rows read directly from them). The writers: ``spark_writer`` (the one fenced commit), and ``delta_rs_writer`` for
few rows if ``eligibility`` allows it (in an object store, by ``store_drafts``), also ``slot_writer`` in large tables:
``slot_files`` copies their files, ``deletion_vectors`` hides rows, and ``key_hashes`` shows that keys are new, by
``key_packs``. ``merge_spec`` has the text of a MERGE, of comparisons, and the bounds of all rows. ``lock`` allows one
writer at a time on a local disk
(``lock_holder`` names it), also of statements that outlive their process; ``statement`` waits for the end of one.
``store_probe`` shows that an object store honours conditions. ``row_changes`` reads what changed in any table, with or
without Spark. ``spark_failures`` translates errors of Spark into ours. ``table_context`` has the session, settings and
table of a step.

This package uses declarations, the ledger and Spark. Batches, derived tables and operations are built on it. A rule
for all of our tables belongs here; a table property belongs into ``layout``.
"""

import lakehouse.ledger  # noqa: F401 - silences the log of the object store client before deltalake is loaded
