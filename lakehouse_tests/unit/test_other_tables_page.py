"""The page about other tables as a source: its record becomes the row that it shows."""

import re
from typing import Any

from lakehouse.declaration import StreamTable
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "other-tables.md").read_text(encoding="utf-8")


def test_a_record_of_the_page_becomes_its_row() -> None:
    namespace: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(example, "other-tables.md", "exec"), namespace)  # noqa: S102 - the page's own examples
    balances: StreamTable = namespace["balances"]
    (record,) = re.findall(r"^`(\{.*?\})`", PAGE, re.MULTILINE)
    row = balances.decode(record.encode())
    cells = [cell.strip() for cell in re.findall(r"^\| 7 \|.*$", PAGE, re.MULTILINE)[0].strip("|").split("|")]
    assert [str(row["id"]), str(row["amount"]), f"{row['at']:%Y-%m-%d %H:%M:%S}"] == cells
