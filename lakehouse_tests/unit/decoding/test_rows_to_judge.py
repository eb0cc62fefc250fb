"""Which records are late, and what the rules of a table judge by: unknown values, and the values of late records."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.declaration import Column, Late, Reject, StreamTable, Time
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.rows import KnownValues, unknown_finder
from lakehouse.decoding.times import Lateness, judge_late
from lakehouse_tests.helpers.decoding.both_paths import decode_twice

COLUMNS = [
    Column("id", "INT", "Number.", required=True),
    Column("at", "TIMESTAMP", "When.", written=Time(epoch="seconds")),
]
LATE = Late("at", after=timedelta(seconds=60))
RULE = Reject("odd", when="id % 2 = 1")


def find_unknown(known_rows: list[tuple[Any, ...]], rows: list[tuple[Any, ...]], *types: pa.DataType) -> list[bool]:
    names = tuple("abc"[: len(types)])
    known_arrays, arrays = (
        tuple(pa.array([row[place] for row in all_rows], type_) for place, type_ in enumerate(types))
        for all_rows in (known_rows, rows)
    )
    find = unknown_finder(KnownValues(names, known_arrays))
    return list(find(pa.StructArray.from_arrays(list(arrays), names)).to_pylist())


def test_a_value_that_no_known_row_has_is_unknown_and_null_is_not() -> None:
    assert find_unknown([(7,), (None,)], [(7,), (8,), (None,)], pa.int64()) == [False, True, False]
    decimal = pa.decimal128(9, 2)
    assert find_unknown([(Decimal("1.50"),)], [(Decimal("1.50"),), (Decimal("1.51"),)], decimal) == [False, True]
    assert find_unknown([], [("a",), (None,)], pa.string()) == [True, False]
    assert find_unknown([(1,)], [], pa.int32()) == []


def test_several_values_must_be_in_one_known_row() -> None:
    rows = [(1, "a"), (1, "b"), (2, "b"), (2, None), (None, "a"), (3, "a")]
    unknown = find_unknown([(1, "a"), (2, "b")], rows, pa.int32(), pa.string())
    assert unknown == [False, True, False, False, False, True]


@pytest.mark.parametrize("rejects", [[], [RULE]])
def test_a_late_record_keeps_its_values_only_if_rules_judge_it(rejects: list[Reject]) -> None:
    values = [b'{"id": 1, "at": 1}', b'{"id": 2, "at": 100}', b'{"id": "x", "at": 1}', b'{"id": 4}']
    for late in (LATE, Late("at", LATE.after, "accept")):
        table = StreamTable("t", "t", "", COLUMNS, ["id"], late=late, rejects=rejects)
        rows = decode_twice(values, table.rules(), broker_times=[100 * 10**6] * 4).verdicts.to_pylist()
        is_rejected = late.policy == "reject"
        assert [row["_reason"] for row in rows] == ["late" if is_rejected else None, None, "wrong_type", None]
        assert [row["_late"] for row in rows] == [True, False, False, False]
        assert [row["id"] for row in rows] == [1 if rejects or not is_rejected else None, 2, None, 4]


def test_a_late_element_keeps_its_values_if_rules_judge_it() -> None:
    columns = [Column("id", "INT", "Number."), Column("at", "TIMESTAMP", "When.", written=Time(epoch="seconds"))]
    table = StreamTable("t", "t", "", columns, [], rows_from="items", late=LATE, rejects=[RULE])
    value = b'{"items": [{"id": 1, "at": 1}, {"id": 2, "at": 100}, {"id": "x"}]}'
    (rows,) = decode_twice([value], table.rules(), broker_times=[100 * 10**6]).verdicts.to_pylist()
    assert [(row["id"], row["_reason"]) for row in rows] == [(1, "late"), (2, None), (None, "wrong_type")]


HOUR = timedelta(hours=1)
EVENT = datetime(2026, 5, 1, 12, tzinfo=UTC)


def in_microseconds(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.invariant("8.9")
@pytest.mark.parametrize(
    ("event", "broker_time", "is_late"),
    [
        (EVENT, EVENT + HOUR, False),
        (EVENT, EVENT + HOUR + timedelta(microseconds=1), True),
        (EVENT, EVENT - 9000 * HOUR, False),
        (EVENT.date(), EVENT.replace(hour=1), False),
        (EVENT.date(), EVENT.replace(hour=1, microsecond=1), True),
        (None, EVENT, False),
    ],
)
def test_late_is_more_than_the_limit_before_the_broker_time(event: Any, broker_time: datetime, is_late: bool) -> None:
    assert judge_late({"at": event}, in_microseconds(broker_time), Lateness("at", HOUR, rejects=False)) is is_late


@pytest.mark.invariant("8.9")
@pytest.mark.parametrize("broker_time", [in_microseconds(EVENT + 2 * HOUR), 2**62])
def test_a_late_record_is_rejected_with_both_times_and_the_limit(broker_time: int) -> None:
    with pytest.raises(Rejection) as rejected:
        judge_late({"at": EVENT}, broker_time, Lateness("at", HOUR, rejects=True))
    assert rejected.value.reason == "late"
    assert "'at' is 2026-05-01T12:00:00+00:00, the broker received it " in rejected.value.detail
    assert rejected.value.detail.endswith("limit 1:00:00")
