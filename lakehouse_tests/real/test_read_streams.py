"""Streams of Spark that read our tables, change data and feeds: each trigger, each output, and what disturbs them."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Column, Value
from lakehouse.derived.refresh import refresh_changes
from lakehouse.errors.causes import causes_of
from lakehouse.ingest.batches import merge_all
from lakehouse.operations.maintain import maintain
from lakehouse.operations.rewrite_tables import rewrite_tables
from lakehouse.settings import Settings
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.streamed import CHANGE_DATA, SKIP, Lake, Stream
from lakehouse_tests.helpers.waiting import wait_until

PAGE = (ROOT / "docs" / "how-to" / "read-tables.md").read_text(encoding="utf-8")
CHANGE = ("_change_type", "hash", "value")
FED = ("change", "hash", "value_after")


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, Settings(home=tmp_path / "home"))


def values(*numbers: int) -> list[tuple[int]]:
    return [(number,) for number in numbers]


def count_by_hash(rows: DataFrame) -> DataFrame:
    return rows.groupBy("hash").agg(F.count("*").alias("records"))


@pytest.mark.slow
def test_a_stream_of_a_log_table_has_each_record_once(lake: Lake) -> None:
    context = lake.merge_into_log(10)
    stream = lake.stream("log")
    assert stream.rows("value") == values(*range(10))
    lake.merge_into_log(20)
    maintain(context)
    lake.run("OPTIMIZE TABLE", "log")
    assert stream.rows("value") == values(*range(20))
    assert stream.rows("value") == values(*range(20))


def test_a_stream_of_change_data_has_the_rows_first_and_then_each_change(lake: Lake) -> None:
    context = lake.merge_by_key(5)
    stream = lake.stream("hashes", options=CHANGE_DATA)
    first_rows = [("insert", number, number) for number in range(5)]
    assert stream.rows(*CHANGE) == first_rows
    lake.merge_by_key(7)
    maintain(context)
    changes = [("update_postimage", 0, 5), ("update_postimage", 1, 6)]
    changes += [("update_preimage", 0, 0), ("update_preimage", 1, 1)]
    assert stream.rows(*CHANGE) == sorted([*first_rows, *changes])
    whole = lake.stream("hashes", "whole", {**CHANGE_DATA, "startingVersion": "0"})
    assert whole.rows(*CHANGE) == sorted([*first_rows, *changes])


@pytest.mark.slow
def test_the_examples_of_the_page_run(lake: Lake) -> None:
    lake.merge_by_key(5)
    lake.merge_into_log(10)
    copies = Path(lake.settings.home) / "copies"
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[4:]:
        code = example.replace("/lake/tables", lake.settings.tables_root).replace("/lake/copies", str(copies))
        exec(compile(code, "read-tables.md", "exec"), {"spark": lake.spark})  # noqa: S102 - the page's own examples
    counts = lake.spark.read.format("delta").load(str(copies / "counts" / "rows")).collect()
    assert sorted(map(tuple, counts)) == [(number, 2) for number in range(5)]
    assert lake.spark.read.format("delta").load(str(copies / "hashes" / "rows")).count() == 5


@pytest.mark.slow
@pytest.mark.parametrize("trigger", [{"once": True}, {"availableNow": True}], ids=lambda trigger: next(iter(trigger)))
def test_a_stream_ends_when_it_has_read_what_is_there(lake: Lake, trigger: dict[str, Any]) -> None:
    lake.merge_into_log(10)
    stream = lake.stream("log")
    stream.start(trigger).awaitTermination()
    assert stream.written_rows("value") == values(*range(10))
    lake.merge_into_log(12)
    stream.start(trigger).awaitTermination()
    assert stream.written_rows("value") == values(*range(12))


@pytest.mark.slow
def test_a_stream_with_a_processing_time_reads_each_merge_while_it_runs(lake: Lake) -> None:
    lake.merge_into_log(10)
    stream = lake.stream("log")
    query = stream.start({"processingTime": "1 second"})
    try:
        assert wait_until(lambda: stream.written_rows("value") == values(*range(10)), 60)
        lake.merge_into_log(20)
        assert wait_until(lambda: stream.written_rows("value") == values(*range(20)), 60)
    finally:
        query.stop()


@pytest.mark.slow
def test_complete_output_has_the_counts_of_all_groups_after_each_batch(lake: Lake) -> None:
    lake.merge_into_log(7)
    stream = lake.stream("log", mode="complete", transform=count_by_hash)
    assert stream.rows("hash", "records") == [(0, 2), (1, 2), (2, 1), (3, 1), (4, 1)]
    lake.merge_into_log(10)
    assert stream.rows("hash", "records") == [(number, 2) for number in range(5)]


@pytest.mark.slow
def test_complete_output_of_a_feed_counts_the_rows_of_a_table_with_a_key(lake: Lake) -> None:
    def count_rows(changes: DataFrame) -> DataFrame:
        return changes.groupBy().agg(F.expr("count_if(change = 'insert') - count_if(change = 'delete')").alias("rows"))

    lake.merge_by_key(3)
    stream = lake.stream("hashes_changes", mode="complete", transform=count_rows)
    assert stream.rows("rows") == [(3,)]
    lake.merge_by_key(12)
    assert stream.rows("rows") == [(5,)]


@pytest.mark.slow
def test_a_plain_stream_of_a_table_with_a_key_stops_at_the_first_update(lake: Lake) -> None:
    lake.merge_by_key(3)
    stream = lake.stream("hashes")
    assert stream.rows("value") == values(0, 1, 2)
    lake.merge_by_key(7)
    with pytest.raises(StreamingQueryException, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        stream.rows("value")
    lake.stream("hashes", options=SKIP).start().awaitTermination()
    assert stream.written_rows("value") == values(0, 1, 2)  # the rows 3 and 4 of the same commit are missing
    ignoring = lake.stream("hashes", "ignoring", {"ignoreChanges": "true"})
    assert ignoring.rows("value") == values(2, 3, 4, 5, 6)
    lake.merge_by_key(8)
    assert len(ignoring.rows("value")) > 6  # rows of the same file are sent again


@pytest.mark.slow
def test_after_a_restore_a_stream_of_a_log_table_must_skip_it_and_gets_its_records_again(lake: Lake) -> None:
    context = lake.merge_into_log(10)
    version = context.ledger().version
    lake.merge_into_log(12)
    stream = lake.stream("log")
    assert stream.rows("value") == values(*range(12))
    lake.run(f"RESTORE TABLE TO VERSION AS OF {version}", "log")
    with pytest.raises(StreamingQueryException, match="DELTA_SOURCE_IGNORE_DELETE"):
        stream.rows("value")
    lake.merge_into_log(12)
    skipping = lake.stream("log", options=SKIP)
    assert skipping.rows("value") == values(*range(10), 10, 10, 11, 11)
    assert len({row for (row,) in skipping.written_rows("struct(_record.*)")}) == 12  # their places are the same


def assert_stops_without_a_file(stream: Stream) -> None:
    with pytest.raises(StreamingQueryException) as stopped:
        stream.rows()
    conditions = [cause.condition for cause in causes_of(stopped.value)]
    assert "FAILED_READ_FILE.FILE_NOT_EXIST" in conditions, conditions


def rows_after(changes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of a table after all changes: version, kind, hash, value."""
    rows: dict[int, int] = {}
    for _, kind, key, value in sorted(changes):  # of a version, delete comes before insert
        if kind == "delete":
            rows.pop(key, None)
        elif kind != "update_preimage":
            rows[key] = value
    return sorted(rows.items())


