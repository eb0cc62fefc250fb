"""Columns that read the key of the record: its forms, paths and windows."""

from lakehouse import writer_schema
from lakehouse.declaration import Protobuf, RecordKey
from lakehouse_tests.unit.declaration.advice.example import Accepted, Example, reads_key
from lakehouse_tests.unit.declaration.ratings import column, with_column, with_columns

ID_SCHEMA = {1: writer_schema('syntax = "proto3"; message Key { int32 id = 1; }', kind="PROTOBUF")}
MESSAGE = b"\x00\x00\x00\x00\x01\x00\x08\x07"
WORD = column("word", "STRING", source=RecordKey(window="time"))
IN_WINDOW = with_columns(WORD, column(type_="TIMESTAMP", source=RecordKey("window_start")))
EXAMPLES = [
    Example(
        "column n: its key is a big-endian integer, but the column is STRING",
        "Declare INT for four bytes, or BIGINT for eight.",
        with_column(type_="STRING", source=RecordKey("big_endian")),
        reads_key(bytes([0, 0, 0, 3]), 3, source=RecordKey("big_endian")),
        reads_key(bytes([0] * 7 + [3]), 3, type_="BIGINT", source=RecordKey("big_endian")),
    ),
    Example(
        "column n: RecordKey('window_start', window='time') has a window, but is one of its times",
        "Remove window= here, and write it where the key is read.",
        with_columns(WORD, column(type_="TIMESTAMP", source=RecordKey("window_start", window="time"))),
        IN_WINDOW,
    ),
    Example(
        "column n: a window's time cannot be INT",
        "Declare TIMESTAMP.",
        with_columns(WORD, column(source=RecordKey("window_start"))),
        IN_WINDOW,
    ),
    Example(
        "column n: no column reads the key in front of the window",
        'Declare a column of the key, such as source=RecordKey(window="time"), or "session".',
        with_column(type_="TIMESTAMP", source=RecordKey("window_start")),
        IN_WINDOW,
    ),
    Example(
        "column n: a time window has no end in the key",
        'Remove the column: the size of the window is not in the record. A "session" has an end.',
        with_columns(WORD, column(type_="TIMESTAMP", source=RecordKey("window_end"))),
        IN_WINDOW,
    ),
    Example(
        "columns word and n read the key with window='time' and window='session'",
        "A key ends with one window. Write the same window in each RecordKey.",
        with_columns(WORD, column(type_="STRING", source=RecordKey(window="session"))),
        IN_WINDOW,
    ),
    Example(
        "column n: RecordKey('json', '') has an empty name in its path",
        "Name a field of the key, or remove the path.",
        with_column(source=RecordKey("json", "")),
        reads_key(b'{"id":7}', 7, source=RecordKey("json", "id")),
        reads_key(b"7", 7, source=RecordKey("json")),
    ),
    Example(
        "column n: RecordKey('text', 'id') has a path, but only a key in JSON, Avro or Protobuf has fields",
        'Write RecordKey("json", ...), or remove the path.',
        with_column(source=RecordKey(path="id")),
        reads_key(b'{"id":7}', 7, source=RecordKey("json", "id")),
        reads_key(b"7", 7, source=RecordKey()),
    ),
    Example(
        "column n: RecordKey('protobuf') has no path, but the key is a message",
        'Name its field: RecordKey("protobuf", "id").',
        with_column(source=RecordKey("protobuf")),
        Accepted(with_column(source=RecordKey("protobuf", "id")), {}, {"n": 7}, {"key": MESSAGE, "schemas": ID_SCHEMA}),
    ),
    Example(
        "columns n and m read the key as json and as framed_json",
        "A key has one form. Declare the one that its producer writes.",
        with_columns(column("n", source=RecordKey("json", "n")), column("m", source=RecordKey("framed_json", "m"))),
        Accepted(
            with_columns(column("n", source=RecordKey("json", "n")), column("m", source=RecordKey("json", "m"))),
            {},
            {"n": 7, "m": None},
            {"key": b'{"n":7}'},
        ),
    ),
    Example(
        "column n: RecordKey('avro', 'id') and format Protobuf cannot be combined",
        "A table keeps schemas of one kind. Read the value instead.",
        with_columns(column("n", source=RecordKey("avro", "id")), format=Protobuf()),
        with_columns(column("n", source="id"), format=Protobuf()),
    ),
]
