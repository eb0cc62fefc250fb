"""The plan shows what a changed declaration does, and the next run does exactly that."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Check, Column, Measure, StreamTable
from lakehouse.errors import DeclarationError, TableError
from lakehouse.operations.planned_changes import plan_changes, plan_types
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.tables.tables import redeclare

STATION = Column("station", "STRING", doc="Its name.")


def planned_kinds(stream: Stream, table: StreamTable) -> list[tuple[str, str]]:
    """The changes of the tables of a run: the suffix of the table name, and the kind of change."""
    changes = plan_changes(stream.settings, table)
    return [
        (change.table.removeprefix(table.name), change.kind)
        for change in changes
        if change.table.startswith(table.name)
    ]


@pytest.mark.invariant("10.10")
@pytest.mark.slow
def test_a_change_is_planned_until_it_is_applied(spark, broker):
    stream = Stream.create(spark, broker, base=None, references=())
    suffixes = ["", "_rejected", "_changes", "_by_location"]
    assert planned_kinds(stream, stream.table) == [(suffix, "create") for suffix in suffixes]
    stream.send_and_refresh(record(time=hour(0)))
    assert planned_kinds(stream, stream.table) == []

    table = stream.table
    (rollup,) = table.rollups
    new_rollup = replace(rollup, measures={**rollup.measures, "stations": Measure("count(station)", "BIGINT", "")})
    stream.table = replace(table, columns=[*table.columns, STATION], rollups=[new_rollup])
    added_columns = [("", "add column"), ("_changes", "add column"), ("_changes", "add column")]
    assert planned_kinds(stream, stream.table) == [
        *added_columns,
        ("_by_location", "add column"),
        ("_by_location", "recompute"),
    ]
    version = DeltaTable(stream.uri).version()
    assert DeltaTable(stream.uri).version() == version, "nothing is written"
    stream.send_and_refresh(record(time=hour(1), station="north"))
    assert planned_kinds(stream, stream.table) == []
    assert stream.sql("SELECT station FROM {t} ORDER BY observed_at") == [(None,), ("north",)]
    assert stream.sql("SELECT stations FROM {rollup}") == [(1,)]

    changed_station = replace(STATION, type="BIGINT")
    refused_table = replace(stream.table, columns=[*table.columns, changed_station])
    assert ("", "refuse") in planned_kinds(stream, refused_table)
    (refusal, *_) = (change.detail for change in plan_changes(stream.settings, refused_table))
    stream.table = refused_table
    with pytest.raises(TableError) as error:
        stream.merge()
    assert str(error.value) == refusal


@pytest.mark.slow
def test_another_key_is_refused_before_anything_is_written(spark, broker):
    stream = Stream.create(spark, broker, base=None, references=())
    stream.send_and_refresh(record(time=hour(0)))
    version = stream.ledger.version
    for key in (["latitude", "observed_at"], ["observed_at"]):
        other_table = replace(stream.table, key=key)
        (change,) = plan_changes(stream.settings, other_table)
        assert (change.table, change.kind) == (stream.table.name, "refuse")
        assert "latitude,longitude,observed_at" in change.detail
        with pytest.raises(TableError, match="The key of"):
            Stream(spark, broker, other_table).merge()
    reordered_table = replace(stream.table, key=[*reversed(stream.table.key)])
    assert planned_kinds(stream, reordered_table) == []
    assert stream.ledger.version == version


@pytest.mark.slow
def test_a_table_without_a_recorded_key_gets_one(spark, broker):
    stream = Stream.create(spark, broker, base=None, references=())
    stream.send_and_merge(record(time=hour(0)))
    spark.sql(f"ALTER TABLE delta.`{stream.uri}` UNSET TBLPROPERTIES ('lakehouse.key')")
    assert ("", "set property") in planned_kinds(stream, stream.table)
    stream.send_and_refresh(record(time=hour(1)))
    assert planned_kinds(stream, stream.table) == []


@pytest.mark.slow
def test_the_plan_refuses_the_changes_at_which_a_run_would_stop(spark, broker):
    stream = Stream.create(spark, broker, references=())
    stream.send_and_refresh(record(time=hour(0)))
    assert planned_kinds(stream, stream.table) == [], "the run does not create a base table that was never loaded"
    moved_table = redeclare(stream.table, topic="elsewhere", columns=[*stream.table.columns, STATION])
    assert [kind for _, kind in planned_kinds(stream, moved_table)] == ["refuse", "add column"]
    log = Path(stream.settings.table_uri(stream.table.changes_name), "_delta_log")
    (newest_commit,) = sorted(log.glob("*.json"))[-1:]
    newest_commit.write_text("{")
    kinds = planned_kinds(stream, replace(stream.table, columns=[*stream.table.columns, STATION]))
    assert ("_changes", "refuse") in kinds and ("", "add column") in kinds


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"checks": [Check("few", "temperature_2m + 1", doc="Wrong.")]}, "check few: .* has type double"),
        ({"checks": [Check("ok", "true", doc=""), Check("odd", "nope(latitude) = 1", doc="")]}, "check odd: .*nope"),
        ({"measures": {"mean": Measure("avg(observed_at = 1)", "DOUBLE", "")}}, "measure mean: "),
        ({"measures": {"first": Measure("count(*)", "DATE", "")}}, "measure first: "),
    ],
)
def test_sql_that_spark_cannot_compute_is_refused_before_anything_is_read(spark, broker, changes, part: str):
    stream = Stream.create(spark, broker, base=None, references=())
    stream.send(record(time=hour(0)))
    if "measures" in changes:
        (rollup,) = stream.table.rollups
        changes = {"rollups": [replace(rollup, measures={**rollup.measures, **changes["measures"]})]}
    stream.table = redeclare(stream.table, **changes)
    (change,) = plan_types(spark, stream.table)
    assert change.kind == "refuse"
    assert re.search(part, change.detail)
    with pytest.raises(DeclarationError, match=part):
        stream.merge()
    assert not Path(stream.uri).exists()
