"""The tables over HTTP, read-only: what ``lakehouse serve`` starts.

``server`` puts the parts together and listens, and ``routes`` has the paths. A request first meets the rules of
``requests`` (its size, its host, the token). ``snapshots`` finds the version of the table or of its feed that it is
answered from, ``filters`` turns its parameters into conditions, and ``statements`` writes the SQL: names come from the
columns of the table, values are parameters. ``database`` runs it within its limits. ``responses`` has the forms of
JSON, ETags and pages of the same version, ``problems`` the errors of RFC 9457, and ``models`` the schemas of the
OpenAPI document.

Only this package imports FastAPI. It needs no JVM and writes nothing.
"""
