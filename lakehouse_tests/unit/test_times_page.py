"""The page about times: each of its records becomes the row, or gets the reason, that the page shows."""

import re
from datetime import datetime
from typing import Any

import pytest

from lakehouse.declaration import Column, Rejection, StreamTable
from lakehouse.decoding.records import decode
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "times.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"```python\n(.*?)```(.*?)(?=```python|\Z)", PAGE, re.DOTALL)
EXAMPLES = [
    (code, record, shown_value)
    for code, text in SECTIONS
    for record, shown_value in re.findall(r"^\| `(\{.*?\})` \| `?(.*?)`? \|$", text, re.MULTILINE)
]


def declared_column(code: str) -> Column:
    """The column that an example of the page declares."""
    names: dict[str, Any] = {}
    exec(compile(code, "times.md", "exec"), names)  # noqa: S102 - the page's own example
    columns = [value for value in names.values() if isinstance(value, Column)]
    tables = [value for value in names.values() if isinstance(value, StreamTable)]
    (column,) = columns or tables[0].record_columns
    StreamTable("t", "t", "A table.", [column], [])
    return column


def test_the_page_shows_every_kind_of_time() -> None:
    columns = [declared_column(code) for code, _ in SECTIONS]
    assert {(column.type, column.time.pattern, column.time.epoch, bool(column.time.zone)) for column in columns} >= {
        ("TIMESTAMP", "iso8601", None, False),
        ("TIMESTAMP", "iso8601", None, True),
        ("TIMESTAMP", None, "nanoseconds", False),
        ("DATE", "iso8601", None, False),
    }
    assert any("%z" in (column.time.pattern or "") for column in columns)
    assert len(EXAMPLES) > 20


def decode_record(record: str, column: Column) -> str:
    """The value of the column as the page shows it, or the reason why the record is rejected."""
    try:
        value = decode(record.encode(), (column.field,))[column.name]
    except Rejection as rejection:
        return rejection.reason
    return str(value.replace(tzinfo=None) if isinstance(value, datetime) else value)


@pytest.mark.parametrize(("code", "record", "shown_value"), EXAMPLES, ids=[record for _, record, _ in EXAMPLES])
def test_each_record_of_the_page_has_the_value_or_the_reason_that_it_shows(
    code: str, record: str, shown_value: str
) -> None:
    assert decode_record(record, declared_column(code)) == shown_value
