"""The values of the messages that Protobuf and its registries know: times, durations, wrappers, JSON, decimals.

Pure and self-contained (the standard library only), like ``reader``.
"""

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from lakehouse.decoding.fields import Rejection, UnrepresentableValue
from lakehouse.decoding.formats.avro.logical import TIME_CONVERTERS
from lakehouse.decoding.numbers import scaled_decimal
from lakehouse.decoding.unscaled_decimals import decimal_converter

_NANOSECONDS = 10**9
_MAX_DURATION = 315_576_000_000  # seconds: ten thousand years, the limit that Protobuf states
_MAX_SCALE = 1_000  # decimal places; no column has as many
_to_time = TIME_CONVERTERS["timestamp-nanos"]

Fields = Mapping[str, Any]
"""The values of the fields of a message."""


def _timestamp(fields: Fields) -> Any:
    """The time, rounded to microseconds; ties are rounded away from 1970."""
    seconds, nanos = fields["seconds"], fields["nanos"]
    if not 0 <= nanos < _NANOSECONDS:
        return UnrepresentableValue(f"{seconds} seconds after 1970 and {nanos} nanoseconds")
    return _to_time(seconds * _NANOSECONDS + nanos)


def _duration(fields: Fields) -> Decimal | UnrepresentableValue:
    """The number of seconds, exact to the nanosecond."""
    seconds, nanos = fields["seconds"], fields["nanos"]
    is_consistent = seconds * nanos >= 0 and abs(nanos) < _NANOSECONDS and abs(seconds) <= _MAX_DURATION
    if not is_consistent:
        return UnrepresentableValue(f"a duration of {seconds} seconds and {nanos} nanoseconds")
    return scaled_decimal(seconds * _NANOSECONDS + nanos, 9)


def _date(fields: Fields) -> date | UnrepresentableValue:
    """The day; one without a year, a month or a day cannot be represented."""
    try:
        return date(fields["year"], fields["month"], fields["day"])
    except (ValueError, OverflowError):
        return UnrepresentableValue(f"the date {fields['year']}-{fields['month']}-{fields['day']}")


def _decimal(fields: Fields) -> Decimal | UnrepresentableValue:
    """The number with the unscaled value in ``value``, whose highest byte is the first."""
    scale = fields["scale"]
    if not 0 <= scale <= _MAX_SCALE:
        return UnrepresentableValue(f"a decimal with the scale {scale}")
    return decimal_converter(scale)(fields["value"] or b"\x00")


def _json_value(fields: Fields) -> Any:
    """The value of JSON that one of the fields holds."""
    names = [name for name in fields if not name.startswith("#")]
    if not names:
        raise Rejection("invalid_protobuf", "a google.protobuf.Value has no value")
    return None if names[0] == "null_value" else fields[names[0]]


WRAPPERS = {
    f"google.protobuf.{kind}Value": kind.lower()
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
"""The scalar type in each message that only wraps a value, so that the value may be null."""
CONVERTERS: dict[str, Callable[[Fields], Any]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.Struct": lambda fields: fields["fields"],
    "google.protobuf.ListValue": lambda fields: fields["values"],
    "google.protobuf.Value": _json_value,
    "google.type.Date": _date,
    "confluent.type.Decimal": _decimal,
    **dict.fromkeys(WRAPPERS, lambda fields: fields["value"]),
}
"""What converts the fields of a message into its value, by the name of the message."""
COLUMN_TYPES = {
    "google.protobuf.Timestamp": "TIMESTAMP",
    "google.protobuf.Duration": "DECIMAL(21,9)",
    "google.type.Date": "DATE",
}
"""The type of a column for such a value, if it follows from the name of the message."""
