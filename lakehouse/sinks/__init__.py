"""Targets that follow a table row by row: what changed and the version that it leads to arrive together, or not at all.

``delivery`` is what every sink does: it compares the version that the target has with the table, and brings changes.
``changed_rows`` selects these rows, one for each identity.

``database`` is the target in a database. For each kind of database, three modules differ: PostgreSQL has
``postgres_session``, a transaction under a lock, ``postgres_sql``, its statements, and ``postgres_rows``, how it takes
rows; SQL Server has ``sql_server_session``, ``sql_server_sql`` and ``sql_server_rows``. They share
``database_session``, ``target_sql`` and ``fit_rows``, which finds values that a database cannot hold.
``postgres_connection`` verifies servers, also of the database that a table is compared with.

``topic`` is the target in a Kafka topic, and ``topic_contents`` compares it with all rows. ``data_explorer`` is the
target in Azure Data Explorer: ``data_explorer_kql`` makes its commands, ``data_explorer_rows`` the lines of its parts,
and ``data_explorer_cluster`` opens it. ``progress`` says how far a
sink is, and whether VACUUM has to wait for it. ``outlets`` opens a sink or an export.

Nothing here knows which sinks are declared. The progress of a sink is in its target, and nowhere else.
"""
