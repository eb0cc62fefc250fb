"""The page about declarations: its examples are valid declarations, and it describes every option."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from lakehouse.declaration import (
    BrokerTime,
    Check,
    Column,
    Day,
    Late,
    Measure,
    Month,
    RecordHeader,
    RecordKey,
    Rollup,
    SampleRecords,
    StreamTable,
    Value,
    Year,
)

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "declaration.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
IN_README = {"name", "topic", "doc", "file", "columns"}


def test_every_example_is_accepted() -> None:
    names: dict[str, object] = {}
    for example in EXAMPLES:
        exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102 - the page's own examples
    kinds = {type(value) for value in names.values()}
    assert {Column, StreamTable, Late, Check, Rollup, SampleRecords} <= kinds


@pytest.mark.parametrize(
    "part",
    [BrokerTime, RecordHeader, RecordKey, Check, Column, Day, Late, Measure, Month, Rollup, SampleRecords, Value, Year],
)
def test_every_part_has_an_example(part: type) -> None:
    assert any(f"{part.__name__}(" in example for example in EXAMPLES)


@pytest.mark.parametrize(
    "option", sorted({field.name for part in (Column, StreamTable) for field in fields(part)} - IN_README)
)
def test_every_option_of_a_column_and_a_table_is_described(option: str) -> None:
    assert re.search(rf"\b{option}\b", PAGE.read_text())
