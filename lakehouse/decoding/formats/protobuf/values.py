"""The values of the messages that Protobuf and its registries know: times, durations, wrappers, JSON, decimals.

Pure and self-contained: it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

from lakehouse.decoding.fields import UnrepresentableValue
from lakehouse.decoding.formats.avro.logical import TIME_CONVERTERS
from lakehouse.decoding.numbers import decimal_converter, scaled_decimal

_NANOSECONDS = 10**9
_MAX_DURATION = 315_576_000_000  # seconds: ten thousand years, the limit that Protobuf states
_MAX_SCALE = 1_000  # decimal places; no column has as many
_to_time = TIME_CONVERTERS["timestamp-nanos"]


def _timestamp(message: Any) -> Any:
    """The time, rounded to microseconds; ties are rounded away from 1970."""
    seconds, nanos = message.seconds, message.nanos
    if not 0 <= nanos < _NANOSECONDS:
        return UnrepresentableValue(f"{seconds} seconds after 1970 and {nanos} nanoseconds")
    return _to_time(seconds * _NANOSECONDS + nanos)


def _duration(message: Any) -> Decimal | UnrepresentableValue:
    """The number of seconds, exact to the nanosecond."""
    seconds, nanos = message.seconds, message.nanos
    is_consistent = seconds * nanos >= 0 and abs(nanos) < _NANOSECONDS and abs(seconds) <= _MAX_DURATION
    if not is_consistent:
        return UnrepresentableValue(f"a duration of {seconds} seconds and {nanos} nanoseconds")
    return scaled_decimal(seconds * _NANOSECONDS + nanos, 9)


def _date(message: Any) -> date | UnrepresentableValue:
    """The day; one without a year, a month or a day cannot be represented."""
    try:
        return date(message.year, message.month, message.day)
    except (ValueError, OverflowError):
        return UnrepresentableValue(f"the date {message.year}-{message.month}-{message.day}")


def _decimal(message: Any) -> Decimal | UnrepresentableValue:
    """The number with the unscaled value in ``value``, whose highest byte is the first."""
    if not 0 <= message.scale <= _MAX_SCALE:
        return UnrepresentableValue(f"a decimal with the scale {message.scale}")
    return decimal_converter(message.scale)(message.value or b"\x00")


WRAPPERS = {
    f"google.protobuf.{kind}Value": kind.lower()
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
"""The scalar type in each message that only wraps a value, so that the value may be null."""
CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.type.Date": _date,
    "confluent.type.Decimal": _decimal,
}
"""What makes a value of a message, by the name of the message."""
SHAPES = {
    "google.protobuf.Timestamp": "int64 seconds, int32 nanos",
    "google.protobuf.Duration": "int64 seconds, int32 nanos",
    "google.protobuf.Struct": "repeated message fields",
    "google.protobuf.ListValue": "repeated message values",
    "google.protobuf.Value": "enum null_value of kind, double number_value of kind, string string_value of kind,"
    " bool bool_value of kind, message struct_value of kind, message list_value of kind",
    "google.type.Date": "int32 year, int32 month, int32 day",
    "confluent.type.Decimal": "bytes value, uint32 precision, int32 scale",
    **{name: f"{type_} value" for name, type_ in WRAPPERS.items()},
}
"""The fields of the messages that are values and not objects, by the names of the messages."""
COLUMN_TYPES = {
    "google.protobuf.Timestamp": "TIMESTAMP",
    "google.protobuf.Duration": "DECIMAL(21,9)",
    "google.type.Date": "DATE",
}
"""The type of a column for such a value, if it follows from the name of the message."""
