"""Truncates: every older row is gone, and no older record brings one back."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import FieldIs
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import batches
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.dying_deletes import DiedError
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import Stream, counts, record

CONDITIONS = {
    "apply_as_deletes": FieldIs("operation", ["DELETE"]),
    "apply_as_truncates": FieldIs("operation", ["TRUNCATE"]),
}


def revised(spark: SparkSession, broker: Settings, **options: Any) -> Stream:
    """A table whose records have a revision that orders them."""
    revision = replace(temperatures.columns[3], name="revision", source=None, type="INT", keep=False, between=None)
    columns = [*temperatures.columns, revision]
    return Stream.create(spark, broker, columns=columns, version="revision", partitions=1, **options)


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["by deltalake", "by Spark"])
def stream(request: pytest.FixtureRequest, spark: SparkSession, broker: Settings) -> Iterator[Stream]:
    with by_spark(request.param):
        yield revised(spark, broker, **CONDITIONS)


def row(hour: str, revision: int, **fields: Any) -> bytes:
    return record(time=hour, revision=revision, **fields)


def truncate(revision: int) -> bytes:
    return b'{"operation": "TRUNCATE", "revision": %d}' % revision


def outcome(stream: Stream, *values: bytes) -> dict[str, int]:
    """Merge values in one batch; return its counts."""
    stream.send(*values)
    (merge_outcome,) = stream.merge()
    stream.assert_accounted()
    return {name: count for name, count in counts(merge_outcome.entry).items() if count}


@pytest.mark.invariant("14.7")
def test_a_truncate_deletes_every_older_row_and_no_older_record_comes_back(stream: Stream) -> None:
    first, second, third = stream.hours(3)
    outcome(stream, row(first, 1), row(second, 5))
    assert outcome(stream, truncate(3), row(third, 2)) == {"read": 2, "duplicate": 1, "stale": 1}
    assert set(stream.temperatures()) == {second}
    assert outcome(stream, row(first, 2), row(third, 4)) == {"read": 2, "stale": 1, "inserted": 1}
    assert set(stream.temperatures()) == {second, third}
    assert outcome(stream, truncate(2)) == {"read": 1, "duplicate": 1}
    before = stream.snapshot()
    stream.replay()
    assert stream.snapshot() == before


@pytest.mark.slow
@pytest.mark.invariant("14.7")
def test_a_truncate_erases_the_older_value_of_a_kept_column(stream: Stream) -> None:
    (hour,) = stream.hours(1)
    outcome(stream, row(hour, 1, temperature_2m=20.0))
    outcome(stream, row(hour, 5, temperature_2m=None))
    assert stream.temperatures() == {hour: 20.0}, "the column is kept"
    outcome(stream, truncate(3))
    assert stream.temperatures() == {hour: None}
    outcome(stream, row(hour, 2, temperature_2m=21.0))
    assert stream.temperatures() == {hour: None}
    outcome(stream, row(hour, 4, temperature_2m=22.0))
    assert stream.temperatures() == {hour: 22.0}


@pytest.mark.invariant("14.7")
def test_a_batch_that_dies_after_its_truncate_loses_no_record(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = stream.hours(2)
    outcome(stream, row(first, 1))
    stream.send(truncate(3), row(second, 4))

    def die(*_: Any) -> None:
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(batches, "merge_by_key", die)
        with pytest.raises(DiedError):
            stream.merge()
    assert stream.temperatures() == {}
    stream.merge()
    assert set(stream.temperatures()) == {second}
    stream.assert_accounted()


@pytest.mark.slow
def test_a_table_without_a_version_orders_truncates_by_the_broker(spark: SparkSession, broker: Settings) -> None:
    stream = Stream.create(spark, broker, partitions=1, apply_as_truncates=CONDITIONS["apply_as_truncates"])
    first, second = stream.hours(2)
    stream.send(record(time=first), b'{"operation": "TRUNCATE"}', record(time=second))
    stream.merge(max_records=1)
    assert set(stream.temperatures()) == {second}
    stream.replay(max_records=1)
    assert set(stream.temperatures()) == {second}
    stream.refresh()
    changes = stream.sql("SELECT change, count(*) FROM {changes} GROUP BY 1")
    assert {(change, count) for change, count in changes} == {("insert", 2), ("delete", 1)}


@pytest.mark.slow
@pytest.mark.invariant("14.7")
def test_a_text_that_orders_records_cannot_change_a_statement(spark: SparkSession, broker: Settings) -> None:
    revision = replace(temperatures.columns[3], name="revision", source=None, type="STRING", keep=False, between=None)
    columns = [*temperatures.columns, revision]
    stream = Stream.create(spark, broker, columns=columns, version="revision", partitions=1, **CONDITIONS)
    first, second = stream.hours(2)
    stream.send(record(time=first, revision="a"), record(time=second, revision="z"))
    stream.merge()
    stream.send(b'{"operation": "TRUNCATE", "revision": "b\' OR \\"t\\\\"}')
    stream.merge()
    assert set(stream.temperatures()) == {second}
    stream.send(record(time=first, revision="b"))
    stream.merge()
    assert set(stream.temperatures()) == {second}
