"""Batches: records or base rows → the merged table, in one commit each.

``batches`` runs one batch from plan to commit. It calls these modules:

- ``topics``: the topics of a table, each of which a batch reads by itself, and where a new table begins.
- ``gaps``: whether a batch may continue after records that are gone. ``missing_keys``: the rows whose key a compacted
  topic no longer has.
- ``staging``: decodes and stages records, also those that Spark cannot read. ``decode``: records → rows, or a reason.
  ``rejecting_rules``: the rules of the declaration that reject rows.
- ``schema_resolution``: the schemas by which records are read, kept and requested from a registry.
- ``counts``: the counts of a batch, and a condition that prunes files. ``outcomes``: its result.
- ``rejected_records``: records that cannot become rows, and records with many rows of which some cannot.
  ``rejections``: which of them are still stored, and which are unresolved.
- ``order_times``: the times by which records are ordered. ``newest_per_key``: one row for each key.
- ``change_positions``: stops if the database of a change stream went back.
- ``deletes``: stores the deletes of a batch, and finds those that count. ``horizon``: deletes the rows before a
  truncate, forgets the oldest deletes, and rejects what they may have deleted.
- ``merge``: the newest rows into the merged table, as ``compared_rows`` says, or each row into a log table.
  ``correction``: the stored rows of records that are read again. ``erasures``: the keys that no record brings back.

``micro_batches`` finds how far a streaming query has come, which is how far such batches go.

Other sources of rows for the same merge are ``load`` and ``sources`` (base files), ``replay`` (ranges or days again)
and ``redrive`` (rejected records again). A new source is a module next to ``replay``. It uses ``lakehouse.storage`` and
``lakehouse.kafka``, and knows nothing of the tables that are derived from a table.
"""
