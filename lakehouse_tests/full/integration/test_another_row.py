"""Another program changes a row during a merge: the batch compares the row again and loses none of its values."""

from typing import Any

import pytest

from lakehouse.declaration import Column
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.storage import stored_table
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.revised_streams import BY_REVISION
from lakehouse_tests.helpers.brokers.streams import ABSENT, Stream, counts, record
from lakehouse_tests.helpers.tables.rows import rows_of

pytestmark = pytest.mark.invariant("3.2")


@pytest.fixture(params=["commit_merge", "write_quickly"])
def writer(request):
    """The function that stores the rows of a batch: Spark's, or that of deltalake for few rows."""
    with by_spark(request.param == "commit_merge"):
        yield request.param


@pytest.fixture
def stream(spark, broker) -> Stream:
    added_columns = [Column("station", "STRING", doc="d"), Column("revision", "BIGINT", doc="d")]
    return Stream.create(spark, broker, columns=[*temperatures.columns, *added_columns], version=BY_REVISION)


def run_before_the_write(monkeypatch: pytest.MonkeyPatch, work: Any) -> list[str]:
    """Run the work once, between comparison and write; return the writers of all attempts."""
    attempts: list[str] = []

    def interfere_with(writer: str, store: Any) -> Any:
        def interfere_and_store(*arguments: Any) -> Any:
            attempts.append(writer)
            if len(attempts) == 1:
                work()
            return store(*arguments)

        return interfere_and_store

    for writer in ("commit_merge", "write_quickly"):
        monkeypatch.setattr(stored_table, writer, interfere_with(writer, getattr(stored_table, writer)))
    return attempts


def test_a_row_changed_after_its_comparison_is_compared_again(stream, monkeypatch, writer):
    stream.send(record(temperature_2m=1.0, station="first", revision=1))
    stream.send_and_merge(record(temperature_2m=ABSENT, station="second", revision=3))
    # older than the row, newer than its temperature: all other values of the row stay
    stream.send(record(temperature_2m=9.0, station="between", revision=2))
    attempts = run_before_the_write(monkeypatch, lambda: stream.sql("UPDATE {t} SET station = 'foreign'"))
    (outcome,) = stream.merge()
    (row,) = rows_of(stream.settings, stream.table.name)
    assert (row["station"], row["temperature_2m"], row["revision"]) == ("foreign", 9.0, 3)
    assert counts(outcome.entry)["updated"] == 1 and (attempts[0], len(attempts)) == (writer, 2)
    stream.assert_accounted()


def test_a_row_added_after_the_comparison_is_compared(stream, monkeypatch, writer):
    stream.send_and_merge(record(temperature_2m=1.0, station="first", revision=1))
    rows = stream.snapshot()
    stream.sql("CREATE OR REPLACE TEMP VIEW kept AS SELECT * FROM {t}")
    saved_rows = stream.spark.createDataFrame(stream.spark.table("kept").toArrow()).localCheckpoint()
    stream.sql("DELETE FROM {t}")
    stream.send(record(temperature_2m=2.0, station="older", revision=0))
    restore_rows = lambda: saved_rows.write.format("delta").mode("append").save(stream.uri)  # noqa: E731 - used once
    attempts = run_before_the_write(monkeypatch, restore_rows)
    (outcome,) = stream.merge()
    assert stream.snapshot() == rows
    assert counts(outcome.entry)["stale"] == 1 and (attempts[0], len(attempts)) == (writer, 2)


def test_a_row_deleted_after_the_comparison_does_not_return_with_its_values(stream, monkeypatch, writer):
    stream.send_and_merge(record(temperature_2m=1.0, station="first", revision=1))
    stream.send(record(temperature_2m=ABSENT, station="second", revision=2))
    attempts = run_before_the_write(monkeypatch, lambda: stream.sql("DELETE FROM {t}"))
    (outcome,) = stream.merge()
    (row,) = rows_of(stream.settings, stream.table.name)
    assert (row["station"], row["temperature_2m"], row["_kept"]["temperature_2m"]["position"]) == ("second", None, None)
    assert counts(outcome.entry)["inserted"] == 1 and (attempts[0], len(attempts)) == (writer, 2)
