"""The format Debezium: changes of a database, written as JSON or Avro.

``format`` is the format, with the settings of its connector, ``reader`` reads a change, ``position`` its position in
the log of the database, ``schemas`` the types of its fields, ``values`` times and decimals. ``documents`` are
those of MongoDB.
"""
