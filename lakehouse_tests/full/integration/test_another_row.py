"""A row that another program changes while a batch is merged: the batch compares it again, and loses nothing of it."""

from typing import Any

import pytest

from lakehouse.declaration import Column
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.storage import stored_table
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.streams import ABSENT, Stream, counts, record
from lakehouse_tests.helpers.tables.rows import rows_of

pytestmark = pytest.mark.invariant(4)


@pytest.fixture(params=["commit_merge", "store_quickly"])
def writes(request):
    """Who stores the rows of a batch: Spark, or deltalake where they are few."""
    with by_spark(request.param == "commit_merge"):
        yield request.param


@pytest.fixture
def stream(spark, broker) -> Stream:
    added = [Column("station", "STRING", doc="d"), Column("revision", "BIGINT", doc="d")]
    return Stream.create(spark, broker, columns=[*temperatures.columns, *added], version="revision")


def before_the_statement(monkeypatch: pytest.MonkeyPatch, work: Any) -> list[str]:
    """Do something once, after rows were compared and before they are stored; who stored them, each time."""
    attempts: list[str] = []

    def interfering(writes: str, store: Any) -> Any:
        def interfered(*arguments: Any) -> Any:
            attempts.append(writes)
            if len(attempts) == 1:
                work()
            return store(*arguments)

        return interfered

    for writes in ("commit_merge", "store_quickly"):
        monkeypatch.setattr(stored_table, writes, interfering(writes, getattr(stored_table, writes)))
    return attempts


def test_a_row_that_changed_after_it_was_compared_is_compared_again(stream, monkeypatch, writes):
    stream.send(record(temperature_2m=1.0, station="first", revision=1))
    stream.send(record(temperature_2m=ABSENT, station="second", revision=3))
    stream.merge()
    # older than the row, newer than its temperature: all other values of the row stay
    stream.send(record(temperature_2m=9.0, station="between", revision=2))
    attempts = before_the_statement(monkeypatch, lambda: stream.sql("UPDATE {t} SET station = 'foreign'"))
    (outcome,) = stream.merge()
    (row,) = rows_of(stream.settings, stream.table.name)
    assert (row["station"], row["temperature_2m"], row["revision"]) == ("foreign", 9.0, 3)
    assert counts(outcome.entry)["updated"] == 1 and (attempts[0], len(attempts)) == (writes, 2)
    stream.assert_accounted()


def test_a_row_that_is_there_only_after_the_comparison_is_compared_as_well(stream, monkeypatch, writes):
    stream.send(record(temperature_2m=1.0, station="first", revision=1))
    stream.merge()
    rows = stream.snapshot()
    stream.sql("CREATE OR REPLACE TEMP VIEW kept AS SELECT * FROM {t}")
    held = stream.spark.createDataFrame(stream.spark.table("kept").toArrow()).localCheckpoint()
    stream.sql("DELETE FROM {t}")
    stream.send(record(temperature_2m=2.0, station="older", revision=0))
    back = lambda: held.write.format("delta").mode("append").save(stream.uri)  # noqa: E731 - said once
    attempts = before_the_statement(monkeypatch, back)
    (outcome,) = stream.merge()
    assert stream.snapshot() == rows
    assert counts(outcome.entry)["stale"] == 1 and (attempts[0], len(attempts)) == (writes, 2)


def test_a_row_that_is_gone_after_the_comparison_does_not_come_back_with_its_values(stream, monkeypatch, writes):
    stream.send(record(temperature_2m=1.0, station="first", revision=1))
    stream.merge()
    stream.send(record(temperature_2m=ABSENT, station="second", revision=2))
    attempts = before_the_statement(monkeypatch, lambda: stream.sql("DELETE FROM {t}"))
    (outcome,) = stream.merge()
    (row,) = rows_of(stream.settings, stream.table.name)
    assert (row["station"], row["temperature_2m"], row["_kept"]["temperature_2m"]["position"]) == ("second", None, None)
    assert counts(outcome.entry)["inserted"] == 1 and (attempts[0], len(attempts)) == (writes, 2)
