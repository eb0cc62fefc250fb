"""A table of one column: a BOOLEAN that is the key and the group of the rollup."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, Measure, Rollup, StreamTable
from lakehouse.operations.verify import verify_keys, verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream

pytestmark = pytest.mark.invariant("10.5")


def switches() -> StreamTable:
    """A table whose only column is a BOOLEAN key."""
    name = f"switches_{uuid4().hex[:8]}"
    measures = {"rows": Measure("count(*)", "BIGINT", "Rows.")}
    by_state = Rollup(f"{name}_by_state", by=["is_on"], measures=measures, doc="Rows by state.")
    columns = [Column("is_on", "BOOLEAN", required=True, doc="Whether it is on.")]
    return StreamTable(name, name, "States that were seen.", columns, key=["is_on"], rollups=[by_state])


def state(is_on: bool) -> bytes:
    return json.dumps({"is_on": is_on}).encode()


def vacuum(uri: str) -> None:
    """Remove the files that are not in the newest version."""
    current_files = {Path(file).name for file in DeltaTable(uri).file_uris()}
    for file in Path(uri).glob("*.parquet"):
        if file.name not in current_files:
            file.unlink()


def test_a_table_of_one_boolean_key_is_merged_replayed_and_derived_without_change_data(spark, broker):
    stream = Stream.of(spark, broker, switches())
    stream.send_and_refresh(state(True), state(True))
    stream.send_and_merge(state(False))
    rows_before = stream.snapshot_of("is_on")
    stream.replay()
    assert stream.snapshot_of("is_on") == rows_before
    spark.sql(f"OPTIMIZE delta.`{stream.uri}`")
    vacuum(stream.uri)
    stream.refresh()
    feed = stream.sql("SELECT is_on, change, reconciled FROM {changes} ORDER BY number")
    assert feed == [(True, "insert", False), (False, "insert", True)]
    assert sorted(stream.sql("SELECT * FROM {rollup}")) == [(False, 1), (True, 1)]
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    assert verify_keys(stream.context).passed
    stream.assert_accounted()
