"""Avro's logical types (dates, times, decimals, UUIDs), and its numbers of 32 bits."""

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from lakehouse.decoding.fields import UnrepresentableValue
from lakehouse.decoding.numbers import MAX_DECIMAL_BYTES, decimal_converter

_FIRST_DAY, _EPOCH_START = date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_MAX_DIGITS = 8 * MAX_DECIMAL_BYTES
_UUID_SIZE = 16
_NON_FINITE = {str(float(name)): Decimal(name) for name in ("NaN", "Infinity", "-Infinity")}
_FLOAT_FORMATS = ("%.6g", "%.7g", "%.8g", "%.9g")  # nine digits distinguish all numbers of 32 bits


def logical_converter(schema: Mapping[str, Any]) -> Callable[[Any], Any] | None:
    """Return the function that converts values to the logical type of a schema; ``None`` if there is none.

    A logical type that is unknown, or that does not fit the underlying type, is ignored, as Avro specifies.
    """
    logical_type, kind = schema.get("logicalType"), schema["type"]
    if logical_type == "date" and kind == "int":
        return to_date
    if logical_type == "decimal" and is_decimal(schema):
        return decimal_converter(schema.get("scale", 0))
    if logical_type == "uuid" and kind == "fixed" and schema["size"] == _UUID_SIZE:
        return lambda value: str(UUID(bytes=value))
    if kind == "long" and isinstance(logical_type, str):
        convert = TIME_CONVERTERS.get(logical_type.removeprefix("local-"))
        return _without_zone(convert) if convert and logical_type.startswith("local-") else convert
    return None


def non_finite_decimal(value: float) -> Decimal:
    """The decimal for a number that is not finite; always the same object."""
    return _NON_FINITE[str(value)]


def shortest_float(value: float, data: bytes) -> float | Decimal:
    """The number with the fewest digits that rounds to a number of 32 bits; ``data`` are its bytes.

    A number that is not finite is a decimal: no column accepts it, and it is not a missing value.
    """
    if not isfinite(value):
        return non_finite_decimal(value)
    for float_format in _FLOAT_FORMATS:
        short_number = float(float_format % value)
        try:
            if struct.pack("<f", short_number) == data:
                return short_number
        except OverflowError:  # rounded up beyond the greatest number
            continue
    return value


def to_date(days: int) -> date | UnrepresentableValue:
    """The date that many days after 1970."""
    try:
        return _FIRST_DAY + timedelta(days=days)
    except OverflowError:
        return UnrepresentableValue(f"day {days} from 1970")


def _time_converter(unit_microseconds: int) -> Callable[[int], datetime | UnrepresentableValue]:
    def to_time(units: int) -> datetime | UnrepresentableValue:
        try:
            return _EPOCH_START + timedelta(microseconds=units * unit_microseconds)
        except OverflowError:
            return UnrepresentableValue(f"{units * unit_microseconds} microseconds after 1970")

    return to_time


def _without_zone(
    convert: Callable[[int], datetime | UnrepresentableValue],
) -> Callable[[int], datetime | UnrepresentableValue]:
    """Return what converts a number to a local time: the zone of the column decides which time in UTC it is."""

    def to_local_time(units: int) -> datetime | UnrepresentableValue:
        time = convert(units)
        return time.replace(tzinfo=None) if isinstance(time, datetime) else time

    return to_local_time


def _from_nanoseconds(nanoseconds: int) -> datetime | UnrepresentableValue:
    """The time, rounded to microseconds; ties are rounded away from 1970."""
    quotient, remainder = divmod(abs(nanoseconds), 1000)
    microseconds = quotient + (remainder >= 500)
    return _time_converter(1)(microseconds if nanoseconds >= 0 else -microseconds)


def is_decimal(schema: Mapping[str, Any]) -> bool:
    """Whether a schema of the logical type decimal is valid: its precision and scale fit its bytes."""
    precision, scale, size = schema.get("precision"), schema.get("scale", 0), schema.get("size")
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
        return False
    if schema.get("type") == "bytes":
        return 0 < precision <= _MAX_DIGITS
    fixed_size = size if schema.get("type") == "fixed" and type(size) is int else 0
    return fixed_size > 0 and 0 < precision < len(str(2 ** (8 * min(fixed_size, MAX_DECIMAL_BYTES) - 1) - 1))


TIME_CONVERTERS: dict[str, Callable[[int], datetime | UnrepresentableValue]] = {
    "timestamp-millis": _time_converter(1000),
    "timestamp-micros": _time_converter(1),
    "timestamp-nanos": _from_nanoseconds,
}
