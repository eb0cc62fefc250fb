"""Times: how a text or a number becomes one, and when a record is late."""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Beyond, Epoch, Field, Rejection, out_of_range, shown, wrong_type
from lakehouse.decoding.numbers import exact_number, rounded, whole

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TWO = r"\d\d"
TIME_SHAPES = {"%Y": r"\d{4}", "%m": _TWO, "%d": _TWO, "%H": _TWO, "%M": _TWO, "%S": _TWO, "%f": r"\d{1,6}"}
EPOCHS: dict[Epoch, int] = {"seconds": 6, "milliseconds": 3, "microseconds": 0}
"""The units of a number that is a time, and the decimal places of one that are microseconds."""
DAYS: Epoch = "days"
"""The unit of a number that is a DATE."""


class Lateness(NamedTuple):
    """When a record is late: the field of its event time, how long after it the broker may get it, and what then."""

    name: str
    after: timedelta
    reject: bool


def judge_late(row: dict[str, Any], arrived: int, rule: Lateness) -> bool:
    """Say whether a decoded record is late; ``arrived`` is its broker time in microseconds since 1970, UTC.

    A record without an event time is not. Raises ``Rejection`` with the reason ``late`` where a late one
    may not enter.
    """
    event = row[rule.name]
    if event is None:
        return False
    happened = event if isinstance(event, datetime) else datetime(event.year, event.month, event.day, tzinfo=UTC)
    if arrived - (happened - _EPOCH) // _MICROSECOND <= rule.after // _MICROSECOND:
        return False
    if rule.reject:
        raise Rejection(
            "late", f"{rule.name!r} is {happened.isoformat()}, the broker got it {_moment(arrived)}, limit {rule.after}"
        )
    return True


def _moment(microseconds: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).isoformat()
    except OverflowError:
        return f"{microseconds} microseconds after 1970"


def read_time(raw: Any, field: Field) -> datetime | date:
    """Turn what is written, or a time that some reader made of it already, into a TIMESTAMP or a DATE.

    Raises ``Rejection`` with one of the reasons ``wrong_type``, ``wrong_time_format``, ``no_such_date`` or
    ``out_of_range``.
    """
    if isinstance(raw, datetime) and field.type == "TIMESTAMP":
        return raw if raw.tzinfo else raw.replace(tzinfo=UTC)
    if isinstance(raw, date) and not isinstance(raw, datetime) and field.type == "DATE":
        return raw
    if field.epoch is not None:
        return _counted(exact_number(raw, field), field)
    if field.pattern is not None:
        return _written(raw, field.pattern, field)
    return out_of_range(raw, field) if isinstance(raw, Beyond) else wrong_type(raw, field)


def _written(raw: Any, pattern: str, field: Field) -> datetime | date:
    if not isinstance(raw, str):
        wrong_type(raw, field)
    if not re.fullmatch(_shape(pattern), raw, re.ASCII):
        raise Rejection("wrong_time_format", f"{field.source!r} is {shown(raw)}, expected {pattern}")
    try:
        parsed = datetime.strptime(raw, pattern).replace(tzinfo=UTC)
    except ValueError:
        raise Rejection("no_such_date", f"{field.source!r} is {shown(raw)}") from None
    return parsed.date() if field.type == "DATE" else parsed


def _shape(pattern: str) -> str:
    shape = re.escape(pattern)
    for directive, digits in TIME_SHAPES.items():
        shape = shape.replace(directive, digits)
    return shape


def _counted(exact: Decimal, field: Field) -> datetime | date:
    """The moment that many units after 1970, UTC, to the microsecond: ties are rounded away from 1970."""
    try:
        if field.type == "DATE":
            return (_EPOCH + timedelta(days=whole(exact, field))).date()
        places = EPOCHS[field.epoch or "seconds"]
        return _EPOCH + timedelta(microseconds=int(rounded(exact, 18, places, field).scaleb(places)))
    except OverflowError:
        out_of_range(exact, field)
