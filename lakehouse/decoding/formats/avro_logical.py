"""What Avro writes in another type than it means: days, moments, decimals, UUIDs; and numbers of 32 bits."""

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from lakehouse.decoding.fields import Beyond
from lakehouse.decoding.numbers import shifted

_FIRST_DAY, _EPOCH = date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_MOST_BYTES = 64  # of a decimal: no column holds as many digits, and to tell those of a megabyte takes minutes
_MOST_DIGITS = 8 * _MOST_BYTES
_SIXTEEN = 16
_ODD = {str(float(each)): Decimal(each) for each in ("NaN", "Infinity", "-Infinity")}
_FORMS = ("%.6g", "%.7g", "%.8g", "%.9g")  # of so many digits, a number of 32 bits is told from any other


def as_meant(schema: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """What turns a value of a schema into what it means; ``None`` where it means itself.

    A logical type that is unknown, or does not fit the type it stands on, means nothing, as the format has it.
    """
    meant, kind = schema.get("logicalType"), schema["type"]
    if meant == "date" and kind == "int":
        return _day
    if meant == "decimal" and is_decimal(schema):
        return _decimals(schema.get("scale", 0))
    if meant == "uuid" and kind == "fixed" and schema["size"] == _SIXTEEN:
        return lambda value: str(UUID(bytes=value))
    return _OF_LONG.get(meant.removeprefix("local-")) if kind == "long" and isinstance(meant, str) else None


def not_finite(value: float) -> Decimal:
    """A number that is not finite: a decimal, and always the same one."""
    return _ODD[str(value)]


def shortest(value: float, written: bytes) -> float | Decimal:
    """A number of 32 bits, which are ``written``, as the shortest that means it.

    What is not finite is a decimal: no column holds it, and it is no value that is missing.
    """
    if not isfinite(value):
        return not_finite(value)
    for form in _FORMS:
        short = float(form % value)
        try:
            if struct.pack("<f", short) == written:
                return short
        except OverflowError:  # rounded up beyond the greatest
            continue
    return value


def _day(days: int) -> date | Beyond:
    try:
        return _FIRST_DAY + timedelta(days=days)
    except OverflowError:
        return Beyond(f"day {days} from 1970")


def _moments(microseconds: int) -> Callable[[int], datetime | Beyond]:
    def moment(units: int) -> datetime | Beyond:
        try:
            return _EPOCH + timedelta(microseconds=units * microseconds)
        except OverflowError:
            return Beyond(f"{units * microseconds} microseconds after 1970")

    return moment


def _of_nanoseconds(nanoseconds: int) -> datetime | Beyond:
    """The moment to the microsecond: ties are rounded away from 1970."""
    whole, rest = divmod(abs(nanoseconds), 1000)
    microseconds = whole + (rest >= 500)
    return _moments(1)(microseconds if nanoseconds >= 0 else -microseconds)


def is_decimal(schema: Mapping[str, Any]) -> bool:
    """Whether a schema that says so is one of decimals: its digits are told, and fit the bytes it stands on."""
    precision, scale, size = schema.get("precision"), schema.get("scale", 0), schema.get("size")
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
        return False
    if schema.get("type") == "bytes":
        return 0 < precision <= _MOST_DIGITS
    held = size if schema.get("type") == "fixed" and type(size) is int else 0
    return held > 0 and 0 < precision < len(str(2 ** (8 * min(held, _MOST_BYTES) - 1) - 1))


def _decimals(scale: int) -> Callable[[bytes], Decimal | Beyond]:
    def decimal(written: bytes) -> Decimal | Beyond:
        if not 0 < len(written) <= _MOST_BYTES:
            return Beyond(f"a decimal of {len(written)} bytes")
        return shifted(int.from_bytes(written, signed=True), scale)

    return decimal


_OF_LONG: dict[str, Callable[[int], datetime | Beyond]] = {
    "timestamp-millis": _moments(1000),
    "timestamp-micros": _moments(1),
    "timestamp-nanos": _of_nanoseconds,
}
