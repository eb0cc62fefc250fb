"""Targets that follow a table row by row: what changed and the version that it leads to arrive together, or not at all.

``delivery`` runs one sink: it compares the version that the target has with the table, and brings what changed.
``changed_rows`` selects these rows, one for each identity. ``postgres`` is the target in a PostgreSQL database,
``copied_rows`` the text in which rows get there, and ``postgres_connection`` opens it. ``progress`` says how far a sink
is, and whether VACUUM has to wait for it. ``outlets`` opens a sink or an export.

Nothing here knows which sinks are declared. The progress of a sink is in its target, and nowhere else.
"""
