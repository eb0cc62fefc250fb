"""What a changed declaration does is told before it is done, and it is done so."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Check, Column, Measure, StreamTable
from lakehouse.errors import DeclarationError, TableError
from lakehouse.operations.planned_changes import plan_changes, plan_types
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant(10)

STATION = Column("station", "STRING", doc="Its name.")


def planned(stream: Stream, table: StreamTable) -> list[tuple[str, str]]:
    """Which table is changed how, of those that the run makes; its name without that of the declaration."""
    changes = plan_changes(stream.settings, table)
    return [(each.table.removeprefix(table.name), each.kind) for each in changes if each.table.startswith(table.name)]


def test_a_change_is_planned_before_it_is_made_and_then_no_more(spark, broker):
    stream = Stream.create(spark, broker, base=None, references=())
    every = ["", "_rejected", "_changes", "_by_location"]
    assert planned(stream, stream.table) == [(name, "create") for name in every]
    stream.send(record(time=hour(0)))
    stream.merge()
    stream.refresh()
    assert planned(stream, stream.table) == []

    before = stream.table
    (rollup,) = before.rollups
    counted = replace(rollup, measures={**rollup.measures, "stations": Measure("count(station)", "BIGINT", "")})
    stream.table = replace(before, columns=[*before.columns, STATION], rollups=[counted])
    added = [("", "add column"), ("_changes", "add column"), ("_changes", "add column")]
    assert planned(stream, stream.table) == [
        *added,
        ("_by_location", "add column"),
        ("_by_location", "compute anew"),
    ]
    version = DeltaTable(stream.uri).version()
    assert DeltaTable(stream.uri).version() == version, "nothing is written"
    stream.send(record(time=hour(1), station="north"))
    stream.merge()
    stream.refresh()
    assert planned(stream, stream.table) == []
    assert stream.sql("SELECT station FROM {t} ORDER BY observed_at") == [(None,), ("north",)]
    assert stream.sql("SELECT stations FROM {rollup}") == [(1,)]

    otherwise = replace(STATION, type="BIGINT")
    refused = replace(stream.table, columns=[*before.columns, otherwise])
    assert ("", "refuse") in planned(stream, refused)
    (told, *_) = (each.detail for each in plan_changes(stream.settings, refused))
    stream.table = refused
    with pytest.raises(TableError) as stopped:
        stream.merge()
    assert str(stopped.value) == told


def test_another_key_is_refused_before_anything_is_written(spark, broker):
    stream = Stream.create(spark, broker, base=None, references=())
    stream.send(record(time=hour(0)))
    stream.merge()
    stream.refresh()
    version = stream.ledger.version
    for key in (["latitude", "observed_at"], ["observed_at"]):
        other = replace(stream.table, key=key)
        (told,) = plan_changes(stream.settings, other)
        assert (told.table, told.kind) == (stream.table.name, "refuse")
        assert "latitude,longitude,observed_at" in told.detail
        with pytest.raises(TableError, match="The key of"):
            Stream(spark, broker, other).merge()
    reordered = replace(stream.table, key=[*reversed(stream.table.key)])
    assert planned(stream, reordered) == []
    assert stream.ledger.version == version


@pytest.mark.slow
def test_a_table_from_before_keys_were_told_is_given_its_own(spark, broker):
    stream = Stream.create(spark, broker, base=None, references=())
    stream.send(record(time=hour(0)))
    stream.merge()
    spark.sql(f"ALTER TABLE delta.`{stream.uri}` UNSET TBLPROPERTIES ('lakehouse.key')")
    assert ("", "set property") in planned(stream, stream.table)
    stream.send(record(time=hour(1)))
    stream.merge()
    stream.refresh()
    assert planned(stream, stream.table) == []


@pytest.mark.slow
def test_what_the_run_stops_at_is_refused_and_nothing_behind_it_is_told(spark, broker):
    stream = Stream.create(spark, broker, references=())
    stream.send(record(time=hour(0)))
    stream.merge()
    stream.refresh()
    assert planned(stream, stream.table) == [], "a base that nobody loaded is none of the run's"
    elsewhere = replace(stream.table, topic="elsewhere", columns=[*stream.table.columns, STATION])
    assert [kind for _, kind in planned(stream, elsewhere)] == ["refuse", "add column"]
    (newest,) = sorted(Path(stream.settings.table_uri(stream.table.changes_name), "_delta_log").glob("*.json"))[-1:]
    newest.write_text("{")
    kinds = planned(stream, replace(stream.table, columns=[*stream.table.columns, STATION]))
    assert ("_changes", "refuse") in kinds and ("", "add column") in kinds


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"checks": [Check("few", "temperature_2m + 1", doc="Wrong.")]}, "check few: .* gives double"),
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
    stream.table = replace(stream.table, **changes)
    (told,) = plan_types(spark, stream.table)
    assert told.kind == "refuse"
    assert re.search(part, told.detail)
    with pytest.raises(DeclarationError, match=part):
        stream.merge()
    assert not Path(stream.uri).exists()
