"""The tables over HTTP, read-only: what ``lakehouse serve`` starts.

``server`` puts the parts together and listens, and ``routes`` has the paths. A request first meets the rules of
``requests`` (its size, its host, the token), which also turns its parameters into conditions. ``snapshots`` finds the
version of the table or of its feed that it is answered from, and makes the answer: JSON, an ETag, pages of the same
version. ``database`` writes the SQL, in which names come from the columns of the table and values are parameters, and
runs it within its limits. ``models`` has the schemas of the OpenAPI document and the errors of RFC 9457.

Only this package imports FastAPI. It needs no JVM and writes nothing.
"""
