"""Change feed and rollups: what changed in the merged table since the version consumed, in one commit each.

Each derived table says in its own commit which table (id) and version it has consumed. Another id, a lower
version, or change data that was vacuumed means that the changes cannot be read: a rollup is then rebuilt,
the feed writes the net difference, flagged as reconciled.

``changes`` reads what changed, ``feed`` and ``rollup`` write it, ``refresh`` brings both up to the merged table. A new
kind of derived table is a module beside ``feed`` and ``rollup``, and a function in ``refresh``. It is made of
``lakehouse.storage`` and knows nothing of batches.
"""
