"""The format Protobuf: its records, and the schemas that they are written with.

``format`` is the format, ``reader`` reads a record by a schema, with ``messages`` and ``nodes`` for the readers of
messages and fields, ``bytes`` for primitive types and ``values`` for well-known types. ``schemas`` prepares schemas:
``text`` parses ``.proto`` files, cut by ``tokens``, and ``known`` has the types that each may import. ``declared``
derives a schema from a declaration, ``fields`` derives columns from one, ``writing`` writes ``lines`` by one.
"""
