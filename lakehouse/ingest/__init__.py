"""Batches: records or base rows → the merged table, in one commit each.

``batches`` runs one batch from plan to commit; ``outcomes`` describes its result. It calls these modules:

- ``topics``: the topics of a table that reads several; each batch reads one. ``lakehouse.sources`` reads them.
- ``gaps``: whether a batch may continue after records that are gone; ``start``: where a new table begins.
  ``missing_keys``: the rows whose key a compacted topic no longer has.
- ``staging``: decodes and stages records; ``around_timeless`` works around records that Spark cannot read.
- ``data_files``: workers write the rows of a log table that are certainly new, if they are the same rows.
- ``decode``: records → rows, or a reason. ``rejecting_rules``: the rules of the declaration that reject rows.
- ``kept_schemas``: the schemas by which records were read; ``schema_resolution`` requests them from a registry.
- ``counts``: the counts of a batch, and a condition that prunes files. ``accounting_check``: whether they add up.
- ``rejected_records``: records that cannot become rows; ``unresolved_rejections`` selects those that still cannot.
  ``rejected_elements`` finds the bytes of records with many rows, of which some cannot. ``kept_rejections``: whether
  those that a commit names are still stored.
- ``order_times``: the times by which records are ordered; ``former_times`` finds those of records that are read again.
- ``newest_per_key``: one row for each key; ``equal_versions`` counts the records that their version does not order.
- ``deletes``: stores the deletes of a batch, and finds those that count.
- ``truncates``: deletes the rows before a truncate; ``snapshots`` and ``origins`` stop if the database of a change
  stream went back.
- ``purge``: forgets the oldest deletes; ``horizon`` rejects what they may have deleted.
- ``found_order``: the greatest or least order among rows, in the form that a commit names.
- ``merge``: compares rows with the stored rows (of a ``merge_target``) and stores them; for a log table, ``append``.

``micro_batches`` finds how far a streaming query has come, which is how far such batches go.

Other sources of rows for the same merge are ``load`` and ``sources`` (base files), ``replay`` (ranges again; ``days``
finds those of a day) and ``redrive`` (rejected records again). A new source is a module next to ``replay``. It uses
``lakehouse.storage`` and ``lakehouse.kafka``, and knows nothing of the tables that are derived from a table.
"""
