"""The page about values in another form: each example becomes the row that the page shows."""

import re
from typing import Any

import pytest

import lakehouse
from lakehouse import Column, Json, StreamTable
from lakehouse.decoding.written_forms import KeyValues, Written
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "numbers.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n+```json\n(.*?)\n```\n+```text\n(.*?)\n```", PAGE, re.DOTALL)
NAMES = ("Column", "Json", "TextBoolean", "TextNumber", "Time", "ValueOrObject")
PUBLIC_NAMES = {name: getattr(lakehouse, name) for name in NAMES}


def names_in(source: str) -> dict[str, Any]:
    """The names that an example defines."""
    namespace: dict[str, Any] = dict(PUBLIC_NAMES)
    exec(compile(source, "numbers.md", "exec"), namespace)  # noqa: S102 - the page's own examples
    return namespace


def test_the_page_has_no_other_code() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == PAGE.count("```text") >= 7


@pytest.mark.parametrize(("source", "record", "row"), EXAMPLES, ids=[record for _, record, _ in EXAMPLES])
def test_each_record_becomes_the_row_that_the_page_shows(source: str, record: str, row: str) -> None:
    names = names_in(source)
    columns = [Column("id", "INT", "Which.", required=True), *names["columns"]]
    table = StreamTable("items", "items", "Items.", columns, ["id"], format=names.get("format", Json()))
    values = table.decode(record.encode())
    assert ", ".join(f"{name} = {'NULL' if value is None else value}" for name, value in values.items()) == row


def test_every_form_has_an_example() -> None:
    forms = [column.form for source, _, _ in EXAMPLES for column in names_in(source)["columns"] if column.form]
    words = {word for part in Written.__args__ for word in getattr(part, "__args__", (part,))}
    on_the_page_of_logs = {"otlp", KeyValues}
    assert {form if isinstance(form, str) else type(form) for form in forms} | on_the_page_of_logs == words
