"""Catalogs that know tables by name: where a table is, its columns, their meaning, its owner.

``registration`` is what a catalog has of a table, made from the table's log and its declaration, and what each catalog
can do: ``glue`` is AWS Glue, ``hive`` a Hive metastore, ``unity`` a Unity Catalog; ``hive_tables`` is what the first
two share. ``register`` opens the catalog of the settings, and writes what differs.

A table stays a folder, which is read and written without its catalog. A catalog is never asked what a table is.
"""
