"""The tables over HTTP, read-only: what ``lakehouse serve`` starts.

``server`` listens, ``app`` puts the parts together, and ``routes`` has the paths with their
``options``. A request passes ``gate`` (its size, its host, the token); ``serving`` is what all of them use.
``snapshots`` finds the version of the table that it is answered from, ``filters`` turns its parameters into conditions,
and ``statements`` writes the SQL: names come from the columns of the table, values are parameters. ``database`` runs it
within its limits, ``pages`` continues at the same version, and ``changes`` reads the change feed. ``answers`` has the
forms of JSON and ETags, ``problems`` the errors of RFC 9457, and ``models`` the schemas of the OpenAPI document.

Only this package imports FastAPI. It needs no JVM and writes nothing.
"""
