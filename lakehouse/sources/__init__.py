"""Sources: where the records of a table come from. Each has an identity, partitions with positions, and records.

``table_sources`` says what every source can do, and returns that of a table; a topic of Kafka is there too.
``files`` are the files in a folder, ``tables`` another Delta table, and ``generated_records`` are computed.
"""
