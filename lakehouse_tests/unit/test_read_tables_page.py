"""The page about reading tables: its examples run, and print what it shows."""

import io
import shlex
from contextlib import redirect_stdout
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_tests.helpers.commands import lakehouse_says
from lakehouse_tests.helpers.pages import read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.versions import write_versions

PAGE = ROOT / "docs" / "how-to" / "read-tables.md"
NOON = datetime(2023, 1, 1, 12, tzinfo=UTC)
ROWS = [("51.500000", 10.4), ("61.199997", 21.5), ("40.400000", None)]
TIMES = [datetime(2026, month, 31, 12, tzinfo=UTC) for month in (8, 10, 12)]


@pytest.fixture(autouse=True)
def _table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    rows = [
        pa.table(
            {
                "latitude": pa.array([Decimal(latitude)], pa.decimal128(9, 6)),
                "observed_at": pa.array([NOON], pa.timestamp("us", "UTC")),
                "temperature_2m": pa.array([temperature], pa.float64()),
            }
        )
        for latitude, temperature in ROWS
    ]
    write_versions(tmp_path / "home" / "tables" / "temperatures", dict(zip(TIMES, rows, strict=True)))


def test_the_examples_in_python_run_in_order_and_print_what_the_page_shows() -> None:
    names: dict[str, Any] = {}
    steps = [step for step in read_steps(PAGE) if step.language == "python"][:4]
    for step in steps:
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(step.text, PAGE.name, "exec"), names)  # noqa: S102 - the page's own examples
        assert [out.getvalue()] == list(step.outputs)
    assert len(steps) == 4


def test_each_command_of_the_page_runs(tmp_path: Path) -> None:
    (step,) = [step for step in read_steps(PAGE) if step.language == "sh"]
    results = [lakehouse_says(*shlex.split(line)[1:]) for line in step.text.splitlines()]
    assert [result.code for result in results] == [0] * 6, results
    assert ["3" in results[0].out, "1" in results[1].out, "2" in results[2].out] == [True, True, True]
    assert results[4].out == "warm.csv: 1 row\n"
    assert {file.name for file in tmp_path.iterdir()} == {"home", "warm.csv", "temperatures.parquet"}
