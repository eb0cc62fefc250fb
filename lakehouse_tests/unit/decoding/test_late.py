"""Whether a record is late depends only on its own two times."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.times import Lateness, judge_late

pytestmark = pytest.mark.invariant("8.9")

HOUR = timedelta(hours=1)
EVENT = datetime(2026, 5, 1, 12, tzinfo=UTC)


def in_microseconds(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


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


@pytest.mark.parametrize("broker_time", [in_microseconds(EVENT + 2 * HOUR), 2**62])
def test_a_late_record_is_rejected_with_both_times_and_the_limit(broker_time: int) -> None:
    with pytest.raises(Rejection) as rejected:
        judge_late({"at": EVENT}, broker_time, Lateness("at", HOUR, rejects=True))
    assert rejected.value.reason == "late"
    assert "'at' is 2026-05-01T12:00:00+00:00, the broker received it " in rejected.value.detail
    assert rejected.value.detail.endswith("limit 1:00:00")
