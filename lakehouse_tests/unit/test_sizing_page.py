"""The figures of the page about sizing are measured ones."""

import re

import pytest

from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
RESULTS = {file.stem: file.read_text(encoding="utf-8") for file in (ROOT / "benchmarks" / "results").glob("*.md")}


def cell(result: str, row: str, column: int) -> float:
    """A number of a result: that of the row that begins with this text."""
    line = next(line for line in RESULTS[result].splitlines() if line.startswith(row))
    return float(line.split("|")[column].replace(",", ""))


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ("| 1 |", cell("idle", "| 1 table: all |", 3)),
        ("| 5 |", cell("idle", "| 5 tables: all |", 3)),
        ("| 50 |", cell("idle", "| 50 tables: all |", 3)),
        ("| 50 | 3,645 |", cell("idle", "| 50 tables: engine |", 3)),
        ("| 5,000 into 10,000,000 rows, one month |", cell("rivals", "| 10,000,000 rows | lakehouse |", 3)),
        ("| 500,000 into 240,000 rows, one month |", cell("large", "| 500,000 | merge |", 3)),
        ("| a backlog of 1,000,000, in time order |", cell("backlog", "| in time order, 1 partition | merge |", 3)),
        (
            "| a backlog of 5,000,000, in time order |",
            cell("five-million", "| in time order, 1 partition | merge |", 3),
        ),
        (
            "| a backlog of 5,000,000, keys scattered over",
            cell("five-million", "| scattered, 1 partition | merge |", 3),
        ),
        ("| a record published to an idle table", cell("engine", "| 5 records | published to merged by", 3)),
        ("| 1,000 records a second with", cell("freshness", "|  | 180,049 records, median |", 3)),
        ("| the same, 95th percentile |", cell("freshness", "|  | records, 95th percentile |", 3)),
        ("| a merge as a command with a Spark of its own |", cell("engine", "| 5 records | a Spark of its own |", 3)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_figure_of_the_page_is_the_measured_one(row: str, value: float) -> None:
    (text,) = re.findall(rf"^{re.escape(row)}[^|]*?\|? ?([\d,.]+) \|", PAGE, re.MULTILINE)
    shown_number = float(text.replace(",", ""))
    assert abs(shown_number - value) <= 0.01 * value + 0.05
