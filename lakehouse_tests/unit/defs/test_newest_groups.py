"""The groups of a rollup that each run shows: the newest ones, or the largest, as texts, and few of them."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.declaration import Measure, Rollup
from lakehouse.defs import figures
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings

(FULL_ROLLUP,) = temperatures.rollups
ROWS = Measure("count(*)", "BIGINT", "Rows.")
ROLLUP = replace(FULL_ROLLUP, measures={"rows": ROWS})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A rollup of eight places with 200 months each."""
    months = [date(2000 + n // 12, n % 12 + 1, 1) for n in range(200)]
    rows = {
        "latitude": pa.array([float(place) for place in range(8) for _ in months]),
        "longitude": pa.array([1.5 for _ in range(8 * len(months))]),
        "observed_month": pa.array([month for _ in range(8) for month in months], pa.date32()),
        "rows": pa.array([n % 31 for _ in range(8) for n in range(len(months))], pa.int64()),
    }
    settings = Settings(home=tmp_path)
    write_deltalake(settings.table_uri(ROLLUP.name), pa.table(rows))
    return settings


def shown_groups(settings: Settings, rollup: Rollup = ROLLUP) -> list[dict[str, object]]:
    table = figures.newest_groups(settings, temperatures, rollup)["groups"]
    return [dict(record.data) for record in table.records]


def test_the_newest_groups_come_first_with_all_their_columns(settings: Settings) -> None:
    groups = shown_groups(settings)
    assert [group["observed_month"] for group in groups] == ["2016-08-01"] * 8 + ["2016-07-01"] * 4
    assert groups[0] == {"latitude": "0.0", "longitude": "1.5", "observed_month": "2016-08-01", "rows": "13"}


def test_a_rollup_without_a_time_shows_its_largest_groups(settings: Settings) -> None:
    groups = shown_groups(settings, replace(ROLLUP, by=["latitude"]))
    assert [group["rows"] for group in groups] == ["30"] * 12


def test_nothing_is_shown_without_rows_or_with_too_many(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert figures.newest_groups(Settings(home=tmp_path / "empty"), temperatures, ROLLUP) == {}
    monkeypatch.setattr(figures, "_MAX_GROUPS", 1599)
    assert figures.newest_groups(settings, temperatures, ROLLUP) == {}


def test_a_column_that_is_not_stored_yet_fails_no_run(settings: Settings) -> None:
    rollup = replace(ROLLUP, measures={"rows": ROWS, "new": ROWS})
    assert figures.newest_groups(settings, temperatures, rollup) == {}


def test_a_long_text_is_cut_and_null_is_empty(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    rows = pa.table({"latitude": ["<b>" * 20, "b", None], "rows": [float("nan"), None, 2.0]})
    write_deltalake(settings.table_uri(ROLLUP.name), rows)
    groups = shown_groups(settings, replace(ROLLUP, by=["latitude"]))
    assert groups == [
        {"latitude": "", "rows": "2.0"},
        {"latitude": ("<b>" * 20)[:40], "rows": "nan"},
        {"latitude": "b", "rows": ""},
    ]


def test_a_missing_file_fails_no_run(settings: Settings) -> None:
    (file,) = Path(settings.table_uri(ROLLUP.name)).glob("*.parquet")
    file.unlink()
    assert figures.newest_groups(settings, temperatures, ROLLUP) == {}
