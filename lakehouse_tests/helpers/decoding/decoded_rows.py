"""Records decoded on the fast and on the strict path, which must give the same rows and reasons."""

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.declaration import Column, Rejection, StreamTable
from lakehouse.decoding.formats import Format
from lakehouse.decoding.json_parsing import Native
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.verdicts import decode_slices
from lakehouse_tests.helpers.decoding.native import NATIVE, uncertain_records


def rows_of(form: Format, *columns: Column) -> StreamTable:
    """A log table in a format."""
    return StreamTable("rows", "rows", "Rows.", columns, [], format=form)


def verdict_of(table: StreamTable, value: bytes | None) -> Any:
    """The row of a value on both paths, or the reason and the detail of its rejection."""
    (verdict,) = decode_on_both_paths([value], table.rules())
    if verdict["_reason"]:
        with pytest.raises(Rejection, match=verdict["_reason"]):
            table.decode(value)
        return verdict["_reason"], verdict["_detail"]
    row = {name: verdict[name] for name in table.by_name}
    assert table.decode(value) == row
    return row


def decode_on_both_paths(values: Sequence[bytes | None], rules: Rules) -> list[dict[str, Any]]:
    """The verdicts of records, after comparing those of both paths down to the sign of a zero."""
    fast, fast_counts = _decode(values, rules, NATIVE)
    strict, strict_counts = _decode(values, rules, None)
    for value, fast_row, strict_row in zip(values, fast, strict, strict=True):
        assert _exact_texts(fast_row) == _exact_texts(strict_row), value
    assert fast_counts == strict_counts
    return strict


def count_plain(values: Sequence[bytes | None], rules: Rules) -> int:
    """The number of records that the fast path decodes by itself."""
    return len(values) - len(uncertain_records(pa.array(values, pa.binary()), None, rules))


def _decode(
    values: Sequence[bytes | None], rules: Rules, decoder: Native | None
) -> tuple[list[dict[str, Any]], Counter[str]]:
    rows, counts = list[dict[str, Any]](), Counter[str]()
    for verdicts, unmapped_counts in decode_slices(pa.array(values, pa.binary()), None, rules, decoder):
        verdicts.validate(full=True)
        rows += verdicts.to_pylist()
        counts += unmapped_counts
    return rows, counts


def _exact_texts(row: dict[str, Any]) -> dict[str, str]:
    return {name: value.isoformat() if isinstance(value, date) else repr(value) for name, value in row.items()}
