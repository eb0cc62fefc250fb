"""Batches: records or base rows → the merged table, in one commit each.

``ingest`` is one batch from plan to commit, the place where the others meet: ``gaps`` (may it go on behind records
that are gone), ``held`` (decoded, and held; ``timeless``: around what Spark cannot read), ``decode`` (records → rows,
or a reason), ``schemas`` (those by which records were read, kept; ``learning``: of a registry), ``counts`` (what it
found, and what prunes files), ``rejected`` (records that may not enter; ``unresolved`` tells which are still out),
``newest`` (one row for each key), ``merge`` (compared with the rows that are stored, and stored) or, of a log table,
``append``. Other sources of rows for the same merge: ``load`` and ``sources`` (base files), ``replay`` (ranges again),
``redrive`` (rejected records again).

Another source of rows for the merge is a module beside ``replay``. It is made of ``lakehouse.delta`` and
``lakehouse.topic``, and knows nothing of what is derived from a table.
"""
