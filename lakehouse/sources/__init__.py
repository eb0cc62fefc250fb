"""Sources: where the records of a table come from. Each has an identity, partitions with positions, and records.

``source`` says what every source can do, and ``table_sources`` returns that of a table. ``topic`` is a topic of Kafka,
``files`` the files in a folder, ``tables`` another Delta table, and ``generated_records`` are computed
(``generated_reading`` by Spark).
"""
