"""Tables of few columns: keyed and rolled up by a BOOLEAN alone, or with nothing beside the key."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Measure, Rollup, StreamTable
from lakehouse.kafka import create_topic
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream

pytestmark = pytest.mark.invariant(7, 10)


def switches() -> StreamTable:
    """Nothing but a key, and that one BOOLEAN."""
    name = f"switches_{uuid4().hex[:8]}"
    rows = {"rows": Measure("count(*)", "BIGINT", "Rows.")}
    by_state = Rollup(f"{name}_by_state", by=["is_on"], measures=rows, doc="Rows by state.")
    columns = [Column("is_on", "BOOLEAN", required=True, doc="Whether it is on.")]
    return StreamTable(name, name, "States that were seen.", columns, key=["is_on"], rollups=[by_state])


def state(is_on: bool) -> bytes:
    return json.dumps({"is_on": is_on}).encode()


def vacuum(uri: str) -> None:
    """Remove the files that the newest version does not have."""
    active = {Path(file).name for file in DeltaTable(uri).file_uris()}
    for file in Path(uri).glob("*.parquet"):
        if file.name not in active:
            file.unlink()


def test_a_boolean_key_alone_is_merged_replayed_and_derived_also_where_changes_are_gone(spark, broker):
    stream = Stream(spark, broker, switches())
    create_topic(broker, stream.table)
    stream.send(state(True), state(True))
    stream.merge()
    stream.refresh()
    stream.send(state(False))
    stream.merge()
    before = stream.snapshot_of("is_on")
    stream.replay()
    assert stream.snapshot_of("is_on") == before
    spark.sql(f"OPTIMIZE delta.`{stream.uri}`")
    vacuum(stream.uri)
    stream.refresh()
    feed = stream.sql("SELECT is_on, change, reconciled FROM {changes} ORDER BY number")
    assert feed == [(True, "insert", False), (False, "insert", True)]
    assert sorted(stream.sql("SELECT * FROM {rollup}")) == [(False, 1), (True, 1)]
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    assert verify_keys(stream.context).passed
    stream.assert_accounted()
