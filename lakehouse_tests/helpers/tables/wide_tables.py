"""Random declarations of many columns of all types, and records for them."""

import json
from random import Random
from typing import Any
from uuid import uuid4

from lakehouse.declaration import Column, Computed, Day, Measure, Rollup, StreamTable, Time, Topic
from lakehouse.decoding.nested_types import nested

PLAIN_TYPES = ("STRING", "INT", "BIGINT", "BOOLEAN", "DOUBLE", "DECIMAL(12,3)", "TIMESTAMP", "DATE")
NESTED = (
    "ARRAY<STRING>",
    "ARRAY<STRUCT<sku: STRING, price: DECIMAL(9,3), by: MAP<STRING, INT>>>",
    "MAP<STRING, STRING>",
    "MAP<STRING, ARRAY<MAP<STRING, BIGINT>>>",
    "STRUCT<zip: STRING, place: STRUCT<city: STRING, tags: MAP<STRING, STRING>>>",
)


def wide_table(seed: int, columns: int, nested_share: float = 0.3) -> StreamTable:
    """Declare a table with a key, ``columns`` nested, kept and plain columns, computed columns and three rollups."""
    random = Random(seed)
    name = f"wide_{uuid4().hex[:8]}"
    key = [
        Column("id", "BIGINT", required=True, doc="Number."),
        Column("shop", "STRING", required=True, doc="Shop."),
        Column("at", "TIMESTAMP", required=True, written=Time(epoch="milliseconds"), doc="When, UTC."),
    ]
    value_columns = [_column(random, number, nested_share) for number in range(columns)]
    numbers = [c.name for c in value_columns if c.type in ("INT", "BIGINT") and not c.keep]
    computed_columns = [
        Computed(f"computed_{number}", "BOOLEAN", sql=f"{source} > {number}", doc="Computed.")
        for number, source in enumerate(numbers[:10])
    ]
    return StreamTable(
        name,
        source=Topic(name, partitions=1),
        doc="Many columns.",
        columns=[*key, *value_columns, *computed_columns],
        key=["id", "shop"],
        version="at",
        partition_by=Day("at"),
        rollups=[_rollup(name, by, numbers) for by in (["shop"], ["at_day"], ["shop", "at_day"])],
    )


def _column(random: Random, number: int, nested_share: float) -> Column:
    type_ = random.choice(NESTED if random.random() < nested_share else PLAIN_TYPES)
    times = {"TIMESTAMP": Time(epoch="milliseconds"), "DATE": Time("%Y-%m-%d")}
    return Column(f"c{number}", type_, doc="Drawn.", keep=random.random() < 0.1, written=times.get(type_))


def _rollup(table: str, by: list[str], numbers: list[str]) -> Rollup:
    measures = {"rows": Measure("count(*)", "BIGINT", "Rows.")}
    measures |= {f"sum_{name}": Measure(f"sum({name})", "DECIMAL(38,0)", "Sum.") for name in numbers[:10]}
    return Rollup(f"{table}_by_{'_'.join(by)}", by=by, measures=measures, doc="A rollup.")


def wide_records(table: StreamTable, seed: int, count: int) -> list[bytes]:
    """Return records with the ids from 0 on, over three days; every value is present."""
    random = Random(seed)
    values = [column for column in table.record_columns if column.name not in ("id", "shop", "at")]
    return [
        json.dumps(
            {"id": number, "shop": f"s{number % 3}", "at": number % 3 * 86_400_000}
            | {column.name: _value(random, column.type) for column in values}
        ).encode()
        for number in range(count)
    ]


def _value(random: Random, type_: str) -> Any:
    nested_type = nested(type_)
    if nested_type and nested_type.kind == "ARRAY":
        return [_value(random, nested_type.inner[0][1]) for _ in range(2)]
    if nested_type and nested_type.kind == "MAP":
        return {f"k{number}": _value(random, nested_type.inner[1][1]) for number in range(2)}
    if nested_type:
        return {name: _value(random, inner_type) for name, inner_type in nested_type.inner}
    if type_ == "STRING":
        return f"v{random.randrange(1000)}"
    if type_ == "BOOLEAN":
        return random.random() < 0.5
    return "2026-01-01" if type_ == "DATE" else random.randrange(1000)
