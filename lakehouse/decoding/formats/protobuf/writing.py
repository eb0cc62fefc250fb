"""Convert lines of JSON to Protobuf messages by a schema, for ``publish``.

A line has what the reader gives: enums by name, times as texts, durations as seconds, wrappers as their values. Bytes
are Base64, as in Protobuf's own JSON. A null is an absent field.
"""

import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import UnwritableError, WriterSchema
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.formats.protobuf.compiled import TYPE_NAMES, is_entry, library_methods, load_schema
from lakehouse.decoding.formats.protobuf.reader import MAX_LEVELS
from lakehouse.decoding.formats.protobuf.values import WRAPPERS
from lakehouse.decoding.formats.schema_types import require_type
from lakehouse.decoding.records import parse

_FIRST_MESSAGE = b"\x00"
_WRITE_ERRORS = (
    *(Rejection, ValueError, TypeError, KeyError, ArithmeticError, struct.error, AttributeError, RecursionError),
)
_EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)
_FLOATS = {"float": "<f", "double": "<d"}
_MAX_PLACES = 100  # of the digits of a number, before and after its point
_TRUTHS = {"true": True, "false": False}


def line_writer(schema_id: int, schema: WriterSchema) -> Callable[[bytes], bytes]:
    """Return a function that writes a line as the first message of a schema, with the id of the schema in front.

    The function raises ``UnwritableError`` if a line does not fit the schema.
    """
    message_class, methods = GetMessageClass(load_schema(schema).first_message), library_methods()

    def write(line: bytes) -> bytes:
        message = message_class()
        try:
            _fill(message, parse(line), 0)
            if missing_names := methods.FindInitializationErrors(message):
                raise ValueError(f"{missing_names[0]!r} is required")
        except _WRITE_ERRORS as error:
            detail = error.detail if isinstance(error, Rejection) else str(error)
            raise UnwritableError(f"it does not fit schema {schema_id}: {detail[:300]}") from None
        return add_frame(schema_id, _FIRST_MESSAGE + methods.SerializeToString(message, deterministic=True))

    return write


def _fill(message: Any, raw: Any, level: int) -> None:
    """Set the fields of a message from a value of JSON."""
    descriptor = type(message).DESCRIPTOR
    if level > MAX_LEVELS:
        raise ValueError(f"its objects have more than {MAX_LEVELS} levels")
    content = require_type(_known_fields(descriptor.full_name, raw), dict)
    oneofs = set[str]()
    for name, value in content.items():
        if value is None:
            continue
        field = descriptor.fields_by_name.get(name)
        if field is None:
            raise ValueError(f"message {descriptor.full_name} has no field {name!r}")
        if field.containing_oneof and field.containing_oneof.name in oneofs:
            raise ValueError(f"a oneof of message {descriptor.full_name} has two values")
        oneofs |= {field.containing_oneof.name} if field.containing_oneof else set()
        _set_field(message, field, value, level)


def _set_field(message: Any, field: Any, raw: Any, level: int) -> None:
    if is_entry(field.message_type):
        _fill_map(getattr(message, field.name), field.message_type.fields_by_name, raw, level)
    elif field.is_repeated:
        items = getattr(message, field.name)
        for item in require_type(raw, list):
            if field.message_type:
                _fill(items.add(), item, level + 1)
            else:
                items.append(_scalar(field, item))
    elif field.message_type:
        inner_message = getattr(message, field.name)
        library_methods().SetInParent(inner_message)
        _fill(inner_message, raw, level + 1)
    else:
        setattr(message, field.name, _scalar(field, raw))


def _fill_map(pairs: Any, fields: Any, raw: Any, level: int) -> None:
    """Add the entries of a map; their keys are texts in JSON."""
    key_type = TYPE_NAMES[fields["key"].type]
    for name, value in require_type(raw, dict).items():
        raw_key = name if key_type == "string" else _TRUTHS.get(name, name) if key_type == "bool" else Decimal(name)
        key = _scalar(fields["key"], raw_key)
        if fields["value"].message_type:
            _fill(pairs[key], value, level + 1)
        else:
            pairs[key] = _scalar(fields["value"], value)


def _scalar(field: Any, raw: Any) -> Any:
    """What the library takes for a value of a scalar type; raises ``ValueError`` if it does not fit."""
    type_ = TYPE_NAMES[field.type]
    if field.enum_type:
        return field.enum_type.values_by_name[require_type(raw, str)].number
    if type_ == "bool":
        return require_type(raw, bool)
    if type_ in ("string", "bytes"):
        return require_type(raw, str) if type_ == "string" else b64decode(require_type(raw, str), validate=True)
    number = require_type(raw, Decimal)
    if type_ in _FLOATS:
        if not isfinite(float(number)):
            raise ValueError(f"{str(number)[:60]} is too large")
        return struct.unpack(_FLOATS[type_], struct.pack(_FLOATS[type_], float(number)))[0]
    bits = int(type_[-2:])
    minimum, limit = (0, 2**bits) if type_.startswith(("u", "f")) else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not minimum <= number < limit or number != number.to_integral_value():
        raise ValueError(f"{str(number)[:60]} is not a whole number in the range of {type_}")
    return int(number)


def _known_fields(message: str, raw: Any) -> Any:
    """The fields of a message that is a value, such as a time; of any other message the value itself."""
    if message in WRAPPERS:
        return {"value": raw}
    return _KNOWN_FIELDS[message](raw) if message in _KNOWN_FIELDS else raw


def _timestamp_fields(raw: Any) -> dict[str, Any]:
    time = datetime.fromisoformat(require_type(raw, str))
    microseconds = ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH_START) // timedelta(microseconds=1)
    seconds, rest = divmod(microseconds, 10**6)
    return {"seconds": Decimal(seconds), "nanos": Decimal(rest * 1000)}


def _duration_fields(raw: Any) -> dict[str, Any]:
    units, scale = _unscaled(require_type(raw, Decimal))
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
    day = date.fromisoformat(require_type(raw, str))
    return {"year": Decimal(day.year), "month": Decimal(day.month), "day": Decimal(day.day)}


def _decimal_fields(raw: Any) -> dict[str, Any]:
    units, scale = _unscaled(require_type(raw, Decimal))
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
