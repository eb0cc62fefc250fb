"""What a changed declaration does is told before it is done, and it is done so."""

from dataclasses import replace

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Measure, StreamTable
from lakehouse.errors import TableError
from lakehouse.upkeep.plan import plan_changes
from lakehouse_tests.helpers.streams import Stream, hour, record

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
