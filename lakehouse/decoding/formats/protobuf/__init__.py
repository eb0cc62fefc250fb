"""The format Protobuf: its records, and the schemas that they are written with.

``format`` is the format. ``schemas`` compiles schemas by protoc, and ``compiled`` is their stored form. ``reader``
reads records by Google's library; ``nodes`` makes values of its messages, with those of ``values`` for known ones.
``columns`` derives columns from a schema and a schema from columns, ``writing`` writes lines by one.
"""
