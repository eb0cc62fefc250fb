"""One Delta table: how it is stored, how it is written, and what its own history tells.

``stored_table`` is what steps work with: a table made as its layout says, read, and written by whoever of the two
writers takes the rows. The other modules are parts of it, or look at a table without a session.

Stored: ``layout`` (columns, partitions, properties), ``order`` (what makes one row newer than another, and the merged
table that stores it), ``ensure`` (made where it is missing, given what it has to: ``lack``), ``reform`` (rows given
other types and partitions), ``analysis`` (whether Spark can compute the SQL of a declaration), ``sameness`` (of rows,
in SQL), ``table_context`` (session, settings and table of a step, and how it is run again where another writer was
first).
Written: ``write`` (the one fenced commit, and upkeep; ``merge_spec``: the text of a MERGE), ``quick`` (the same of few
rows, without Spark, into tables that are ``plain`` enough, in files as Spark's: ``parquet``), ``lock`` (one writer
at a time on a local disk; ``holder``: which), ``synced`` (what outlives a power cut; ``counted``: whether an entry
names all its files), ``statement`` (one that writes, until its end is known), ``writer`` (whose it is, where it may
outlive its client), ``commits`` (what a commit says of itself).
Read by Spark: ``files`` (few of the newest version, by their names).
Read back, without a JVM: ``log`` (opened, and read commit by commit: ``log_files``), ``kept`` (what was read, until
something is written), ``active`` (the files and rows there are), ``ledger`` (how far the table got; ``reached``: and
ever was), ``restores`` (what a RESTORE put back), ``row_versions`` (which
versions changed a row), ``audit`` (the proof that every record is accounted for), ``differences`` (what is not),
``accounting`` (the figures of a commit and their words). ``failures`` says in our errors what a table, its log or its
store cannot do, ``spark_failures`` what Spark cannot do with it.

It knows declarations, topics' offsets and Spark; batches, derived tables and upkeep are made of it. What is
true of every table of ours goes here: a property into ``layout``, a figure or field of a commit into ``commits``.
"""

import os

# of each attempt at a store that does not answer, its client writes a line past us; what failed is told by our error
os.environ.setdefault("RUST_LOG", "off")
