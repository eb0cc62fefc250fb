"""Tables of four columns of simple types, which can be written without Spark."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakehouse.ledger.commits import Commit, Kind
from lakehouse.ledger.ledger import read_ledger
from lakehouse.storage.layout import Layout, TableColumn

COLUMNS = {"place": "STRING", "at": "DECIMAL(9,6)", "last": "TIMESTAMP", "n": "BIGINT"}
SCHEMA = pa.schema(
    [("place", pa.string()), ("at", pa.decimal128(9, 6)), ("last", pa.timestamp("us", "UTC")), ("n", pa.int64())]
)
FAR = datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
FIRST = datetime(1, 1, 1, tzinfo=UTC)


def rows(*values: tuple[Any, ...]) -> pa.Table:
    """Return rows of a table; a fifth value is the column ``gone``."""
    names = [*SCHEMA.names, "gone"][: max(map(len, values))]
    schema = pa.schema([*SCHEMA, ("gone", pa.bool_())][: len(names)])
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in values], schema=schema)


def create_table(folder: Path, *values: tuple[Any, ...], **properties: str) -> Layout:
    """Create a table with these rows as version 0."""
    columns = [TableColumn(name, type_, "d") for name, type_ in COLUMNS.items()]
    layout = Layout("t", str(folder / "t"), "d", columns, statistics=("place", "at"))
    first_rows = rows(*values) if values else SCHEMA.empty_table()
    write_deltalake(layout.uri, first_rows, configuration=layout.statistics_properties | properties)
    return layout


def next_commit(layout: Layout, kind: Kind = "derived") -> Commit:
    return read_ledger(layout.uri, layout.name).next_commit(kind, "cli")


def read_stored(layout: Layout) -> list[tuple[Any, ...]]:
    stored_rows = DeltaTable(layout.uri).to_pyarrow_table().to_pylist()
    return sorted((tuple(row.values()) for row in stored_rows), key=str)


PARIS = ("Paris", Decimal("48.850000"), FAR, 3)
NULL_PLACE = (None, None, FIRST, None)
OSLO = ("Oslo", Decimal("59.910000"), None, 1)
