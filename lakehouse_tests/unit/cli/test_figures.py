"""Figures about a declared table, read from tables that deltalake wrote."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.cli.demo import Figures
from lakehouse.declaration import Column, Measure, Reference, Rollup, StreamTable
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings

PLACES = {"Rome": ("41.900010", "12.500000"), "Paris": ("48.900010", "2.300003"), "London": ("51.500000", "-0.099991")}
DECIMAL = pa.decimal128(9, 6)


@pytest.fixture
def figures(tmp_path: Path) -> Figures:
    return Figures(Settings(home=tmp_path, _env_file=None), temperatures)


def write(figures: Figures, name: str, rows: list[dict[str, Any]]) -> None:
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    arrays = {k: pa.array(v, DECIMAL) if isinstance(v[0], Decimal) else pa.array(v) for k, v in columns.items()}
    write_deltalake(figures.settings.table_uri(name), pa.table(arrays))


def at(name: str) -> dict[str, Any]:
    latitude, longitude = PLACES[name]
    return {"latitude": Decimal(latitude), "longitude": Decimal(longitude)}


def test_equal_counts_are_shown_once_and_other_counts_by_name(figures: Figures) -> None:
    hours = {"Rome": 2, "Paris": 2, "London": 3}
    write(figures, "locations", [{**at(name), "name": name} for name in PLACES])
    write(figures, "temperatures", [{**at(name), "hour": hour} for name in hours for hour in range(hours[name])])
    assert figures.count() == "7 rows, 2 at each of 2 locations, 3 at London"


def test_changes_are_counted_after_a_version(figures: Figures) -> None:
    kinds = [("insert", 1), ("insert", 2), ("update", 2), ("update", 3)]
    write(figures, "temperatures_changes", [{"change": change, "source_version": at} for change, at in kinds])
    assert figures.changes_since(1) == "1 rows inserted, 2 rows changed"
    assert figures.changes_since(3) == "no row changed"


def test_a_table_that_does_not_exist_has_version_minus_one(figures: Figures) -> None:
    assert figures.version() == -1


def test_the_newest_rows_of_one_group_are_sorted_oldest_first(figures: Figures) -> None:
    (rollup,) = temperatures.rollups
    write(figures, "locations", [{**at(name), "name": name} for name in PLACES])
    write(figures, "temperatures", [{**at(name), "hour": 0} for name in PLACES])
    months = [datetime(2023, month, 1, tzinfo=UTC).date() for month in (1, 2, 3)]
    measures = dict.fromkeys(rollup.measures, 1)
    write(
        figures,
        rollup.name,
        [{**at(name), "observed_month": month, **measures} for name in PLACES for month in months],
    )
    group, result = figures.newest_of_one_group(rollup, limit=2)
    assert group == "London"
    assert [row[0] for row in result.rows] == months[1:]
    assert result.columns[:3] == ["observed_month", "rows", "readings"]
    assert "last_observed_at" not in result.columns


def test_names_that_are_sql_keywords_are_quoted(tmp_path: Path) -> None:
    rollup = Rollup("select", by=["group"], measures={"limit": Measure("count(*)", "BIGINT", "Rows.")}, doc="By group.")
    columns = [Column("group", "STRING", required=True, doc="A group."), Column("where", "INT", doc="A number.")]
    reference = Reference("desc", Path("desc.jsonl"), columns=columns[:1], key=["group"], doc="Names of groups.")
    parts: dict[str, Any] = {
        "columns": columns,
        "key": ["group", "where"],
        "rollups": [rollup],
        "references": [reference],
    }
    columns[1] = replace(columns[1], required=True)
    table = StreamTable("order", topic="order", doc="", **parts)
    figures = Figures(Settings(home=tmp_path, _env_file=None), table)
    write(figures, "order", [{"group": "a", "where": 1}, {"group": "a", "where": 2}])
    write(figures, "order_changes", [{"change": "insert", "source_version": 1}])
    write(figures, "select", [{"group": "a", "limit": 2}])
    write(figures, "desc", [{"group": "a"}])
    assert figures.count() == "2 rows, 2 at each of 1 desc"
    assert figures.changes_since(0) == "1 rows inserted"
    assert figures.newest_of_one_group(rollup)[1].rows == [(2,)]
