"""Batches: records or base rows → the merged table, in one commit each.

``batches`` is one batch from plan to commit, the place where the others meet: ``gaps`` (may it go on behind records
that are gone), ``staging`` (decoded and staged; ``around_timeless``: around what Spark cannot read), ``decode``
(records → rows, or a reason), ``kept_schemas`` (those by which records were read; ``schema_resolution`` asks a registry
for them), ``counts`` (what it found, and what prunes files), ``rejected_records`` (that may not enter;
``unresolved_rejections`` are still out), ``newest_per_key`` (one row for each key), ``merge`` (compared with the rows
that are stored, and stored) or, of a log table, ``append``. Other sources of rows for the same merge: ``load`` and
``sources`` (base files), ``replay`` (ranges again), ``redrive`` (rejected records again).

Another source of rows for the merge is a module beside ``replay``. It is made of ``lakehouse.storage`` and
``lakehouse.kafka``, and knows nothing of what is derived from a table.
"""