@pytest.mark.slow
def test_a_restore_is_changes_in_change_data_and_in_the_feed(lake: Lake) -> None:
    context = lake.merge_by_key(5)
    version = context.ledger().version
    lake.merge_by_key(6)
    data, feed = lake.stream("hashes", options=CHANGE_DATA), lake.stream("hashes_changes", "feed")
    assert data.rows(*CHANGE) == [("insert", *pair) for pair in [(0, 5), (1, 1), (2, 2), (3, 3), (4, 4)]]
    feed.rows()
    lake.run(f"RESTORE TABLE TO VERSION AS OF {version}", "hashes")
    refresh_changes(context)
    restored_rows = [(number, number) for number in range(5)]
    assert rows_after(data.rows("_commit_version", *CHANGE)) == restored_rows
    assert feed.rows(*FED)[-1] == ("update", 0, 5)
    assert feed.written_rows(*FED).count(("update", 0, 0)) == 1
    lake.merge_by_key(6)
    assert rows_after(data.rows("_commit_version", *CHANGE)) == [(0, 5), *restored_rows[1:]]
    assert feed.rows(*FED).count(("update", 0, 5)) == 2


@pytest.mark.slow
def test_a_vacuum_stops_a_stream_of_change_data_that_is_behind_and_not_that_of_the_feed(lake: Lake) -> None:
    lake.merge_by_key(5)
    stream, feed = lake.stream("hashes", options=CHANGE_DATA), lake.stream("hashes_changes", "feed")
    late = lake.stream("hashes", "late", CHANGE_DATA)
    late.rows()
    lake.merge_by_key(7)
    lake.merge_by_key(9)
    stream.rows()
    lake.vacuum("hashes")
    lake.merge_by_key(10)
    assert ("update_postimage", 4, 9) in stream.rows(*CHANGE)
    assert_stops_without_a_file(late)
    assert [row for row in feed.rows(*FED) if row[0] == "insert"] == [("insert", number, number) for number in range(5)]
    new = lake.stream("hashes", "new", CHANGE_DATA)
    assert new.rows(*CHANGE) == [("insert", number, number + 5) for number in range(5)]


