"""Files → records, and records → data files: what a worker reads and writes.

``reader`` reads a part of a file and checks that its bytes are those that were numbered. It splits them with ``lines``
(a record per line), ``elements`` (a record per element of a JSON array) or ``table_rows`` (a record per row of a
Parquet or Avro file). ``contents`` opens, hashes and decompresses files. ``fault`` is what ends a file too early.
``data_files`` writes the rows of valid records as data files of a table.
"""
