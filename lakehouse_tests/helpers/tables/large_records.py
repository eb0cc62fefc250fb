"""Records of few bytes that need much memory when they are decoded, with a table for each kind."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakehouse.declaration import Avro, Column, Compressed, Csv, Debezium, Json, Logfmt, StreamTable
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas, WriterSchema
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.formats.unpacking.compression import Codec, compress
from lakehouse.decoding.memory import MAX_UNPACKED_SIZE
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.verdicts import decode_slices
from lakehouse_tests.helpers.decoding.native import NATIVE
from lakehouse_tests.helpers.decoding_memory import RECORDS

Case = tuple[StreamTable, list[bytes], Schemas]
_NULLS = [{"name": f"e{number}", "type": "null"} for number in range(16)]
_ITEM = {"type": "record", "name": "Each", "fields": [{"name": "v", "type": "long"}, *_NULLS]}
EMPTY = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": {"type": "array", "items": _ITEM}}],
}
"""A schema in which every byte of the array is a record of seventeen fields."""


def table(*columns: Column, **changes: Any) -> StreamTable:
    return StreamTable(
        "t", "t", "T.", [Column("id", "STRING", "Which.", required=True), *columns], key=["id"], **changes
    )


def repeat_record(record: bytes, total: int = RECORDS) -> list[bytes]:
    return [record] * max(1, total // len(record))


def fill_record(item: str, size: int) -> bytes:
    """Return a record of at most ``size`` bytes that repeats one item."""
    return f'{{"id":"a","n":[{",".join([item] * max(1, (size - 20) // (len(item) + 1)))}]}}'.encode()


def in_avro(items: int) -> bytes:
    count, number = b"", items << 1
    while number >= 0x80:
        count, number = count + bytes([number & 0x7F | 0x80]), number >> 7
    return add_frame(1, b"\x02a" + count + bytes([number]) + bytes(items) + b"\x00")


def avro(items: int, total: int = RECORDS) -> Case:
    return table(format=Avro()), repeat_record(in_avro(items), total), Schemas({1: WriterSchema(json.dumps(EMPTY))}, {})


def flat(item: str, size: int) -> Case:
    return table(), repeat_record(fill_record(item, size)), NO_SCHEMAS


def nested(type_: str, item: str, size: int, columns: int = 1) -> Case:
    """Return a table in which several columns read the same nested field."""
    list_columns = [Column(f"n{number}", type_, "Some.", source="n") for number in range(columns)]
    return table(*list_columns), repeat_record(fill_record(item, size), min(RECORDS, 8 * size)), NO_SCHEMAS


def wide(columns: int, record: bytes, total: int) -> Case:
    return (
        table(*(Column(f"c{number}", "DECIMAL(38,2)", "One.") for number in range(columns))),
        repeat_record(record, total),
        NO_SCHEMAS,
    )


def as_json(item: str, size: int, columns: int) -> Case:
    """Return a table in which several columns have the text of the same list."""
    text_columns = [Column(f"n{number}", "STRING", "Some.", source="n", written="json") for number in range(columns)]
    return table(*text_columns), repeat_record(fill_record(item, size), min(RECORDS, 8 * size)), NO_SCHEMAS


def compressed(form: Format, codec: Codec, content: bytes, records: int) -> Case:
    """Return a table with records of a few bytes that become ``content``."""
    column = Column("text", "STRING", "A text.")
    return table(column, format=Compressed(form, codec)), [compress(content, codec)] * records, NO_SCHEMAS


WIDE_TEXT = b"x" * (MAX_UNPACKED_SIZE - 100) + "\U0001f600".encode()  # four bytes of memory for each letter
CHANGE = json.dumps({"after": {"id": "a", "text": "x" * 100_000}, "op": "c", "source": {"lsn": 1}}).encode()
LISTS = f"STRUCT<{', '.join(f'f{number}: ARRAY<INT>' for number in range(200))}>"
CASES: dict[str, Callable[[], Case]] = {
    "Avro, one record": lambda: avro(980_000, 1),
    "Avro, many records": lambda: avro(50_000, 600_000),
    "JSON of lists in lists": lambda: flat("[" * 30 + "]" * 30, 10_000),
    "JSON, one record": lambda: flat("{}", RECORDS),
    "JSON, one record of short texts": lambda: flat('"ab"', RECORDS),
    "nested JSON": lambda: nested(f"ARRAY<{LISTS}>", '{"f0":[]}', 60_000),
    "JSON as text": lambda: as_json("1e-6", 1_000_000, 5),
    "compressed JSON": lambda: compressed(Json(), "zstd", b'{"id":"a","text":"' + WIDE_TEXT + b'"}', 3),
    "compressed CSV": lambda: compressed(Csv(["id", "text"]), "zstd", b'a,"' + WIDE_TEXT + b'"', 3),
    "compressed logfmt": lambda: compressed(Logfmt(), "gzip", b'id=a text="' + b"\\n" * 9_000_000 + b'"', 3),
    "compressed changes": lambda: compressed(Debezium(), "zstd", CHANGE, 2_000),
    "compressed zeros": lambda: compressed(Json(), "gzip", bytes(300_000_000), 3),
    "many columns": lambda: wide(1_000, b'{"id":"a"}', 30_000),
}


def reasons_of_first(case: Case) -> set[str | None]:
    """Return the reasons of the fast and the strict path for the first record of a case."""
    table, (record, *_), schemas = case
    rules = Rules(table.fields, None, table.format.parser(schemas))
    values = pa.array([record], pa.binary())
    slices = [part for path in (NATIVE, None) for part in decode_slices(values, None, rules, path)]
    return {row["_reason"] for part in slices for row in part.verdicts.to_pylist()}
