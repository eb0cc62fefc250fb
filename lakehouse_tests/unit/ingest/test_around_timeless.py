"""What is said where Spark fails as it does on a record with an impossible time, and there is none."""

from typing import Any

import pytest
from pyspark.errors import PySparkException

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import around_timeless
from lakehouse.kafka import CutPlan, Record, TimelessRecordError, read_failures
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext

pytestmark = pytest.mark.invariant(8)

PLAN = Plan("t", SourceId("kafka", "c/t"), (Range(0, 0, 9),))
OVERFLOW = "Lost task 0.0 in stage 7.0 (TID 9) (h executor driver): java.lang.ArithmeticException: long overflow"
TIMELESS = Record(0, 4, 2**62, None, b"{}")


def taken_for_a_time(error: Exception) -> TimelessRecordError:
    with pytest.raises(TimelessRecordError) as told, read_failures(PLAN, "lakehouse merge t"):
        raise error
    return told.value


def hold_around(monkeypatch: pytest.MonkeyPatch, failure: TimelessRecordError, *found: Record) -> None:
    none: Any = None
    monkeypatch.setattr(around_timeless, "cut_around", lambda *_: CutPlan(PLAN, (PLAN,), (), found))
    around_timeless.hold_around(TableContext(none, Settings(), temperatures), PLAN, "batch", failure)


def test_where_no_record_has_such_a_time_the_error_of_spark_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    error = PySparkException(OVERFLOW)
    with pytest.raises(PySparkException) as told:
        hold_around(monkeypatch, taken_for_a_time(error))
    assert told.value is error


def test_where_such_records_are_left_out_another_overflow_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    error = PySparkException(OVERFLOW)

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(around_timeless, "_hold_all", fails)
    with pytest.raises(PySparkException) as told:
        hold_around(monkeypatch, taken_for_a_time(PySparkException(OVERFLOW)), TIMELESS)
    assert told.value is error


def test_records_are_only_to_be_deleted_where_spark_names_one() -> None:
    named = "Record at topic t partition 0 offset 7 has timestamp value 9223372036854775807 that overflows"
    assert "delete the records up to it" in str(taken_for_a_time(PySparkException(named)))
    assert "before any is deleted" in str(taken_for_a_time(PySparkException(OVERFLOW)))
