"""Tables of one format, and the row or the reason that both paths give for a value."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.declaration import Column, Rejection, StreamTable
from lakehouse.decoding.formats import Format
from lakehouse.decoding.rules import Rules
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.native import uncertain_records


def rows_of(form: Format, *columns: Column) -> StreamTable:
    """A log table in a format."""
    return StreamTable("rows", "rows", "Rows.", columns, [], format=form)


def verdict_of(table: StreamTable, value: bytes | None) -> Any:
    """The row of a value on both paths, or the reason and the detail of its rejection."""
    (verdict,) = rows_twice([value], table.rules())
    if verdict["_reason"]:
        with pytest.raises(Rejection, match=verdict["_reason"]):
            table.decode(value)
        return verdict["_reason"], verdict["_detail"]
    row = {name: verdict[name] for name in table.by_name}
    assert table.decode(value) == row
    return row


def element_rows(table: StreamTable, value: bytes | None, **parts: Any) -> list[Any]:
    """The rows of a record; in place of a rejected element its reason, of a rejected record the reason alone."""
    try:
        rows = table.decode_rows(value, **parts)
    except Rejection as rejection:
        return [rejection.reason]
    return [row.reason if isinstance(row, Rejection) else row for row in rows]


def count_plain(values: Sequence[bytes | None], rules: Rules) -> int:
    """The number of records that the fast path decodes by itself."""
    return len(values) - len(uncertain_records(pa.array(values, pa.binary()), None, rules))
