"""Sinks follow tables that Spark and deltalake merge: merged tables, log tables, feeds and rollups, value by value."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Deletes, PostgresTable, Sink
from lakehouse.declaration.sink import row_identity
from lakehouse.operations.erase_rows import erase
from lakehouse.operations.maintain import maintain
from lakehouse.settings import Settings
from lakehouse.storage.spark_writer import run_restore
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.maintained_streams import MaintainedStream
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream, delete, record
from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.tables.delivered import Target, new_target


@pytest.fixture(scope="module")
def stream(spark: SparkSession, broker: Settings) -> MaintainedStream:
    return MaintainedStream.create(spark, broker, deletes=Deletes(when=DELETES))


@pytest.fixture
def database(postgres: Postgres, tmp_path: Path) -> Iterator[Target]:
    with new_target(postgres, tmp_path) as target:
        yield target


def target_of(database: Target, stream: Stream, name: str = "") -> Target:
    """A sink of a table of the stream, by default of the merged one."""
    of = name or stream.table.name
    settings = stream.settings.model_copy(update={"sink_urls": database.settings.sink_urls})
    sink = Sink(f"{of}_in_postgres", of=of, to=PostgresTable(of))
    identity = row_identity(stream.table, of)
    assert identity
    return replace(database, settings=settings, sink=sink, identity=identity)


def assert_equal(target: Target, kind: str | None = "changes") -> None:
    """Run the sink; every value of the target is that of the table."""
    assert target.update().kind == kind
    assert target.stored_rows() == target.table_rows()


@pytest.mark.invariant("10.14")
@pytest.mark.parametrize("spark_writes", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_target_follows_a_merged_table(stream: MaintainedStream, database: Target, *, spark_writes: bool) -> None:
    first, second, third, fourth = stream.hours(4)
    target = target_of(database, stream)
    with by_spark(spark_writes):
        stream.send_and_merge(record(time=first, temperature_2m=1.0), record(time=second))
        assert_equal(target, "whole")
        stream.send_and_merge(record(time=first, temperature_2m=1.5), record(time=third))
        stream.send_and_merge(delete(second), record(time=fourth, temperature_2m=None))
        assert_equal(target)
        stream.maintain()
        assert_equal(target, None)
        stream.send_and_merge(delete(first), record(time=second, temperature_2m=9.0))
        update = target.update()
    assert (update.rows, update.deleted) == (1, 1)
    assert target.stored_rows() == target.table_rows()


@pytest.mark.invariant("10.14")
def test_targets_follow_a_feed_and_rollups(stream: MaintainedStream, database: Target) -> None:
    (first,) = stream.send_hours(1)
    stream.merge()
    stream.refresh()
    targets = [target_of(database, stream, name) for name in stream.table.derived]
    assert len(targets) > 1
    for target in targets:
        assert_equal(target, "whole")
    stream.send_and_refresh(record(time=first, temperature_2m=3.25))
    stream.send_and_refresh(delete(first))
    for target in targets:
        assert_equal(target)
        assert target.delivery.equals_table().passed


@pytest.mark.invariant("10.14")
def test_a_target_follows_a_log_table(log_stream: Stream, database: Target) -> None:
    target = target_of(database, log_stream)
    repeated_record = record()
    log_stream.send_and_merge(repeated_record, repeated_record)
    assert_equal(target, "whole")
    log_stream.send_and_merge(repeated_record)
    assert_equal(target)
    assert len(target.rows(f'SELECT DISTINCT _record FROM "{log_stream.table.name}"')) == 3


@pytest.mark.slow
@pytest.mark.invariant("10.14")
def test_a_restored_table_is_followed(stream: MaintainedStream, database: Target) -> None:
    stream.merge_hours(1)
    target = target_of(database, stream)
    target.update()
    version = stream.ledger.version
    (removed_hour,) = stream.send_hours(1)
    stream.merge()
    target.update()
    run_restore(stream.spark, stream.context.merged.layout, version)
    assert target.update().deleted == 1
    stream.send_and_merge(record(time=removed_hour))
    assert_equal(target)


@pytest.mark.slow
@pytest.mark.invariant("10.9")
def test_vacuum_waits_for_an_enabled_sink_and_names_it(spark: SparkSession, broker: Settings, database: Target) -> None:
    stream = MaintainedStream.create(spark, broker)
    (hour,) = stream.send_hours(1)
    stream.merge()
    target = target_of(database, stream)
    target.update()
    stream.send_and_refresh(record(time=hour, temperature_2m=1.0))
    stream.set_retention(timedelta(seconds=1))
    context = replace(stream.context, settings=target.settings)
    merged, *_ = maintain(context, outlets=[target.sink])
    assert f"sink {target.sink.name} has read {stream.table.name} only up to version" in (merged.kept or "")
    assert_equal(target)
    merged, *_ = maintain(context, outlets=[target.sink])
    assert (merged.kept, merged.removed is not None) == (None, True)


@pytest.mark.slow
@pytest.mark.invariant("14.9")
def test_what_is_erased_is_deleted_from_the_target(stream: MaintainedStream, database: Target) -> None:
    target, unused = target_of(database, stream), target_of(database, stream, stream.table.changes_name)
    stream.merge_hours(2)
    target.update()
    row_count = len(target.stored_rows())
    context: Any = replace(stream.context, settings=target.settings)
    erasure = erase(context, "latitude > 0", [target.sink, unused.sink])
    assert erasure.exports == {target.sink.name: None}
    assert row_count > len(target.stored_rows())
    assert target.stored_rows() == target.table_rows()
