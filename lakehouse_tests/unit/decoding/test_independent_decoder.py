"""Random records of random declarations become what a decoder says that shares no code with the package."""

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.declaration import Column, Deletes, FieldIs, ParentField, StreamTable, Time
from lakehouse.decoding.verdicts import decode_values
from lakehouse_tests.helpers.decoding.independent_decoder import decode_record
from lakehouse_tests.helpers.decoding.native import NATIVE

TYPES = ("BIGINT", "INT", "DOUBLE", "DECIMAL(9,2)", "DECIMAL(20,6)", "STRING", "BOOLEAN", "TIMESTAMP")
NUMBERS = (
    "0 1 -1 7 2147483648 9223372036854775808 1.5 0.125 1.005 2.675 1e2 1e400 1e-400 9999999.995 0.30000000000000004"
)
TEXTS = ("a", "-1", "ü", 'say "x"', "\\", "\ud800", "2026-01-31T10:15:00Z", "2026-02-30T00:00:00Z", "noon", "")
OTHERS = ("true", "false", "null", "[]", "{}", '{"c":1}', '{"c":1,"c":2}', '["a"]', "NaN")
KINDS = {
    "number": ("1", "2.5", "3"),
    "text": ('"a"', '"b"'),
    "flag": ("true",),
    "time": ('"2026-01-31T10:15:00+02:00"',),
}
GOOD = {"STRING": "text", "BOOLEAN": "flag", "TIMESTAMP": "time"}
DECLARATIONS = 40
RECORDS = 150


def random_column(random: Random, name: str, *, has_rows: bool) -> Column:
    type_ = random.choice(TYPES)
    options: dict[str, Any] = {"written": Time("iso8601")} if type_ == "TIMESTAMP" else {}
    if type_ in ("INT", "DECIMAL(9,2)") and random.random() < 0.4:
        options["between"] = (-5, 100)
    if random.random() < 0.2 and type_ != "TIMESTAMP":
        options["null_values"] = ["-1", "a"] if type_ == "STRING" else ["-1"]
    source: Any = random.choice([name, ("o", name), ("o", "p", name)])
    if has_rows and random.random() < 0.3:
        options["source"] = ParentField(source)
    else:
        options |= {"source": source} | ({"formerly": f"old_{name}"} if random.random() < 0.2 else {})
    if random.random() < 0.2:
        options["required"] = True
    elif random.random() < 0.2 and type_ in ("INT", "STRING"):
        options["default"] = 7 if type_ == "INT" else "none"
    return Column(name, type_, "A value.", **options)


def random_table(random: Random) -> StreamTable:
    has_rows = random.random() < 0.5
    columns = [random_column(random, name, has_rows=has_rows) for name in ("a", "b", "d")]
    options: dict[str, Any] = {"rows_from": "rows"} if has_rows else {}
    if random.random() < 0.4:
        source = ParentField("kind") if has_rows and random.random() < 0.5 else "kind"
        options["deletes"] = Deletes(when=FieldIs(source, ["gone", True, 3]))
    if random.random() < 0.3:
        options["where"] = FieldIs("to", ["a", 1])
    key = Column("key", "STRING", "Which.", required=True)
    return StreamTable("things", "things", "Things.", [key, *columns], ["key"], **options)


def random_value(random: Random, column: Any) -> str:
    chance = random.random()
    if chance < 0.75:
        return random.choice(KINDS[GOOD.get(column.type, "number")])
    if chance < 0.85:
        return random.choice(NUMBERS.split())
    return json.dumps(random.choice(TEXTS)) if chance < 0.95 else random.choice(OTHERS)


def random_object(random: Random, table: StreamTable) -> str:
    """An object with fields of all columns, under current and former names, at their depths."""
    inner: list[str] = []
    middle: list[str] = []
    outer = ['"key":' + random.choice(['"k"', '"l"', "null"] if random.random() < 0.1 else ['"k"'])]
    for column in table.columns[1:]:
        place: Any = column.source.path if isinstance(column.source, ParentField) else column.source
        fields = (outer, middle, inner)[0 if isinstance(place, str) else len(place) - 1]
        if random.random() < 0.9:
            fields.append(f'"{column.name}":{random_value(random, column)}')
        if random.random() < 0.1:
            outer.append(f'"old_{column.name}":{random_value(random, column)}')
    middle.append('"p":{' + ",".join(inner) + "}" if random.random() < 0.9 else '"p":null')
    outer.append('"o":{' + ",".join(middle) + "}" if random.random() < 0.9 else '"o":7')
    outer.append('"kind":' + random.choice(['"new"', '"gone"', "true", "3", "3.0", "null", "{}"]))
    outer.append('"to":' + random.choice(['"a"', '"a"', "1", '"b"', "[]"]))
    random.shuffle(outer)
    return "{" + ", ".join(outer) + "}"


def random_record(random: Random, table: StreamTable) -> bytes | None:
    text = random_object(random, table)
    if table.rows_path:
        rows = ",".join(random_object(random, table) for _ in range(random.choice([0, 1, 2, 3])))
        array = f"[{rows}]" if random.random() < 0.9 else random.choice(["null", "7", '[1,"a"]'])
        text = text[:-1] + (f',"rows":{array}' if random.random() < 0.9 else "") + "}"
    value = text.encode()
    chance = random.random()
    return None if chance < 0.01 else value[: len(value) // 2] if chance < 0.03 else b"\xff" if chance < 0.04 else value


def verdicts_of(verdicts: Any, table: StreamTable) -> list[list[Any]]:
    """The rows of records, or their reasons, as the independent decoder gives them."""
    records = [record if isinstance(record, list) else [record] for record in verdicts.to_pylist()]
    return [[row_or_reason(row, table) for row in record] for record in records]


def row_or_reason(row: dict[str, Any], table: StreamTable) -> Any:
    if row["_reason"]:
        return "invalid_json" if row["_reason"] in ("truncated", "trailing_bytes") else row["_reason"]
    if row.get("_deleted"):
        return {"DELETES": True} | {name: row[name] for name in table.key}
    return {column.name: row[column.name] for column in table.columns}


@pytest.mark.invariant("8.10")
@pytest.mark.parametrize("seed", range(DECLARATIONS))
def test_random_records_become_what_an_independent_decoder_says(seed: int) -> None:
    random = Random(seed)
    table = random_table(random)
    records = [random_record(random, table) for _ in range(RECORDS)]
    expected = [decode_record(record, table) for record in records]
    for native in (NATIVE, None):
        decoded = decode_values(pa.array(records, pa.binary()), None, table.rules(), native)
        for record, verdict, right in zip(records, verdicts_of(decoded.verdicts, table), expected, strict=True):
            assert verdict == right, record