@pytest.mark.slow
def test_a_vacuum_of_compacted_files_stops_a_stream_of_a_log_table_that_is_behind(lake: Lake) -> None:
    lake.merge_into_log(10)
    stream, late = lake.stream("log"), lake.stream("log", "late")
    late.rows()
    lake.merge_into_log(12)
    lake.merge_into_log(14)
    stream.rows()
    lake.run("OPTIMIZE TABLE", "log")
    lake.vacuum("log")
    lake.merge_into_log(16)
    assert stream.rows("value") == values(*range(16))
    assert_stops_without_a_file(late)


@pytest.mark.slow
def test_a_new_column_stops_a_stream_that_runs_and_a_restart_goes_on(lake: Lake) -> None:
    lake.merge_into_log(3)
    stream = lake.stream("log", transform=lambda rows: rows.select("value"))
    query = stream.start({"processingTime": "1 second"})
    try:
        assert wait_until(lambda: stream.written_rows("value") == values(*range(3)), 60)
        lake.merge_into_log(5, Column("more", "BIGINT", "More.", source="value"))
        with pytest.raises(StreamingQueryException, match="DELTA_SCHEMA_CHANGED"):
            query.awaitTermination(60)
    finally:
        query.stop()
    assert stream.rows("value") == values(*range(5))


@pytest.mark.slow
def test_after_a_column_is_widened_a_stream_needs_a_new_checkpoint_and_may_start_after_that(lake: Lake) -> None:
    context = lake.merge_by_key(3, Column("more", "INT", "More.", source="value"))
    streams = [
        lake.stream("hashes", options=CHANGE_DATA),
        lake.stream("hashes", "skipping", SKIP),
        lake.stream("hashes_changes", "feed"),
    ]
    for stream in streams:
        stream.rows()
    lake.merge_by_key(4, Column("more", "BIGINT", "More.", source="value", widened_from="INT"))
    for stream in streams:
        with pytest.raises(StreamingQueryException, match="DELTA_SCHEMA_CHANGED"):
            stream.rows()
    after = {**CHANGE_DATA, "startingVersion": str(context.ledger().version)}
    assert lake.stream("hashes", "after", after).rows(*CHANGE) == [("insert", 3, 3)]


@pytest.mark.slow
def test_a_rewrite_with_other_partitions_stops_a_stream_of_change_data(lake: Lake) -> None:
    context = lake.merge_by_key(3)
    data = lake.stream("hashes", options=CHANGE_DATA)
    data.rows()
    rewrite_tables(replace(context, table=replace(context.table, partition_by=Value("value"))))
    with pytest.raises(StreamingQueryException, match="DELTA_SCHEMA_CHANGED"):
        data.rows()


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
