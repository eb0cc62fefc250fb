"""The format Avro: its records, and the schemas that they are written with.

``format`` is the format, ``reader`` reads a record by a schema, with ``bytes`` for primitive types, ``nodes`` for the
readers of schemas, ``unions`` for unions and ``logical`` for logical types. ``schemas`` checks schemas, ``declared``
derives one from a declaration, ``fields`` derives columns from one, ``writing`` writes lines by one. ``own_schemas``
reads the schemas of a format without a registry, and ``single_objects`` the fingerprint in front of its values.
``keys`` is the format of keys, which may have any type.
"""
