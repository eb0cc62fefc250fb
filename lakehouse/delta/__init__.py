"""One Delta table: how it is stored, how it is written, and what its own history tells.

Stored: ``layout`` (columns, partitions, properties), ``order`` (what makes one row newer than another, and the merged
table that stores it), ``ensure`` (made where it is missing, brought into today's form).
Written: ``write`` (the one fenced commit, and upkeep), ``lock`` (one writer at a time on a local disk), ``commits``
(what a commit says of itself).
Read back, without a JVM: ``log`` (opened, and read commit by commit), ``ledger`` (how far the table got), ``restores``
(what a RESTORE put back), ``row_versions`` (which versions changed a row), ``audit`` (the proof that every record is
accounted for). ``failures`` says in our errors what a table, its log or its store cannot do.

It knows declarations, topics' offsets and Spark; batches, derived tables and upkeep are made of it.
"""
