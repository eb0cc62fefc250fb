"""The log of a Delta table: its progress, and the proof that every record is accounted for.

``positions`` is pure arithmetic of ranges, progress, gaps and plans, for any kind of source; ``planning`` plans a
batch. ``log`` opens the log of a table and reads it commit by commit, ``log_files`` reads its files and caches what
they say (from the copies that ``log_copies`` makes of logs in object stores), and ``versions`` has the files and rows
of a version, and finds one by its number or a time (``added_files`` and ``vectors``, if rows of files are hidden).
``commits`` defines the metadata of our commits (``commit_values``), and ``commit_infos`` reads it, also of several
sources. ``ledger`` has the progress of a table, ``restores`` the effect of a RESTORE, ``log_digests`` the entries
that another writer replaced, ``consumption`` the versions that consumers have read. ``audit`` proves that every
record is accounted for; ``accounting`` has the counts and the differences. ``durability`` syncs commits to a local
disk. ``table_failures`` turns failures of a log or its store into our errors.

Add a new count or field of a commit to ``commits``. This package needs no JVM, Spark, Kafka or declaration.
"""

import os

# the store client logs each failed attempt to standard error; our errors already report the failure
os.environ.setdefault("RUST_LOG", "off")
