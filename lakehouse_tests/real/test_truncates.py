"""Truncates: every older row is gone, and no older record brings one back."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Deletes, FieldIs
from lakehouse.ingest import batches
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.dying_deletes import DiedError
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.revised_streams import outcome, row, stream_with_revisions, truncate
from lakehouse_tests.helpers.brokers.streams import DELETES, Stream, record

CONDITIONS = Deletes(DELETES, truncates=FieldIs("operation", ["TRUNCATE"]))


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["by deltalake", "by Spark"])
def stream(request: pytest.FixtureRequest, spark: SparkSession, broker: Settings) -> Iterator[Stream]:
    """A table whose records have a revision that orders them."""
    with by_spark(request.param):
        yield stream_with_revisions(spark, broker, deletes=CONDITIONS)


@pytest.mark.invariant("14.7")
def test_a_truncate_deletes_every_older_row_and_no_older_record_comes_back(stream: Stream) -> None:
    first, second, third = stream.hours(3)
    outcome(stream, row(first, 1), row(second, 5))
    assert outcome(stream, truncate(3), row(third, 2)) == {"read": 2, "superseded": 1, "stale": 1}
    assert set(stream.temperatures()) == {second}
    assert outcome(stream, row(first, 2), row(third, 4)) == {"read": 2, "stale": 1, "inserted": 1}
    assert set(stream.temperatures()) == {second, third}
    assert outcome(stream, truncate(2)) == {"read": 1, "superseded": 1}
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
    stream = Stream.create(spark, broker, partitions=1, deletes=Deletes(truncates=CONDITIONS.truncates))
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
    stream = stream_with_revisions(spark, broker, "STRING", deletes=CONDITIONS)
    first, second = stream.hours(2)
    stream.send_and_merge(record(time=first, revision="a"), record(time=second, revision="z"))
    stream.send_and_merge(b'{"operation": "TRUNCATE", "revision": "b\' OR \\"t\\\\"}')
    assert set(stream.temperatures()) == {second}
    stream.send_and_merge(record(time=first, revision="b"))
    assert set(stream.temperatures()) == {second}
