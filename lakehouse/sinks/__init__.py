"""Targets that follow a table row by row: what changed and the version that it leads to arrive together, or not at all.

``delivery`` is what every sink does: it compares the version that the target has with the table, and brings changes.
``changed_rows`` selects these rows, one for each identity. ``postgres`` is the target in a PostgreSQL database:
``postgres_sql`` makes its statements, ``copied_rows`` the text of its rows, and ``postgres_connection`` opens it.
``topic`` is the target in a Kafka topic, and ``topic_contents`` compares it with all rows. ``progress`` says how far a
sink is, and whether VACUUM has to wait for it. ``outlets`` opens a sink or an export.

Nothing here knows which sinks are declared. The progress of a sink is in its target, and nowhere else.
"""
