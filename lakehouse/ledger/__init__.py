"""What the log of a Delta table says: how far it got, and whether every record is accounted for.

``positions`` is the pure arithmetic of ranges, progress, gaps and plans, of any kind of source. ``log`` opens the log
of a table and reads it commit by commit (``log_files``, ``log_entries``), ``log_cache`` keeps what was read until
something is written, and ``active_files`` are the files and rows of the newest version. ``commits`` is what a commit of
ours says of itself (``understood``: or it stops us), ``ledger`` how far the table got, ``reached`` how far it ever was,
``restores`` what a RESTORE put back, ``row_versions`` which versions changed a row. ``audit`` proves that every record
is accounted for, ``differences`` and ``accounting`` say what is not. ``durability`` syncs commits to a local disk.
``table_failures`` turns what a log or its store cannot do into our errors.

A figure or a field of a commit goes into ``commits``. Without a JVM: no Spark, no Kafka, no declaration.
"""

import os

# of each attempt at a store that does not answer, its client writes a line past us; what failed is told by our error
os.environ.setdefault("RUST_LOG", "off")
