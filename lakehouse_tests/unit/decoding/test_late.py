"""Whether a record is late follows from its own two times."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.times import Lateness, judge_late

pytestmark = pytest.mark.invariant(8)

HOUR = timedelta(hours=1)
EVENT = datetime(2026, 5, 1, 12, tzinfo=UTC)


def arrived(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("event", "broker_time", "late"),
    [
        (EVENT, EVENT + HOUR, False),
        (EVENT, EVENT + HOUR + timedelta(microseconds=1), True),
        (EVENT, EVENT - 9000 * HOUR, False),
        (EVENT.date(), EVENT.replace(hour=1), False),
        (EVENT.date(), EVENT.replace(hour=1, microsecond=1), True),
        (None, EVENT, False),
    ],
)
def test_late_is_more_than_the_limit_behind_the_broker(event: Any, broker_time: datetime, late: bool) -> None:
    assert judge_late({"at": event}, arrived(broker_time), Lateness("at", HOUR, reject=False)) is late


@pytest.mark.parametrize("broker_time", [arrived(EVENT + 2 * HOUR), 2**62])
def test_a_late_record_is_rejected_with_both_times_and_the_limit(broker_time: int) -> None:
    with pytest.raises(Rejection) as refused:
        judge_late({"at": EVENT}, broker_time, Lateness("at", HOUR, reject=True))
    assert refused.value.reason == "late"
    assert "'at' is 2026-05-01T12:00:00+00:00, the broker got it " in refused.value.detail
    assert refused.value.detail.endswith("limit 1:00:00")
