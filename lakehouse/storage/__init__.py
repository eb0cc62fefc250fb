"""One Delta table: how it is stored, changed and written.

``stored_table`` is what steps work with: a table made as its layout says, read, and written by one of the two writers.
The other modules are parts of it, or look at a table without a session.

Stored: ``layout`` (columns, partitions, properties), ``row_order`` (what makes one row newer than another, and the
merged table that stores it), ``schema_change`` (from the schema that a table has to the declared one), ``sql_analysis``
(whether Spark can compute the SQL of a declaration), ``comparison`` (of rows, in SQL), ``table_files`` (few rows of the
newest version, read by the names of their files). Written: by ``spark_writer`` (the one fenced commit; ``merge_spec``
is the text of a MERGE), or by ``delta_rs_writer`` if rows are few and ``eligibility`` finds the table plain, in files
as Spark's (``parquet_properties``). ``lock`` lets one writer at a time in on a local disk (``lock_holder``),
``statement`` waits for the end of one that writes, and ``writer_note`` notes whose it is. ``spark_failures`` turns
what Spark cannot do into our errors. ``table_context`` is the session, settings and table of a step.

It knows declarations, the ledger and Spark; batches, derived tables and operations are made of it. What is true of
every table of ours goes here: a property into ``layout``.
"""

import lakehouse.ledger  # noqa: F401 - it keeps the client of a store quiet, before deltalake is loaded here
