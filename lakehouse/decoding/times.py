"""Times: how a text or a number becomes a time, and when a record is late."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.decoding.fields import (
    Epoch,
    Field,
    Rejection,
    UnrepresentableValue,
    raise_out_of_range,
    raise_wrong_type,
)
from lakehouse.decoding.numbers import convert_whole, exact_number, round_decimal
from lakehouse.decoding.time_texts import local_to_utc, parse_time

_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
EPOCHS: dict[Epoch, int] = {"seconds": 6, "milliseconds": 3, "microseconds": 0, "nanoseconds": -3}
"""By the unit of a number that is a TIMESTAMP: the decimal places down to a microsecond."""
DAYS: Epoch = "days"
"""The unit of a number that is a DATE."""


class Lateness(NamedTuple):
    """When a record is late: the column of its event time, the allowed delay, and whether a late record is rejected.

    With ``keeps_row``, a record that is rejected as late keeps its values: a rule of the table may give another reason.
    """

    column: str
    limit: timedelta
    rejects: bool
    keeps_row: bool = False


def judge_late(row: dict[str, Any], broker_time: int, rule: Lateness) -> bool:
    """Whether a decoded record is late; ``broker_time`` is in microseconds since 1970, UTC.

    A record without an event time is not late. Raises ``Rejection`` with the reason ``late`` for a late record that
    the rule rejects.
    """
    event = row[rule.column]
    if event is None:
        return False
    event_time = event if isinstance(event, datetime) else datetime(event.year, event.month, event.day, tzinfo=UTC)
    if broker_time - (event_time - _EPOCH_START) // _MICROSECOND <= rule.limit // _MICROSECOND:
        return False
    if rule.rejects:
        received_text = f"the broker received it {_format_time(broker_time)}"
        raise Rejection("late", f"{rule.column!r} is {event_time.isoformat()}, {received_text}, limit {rule.limit}")
    return True


def _format_time(microseconds: int) -> str:
    try:
        return (_EPOCH_START + timedelta(microseconds=microseconds)).isoformat()
    except OverflowError:
        return f"{microseconds} microseconds after 1970"


def convert_time(raw: Any, field: Field) -> datetime | date:
    """Convert a text, a number or a time that a parser already made into a TIMESTAMP or a DATE.

    Raises ``Rejection`` with one of the reasons ``wrong_type``, ``wrong_time_format``, ``no_such_date``,
    ``ambiguous_time`` or ``out_of_range``.
    """
    if isinstance(raw, datetime) and field.type == "TIMESTAMP":
        return raw if raw.tzinfo else local_to_utc(raw, raw, field)
    if isinstance(raw, date) and not isinstance(raw, datetime) and field.type == "DATE":
        return raw
    if field.form.epoch is not None:
        return _time_since_epoch(exact_number(raw, field), field)
    if field.form.pattern is not None:
        time = parse_time(raw if isinstance(raw, str) else raise_wrong_type(raw, field), field.form.pattern, field)
        return time.date() if field.type == "DATE" else time
    return raise_out_of_range(raw, field) if isinstance(raw, UnrepresentableValue) else raise_wrong_type(raw, field)


def _time_since_epoch(number: Decimal, field: Field) -> datetime | date:
    """The time that many units after 1970, UTC, rounded to microseconds; ties are rounded away from 1970."""
    try:
        if field.type == "DATE":
            return (_EPOCH_START + timedelta(days=convert_whole(number, field))).date()
        places = EPOCHS[field.form.epoch or "seconds"]
        return _EPOCH_START + timedelta(microseconds=int(round_decimal(number, 18, places, field).scaleb(places)))
    except OverflowError:
        raise_out_of_range(number, field)
