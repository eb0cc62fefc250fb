"""Errors when Spark fails as it does on a record whose time is out of range, but there is no such record."""

from typing import Any

import pytest
from pyspark.errors import PySparkException

from lakehouse.declaration import Column, Explode, FieldExists, StreamTable
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import staging
from lakehouse.kafka import CutPlan, Record, TimelessRecordError, read_failures
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext

PLAN = Plan("t", SourceId("kafka", "c/t"), (Range(0, 0, 9),))
OVERFLOW = "Lost task 0.0 in stage 7.0 (TID 9) (h executor driver): java.lang.ArithmeticException: long overflow"
TIMELESS = Record(0, 4, 2**62, None, b"{}")


def timeless_error(error: Exception) -> TimelessRecordError:
    with pytest.raises(TimelessRecordError) as raised, read_failures(PLAN, "lakehouse merge t"):
        raise error
    return raised.value


def stage(monkeypatch: pytest.MonkeyPatch, failure: TimelessRecordError, *timeless_records: Record) -> None:
    no_session: Any = None
    monkeypatch.setattr(staging, "cut_around", lambda *_: CutPlan(PLAN, (PLAN,), (), timeless_records))
    staging.stage_around_timeless(TableContext(no_session, Settings(), temperatures), PLAN, "batch", failure)


@pytest.mark.invariant("8.7")
def test_if_no_record_is_timeless_the_error_of_spark_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    error = PySparkException(OVERFLOW)
    with pytest.raises(PySparkException) as raised:
        stage(monkeypatch, timeless_error(error))
    assert raised.value is error


@pytest.mark.invariant("8.7")
def test_another_overflow_without_timeless_records_is_raised_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    error = PySparkException(OVERFLOW)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(staging, "_stage_cut", fail)
    with pytest.raises(PySparkException) as raised:
        stage(monkeypatch, timeless_error(PySparkException(OVERFLOW)), TIMELESS)
    assert raised.value is error


def test_an_error_advises_to_delete_records_only_if_spark_names_one() -> None:
    message = "Record at topic t partition 0 offset 7 has timestamp value 9223372036854775807 that overflows"
    assert "delete the records up to it" in str(timeless_error(PySparkException(message)))
    assert "before you delete any" in str(timeless_error(PySparkException(OVERFLOW)))


@pytest.mark.invariant("8.7")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"i": [{"b": 1}, {"a": 1}]}', "no_such_time"),
        (b'{"i": [{"b": 1}, {"b": 2}]}', "filtered"),
        (b'{"i": []}', "no_such_time"),
    ],
)
def test_a_record_without_a_time_is_filtered_only_if_each_element_is(value: bytes, reason: str) -> None:
    columns = [Column("a", "BIGINT", "A number.")]
    table = StreamTable("t", "t", "", columns, [], rows_from=Explode("i", where=FieldExists("a")))
    assert staging._reason_of(Record(0, 4, 2**62, None, value), table.rules()) == reason
