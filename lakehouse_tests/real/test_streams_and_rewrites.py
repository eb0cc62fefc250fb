"""What a rewrite means for streams of log tables and of feeds: what ``docs/how-to/read-tables.md`` says."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Value
from lakehouse.derived.refresh import refresh_changes
from lakehouse.ingest.batches import merge_all
from lakehouse.operations.rewrite_tables import rewrite_tables
from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.streamed import Lake

FED = ("change", "hash", "value_after")


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, Settings(home=tmp_path / "home"))


def values(*numbers: int) -> list[tuple[int]]:
    return [(number,) for number in numbers]


@pytest.mark.slow
def test_a_rewrite_with_other_partitions_does_not_disturb_a_stream_of_the_feed(lake: Lake) -> None:
    context = lake.merge_by_key(3)
    feed = lake.stream("hashes_changes", "feed")
    feed.rows()
    by_value = replace(context, table=replace(lake.table(["hash"], 4), partition_by=Value("value")))
    rewrite_tables(by_value)
    merge_all(by_value)
    refresh_changes(by_value)
    assert feed.rows(*FED) == [("insert", number, number) for number in range(4)]


@pytest.mark.slow
def test_a_rewrite_of_a_log_table_with_other_partitions_stops_its_stream(lake: Lake) -> None:
    context = lake.merge_into_log(3)
    stream = lake.stream("log")
    assert stream.rows("value") == values(*range(3))
    rewrite_tables(replace(context, table=replace(context.table, partition_by=Value("value"))))
    with pytest.raises(StreamingQueryException, match="DELTA_SCHEMA_CHANGED"):
        stream.rows("value")


@pytest.mark.slow
def test_after_a_column_of_a_log_table_is_widened_its_stream_needs_a_new_checkpoint(lake: Lake) -> None:
    context = lake.merge_into_log(3, Column("more", "INT", "More.", source="value"))
    stream = lake.stream("log")
    stream.rows("value")
    lake.merge_into_log(4, Column("more", "BIGINT", "More.", source="value", widened_from="INT"))
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="DELTA_SCHEMA_CHANGED"):
            stream.rows("value")
    after = {"startingVersion": str(context.ledger().version)}
    assert lake.stream("log", "after", after).rows("value") == values(3)
