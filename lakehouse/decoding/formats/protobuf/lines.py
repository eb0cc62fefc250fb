"""Values of JSON as the bytes of Protobuf's scalar types, and as the fields of the messages of known values."""

import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from lakehouse.decoding.formats.protobuf.values import WRAPPERS

_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
_LETTERS = {"fixed32": "I", "fixed64": "Q", "sfixed32": "i", "sfixed64": "q", "float": "f", "double": "d"}
_KINDS = {Decimal: "a number", str: "text", bool: "true or false", dict: "an object", list: "an array"}
_MAX_PLACES = 100  # of the digits of a number, before and after its point


def scalar_bytes(type_: str, raw: Any) -> bytes:
    """The bytes of a value of a scalar type; raises ``ValueError`` if it does not fit."""
    if type_ == "bool":
        return varint(int(require(raw, bool)))
    if type_ in ("string", "bytes"):
        text = require(raw, str)
        return sized(text.encode() if type_ == "string" else b64decode(text, validate=True))
    number = require(raw, Decimal)
    if type_ in ("float", "double"):
        if not isfinite(float(number)):
            raise ValueError(f"{str(number)[:60]} is too large")
        return struct.pack(f"<{_LETTERS[type_]}", float(number))
    integer = _whole(number, type_)
    if type_ in _LETTERS:
        return struct.pack(f"<{_LETTERS[type_]}", integer)
    return varint((integer << 1) ^ (integer >> 63) if type_.startswith("s") else integer)


def _whole(number: Decimal, type_: str) -> int:
    bits = 32 if type_.endswith("32") else 64
    minimum, limit = (0, 2**bits) if type_.startswith(("u", "f")) else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not minimum <= number < limit or number != number.to_integral_value():
        raise ValueError(f"{str(number)[:60]} is not a whole number in the range of {type_}")
    return int(number)


def varint(number: int) -> bytes:
    """A whole number of 64 bits, seven bits in each byte, the lowest first."""
    rest, content = number % 2**64, bytearray()
    while rest >= 0x80:
        content.append((rest & 0x7F) | 0x80)
        rest >>= 7
    return bytes([*content, rest])


def tag(number: int, wire_type: int) -> bytes:
    """The tag of a field, which precedes its value."""
    return varint((number << 3) | wire_type)


def sized(content: bytes) -> bytes:
    """Bytes after their size."""
    return varint(len(content)) + content


def known_fields(message: str, raw: Any) -> Any:
    """The fields of a message that is a value, such as a time; of any other message the value itself."""
    if message in WRAPPERS:
        return {"value": raw}
    return _KNOWN_FIELDS[message](raw) if message in _KNOWN_FIELDS else raw


def _timestamp_fields(raw: Any) -> dict[str, Any]:
    time = datetime.fromisoformat(require(raw, str))
    microseconds = ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH_START) // timedelta(microseconds=1)
    seconds, rest = divmod(microseconds, 10**6)
    return {"seconds": Decimal(seconds), "nanos": Decimal(rest * 1000)}


def _duration_fields(raw: Any) -> dict[str, Any]:
    units, scale = _unscaled(require(raw, Decimal))
    if scale > 9:
        raise ValueError(f"{raw} has more than nine decimal places, as a duration cannot have")
    nanos = units * 10 ** (9 - scale)
    seconds = abs(nanos) // 10**9 * (1 if nanos >= 0 else -1)
    return {"seconds": Decimal(seconds), "nanos": Decimal(nanos - seconds * 10**9)}


def _unscaled(number: Decimal) -> tuple[int, int]:
    """The digits of a number as a whole number, and its decimal places."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or abs(exponent) > _MAX_PLACES or len(digits) > _MAX_PLACES:
        raise ValueError(f"{str(number)[:60]} has too many digits")
    units = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    return -units if sign else units, max(-exponent, 0)


def _date_fields(raw: Any) -> dict[str, Any]:
    day = date.fromisoformat(require(raw, str))
    return {"year": Decimal(day.year), "month": Decimal(day.month), "day": Decimal(day.day)}


def _decimal_fields(raw: Any) -> dict[str, Any]:
    units, scale = _unscaled(require(raw, Decimal))
    content = units.to_bytes(units.bit_length() // 8 + 1, signed=True)
    return {"value": b64encode(content).decode(), "precision": Decimal(len(str(abs(units)))), "scale": Decimal(scale)}


def _json_fields(raw: Any) -> dict[str, Any]:
    if raw is None:
        return {"null_value": "NULL_VALUE"}
    names = {bool: "bool_value", str: "string_value", dict: "struct_value", list: "list_value", Decimal: "number_value"}
    return {names[type(raw)]: raw}


_KNOWN_FIELDS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "google.protobuf.Timestamp": _timestamp_fields,
    "google.protobuf.Duration": _duration_fields,
    "google.protobuf.Struct": lambda raw: {"fields": raw},
    "google.protobuf.ListValue": lambda raw: {"values": raw},
    "google.protobuf.Value": _json_fields,
    "google.type.Date": _date_fields,
    "confluent.type.Decimal": _decimal_fields,
}


def require(raw: Any, type_: type) -> Any:
    """The value, which must have a type; raises ``ValueError`` if it has another one."""
    if not isinstance(raw, type_):
        raise ValueError(f"{str(raw)[:60]!r} is not {_KINDS[type_]}")
    return raw
