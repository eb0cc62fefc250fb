"""Change feed and rollups: what changed in the merged table since the version consumed, in one commit each.

Each derived table says in its own commit which table (id) and version it has consumed. Another id, a lower
version, or change data that was vacuumed means that the changes cannot be read: a rollup is then rebuilt,
the feed writes the net difference, flagged as reconciled.
"""
