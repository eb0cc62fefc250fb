"""The page of the vocabulary: its examples are declarations, and it leaves no word out."""

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

PAGE = Path(__file__).parents[3] / "docs" / "vocabulary.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
IN_README = {"name", "topic", "doc", "file", "columns"}


def test_every_example_is_taken() -> None:
    said: dict[str, object] = {}
    for example in EXAMPLES:
        exec(compile(example, str(PAGE), "exec"), said)  # noqa: S102 - the page's own examples
    kinds = {type(value) for value in said.values()}
    assert {Column, StreamTable, Late, Check, Rollup, SampleRecords} <= kinds


@pytest.mark.parametrize(
    "part",
    [BrokerTime, RecordHeader, RecordKey, Check, Column, Day, Late, Measure, Month, Rollup, SampleRecords, Value, Year],
)
def test_every_part_has_an_example(part: type) -> None:
    assert any(f"{part.__name__}(" in example for example in EXAMPLES)


@pytest.mark.parametrize(
    "word", sorted({each.name for part in (Column, StreamTable) for each in fields(part)} - IN_README)
)
def test_every_word_of_a_column_and_a_table_is_told(word: str) -> None:
    assert re.search(rf"\b{word}\b", PAGE.read_text())
