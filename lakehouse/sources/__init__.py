"""Sources: where the records of a table come from. Each has an identity, partitions with positions, and records.

``source`` says what every source can do. ``table_sources`` returns that of a table, and has topics of Kafka. ``files``
are the files in a folder, ``tables`` another Delta table, and ``generated_records`` are computed.
"""
