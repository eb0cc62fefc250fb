"""Read arrays of names with values into maps, and values of OpenTelemetry, which name their type, into texts.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NoReturn

from lakehouse.decoding.byte_texts import byte_reader
from lakehouse.decoding.fields import WHOLE_LIMITS, Field, Rejection, as_written, json_kind, short_text
from lakehouse.decoding.json_texts import json_text
from lakehouse.decoding.numbers import number_in
from lakehouse.decoding.written_forms import KeyValues

OF_OTLP = KeyValues()
_MAX_LEVELS = 50  # of values within values
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,18})", re.ASCII)
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_UNREADABLE = object()


def read_key_values(raw: Any, field: Field) -> dict[str, str | None]:
    """Read an array of names with values; each value becomes a text, null stays null.

    Raises ``Rejection`` with the reason ``wrong_type`` or ``duplicate_name``, or like ``read_otlp_value``.
    """
    if isinstance(field.form.written, KeyValues):
        pairs = _pairs(raw, field.form.written, field)
    else:
        pairs = {name: _otlp_value(value, field) for name, value in _pairs(raw, OF_OTLP, field).items()}
    return {name: _text(value, field) for name, value in pairs.items()}


def read_otlp_value(raw: Any, field: Field) -> str | None:
    """Read a value of OpenTelemetry: a scalar as its text, arrays and maps as their JSON text.

    Raises ``Rejection`` with the reason ``wrong_type``, ``out_of_range`` or ``duplicate_name``.
    """
    return _text(_otlp_value(raw, field), field)


def _text(value: Any, field: Field) -> str | None:
    value = as_written(value)
    return value if value is None or isinstance(value, str) else json_text(value, field)


def _pairs(raw: Any, form: KeyValues, field: Field) -> dict[str, Any]:
    """The values of an array by their names."""
    if not isinstance(raw, list):
        _raise_wrong_form(raw, field, "an array")
    names, pairs = {form.key, form.value}, dict[str, Any]()
    for item in raw:
        name = as_written(item.get(form.key)) if isinstance(item, dict) and item.keys() <= names else None
        if not isinstance(name, str):
            _raise_wrong_form(item, field, f"an object with a text {form.key!r}, {form.value!r} and nothing else", "[]")
        if name in pairs:
            raise Rejection("duplicate_name", f"{field.source!r} has the {form.key} {short_text(name)} more than once")
        pairs[name] = item.get(form.value)
    return pairs


def _otlp_value(raw: Any, field: Field, level: int = 0) -> Any:
    """The JSON value that a value of OpenTelemetry means; null if it is empty."""
    if level > _MAX_LEVELS:
        raise Rejection("out_of_range", f"{field.source!r} has values within more than {_MAX_LEVELS} others")
    if raw is None or raw == {}:
        return None
    kind, content = next(iter(raw.items())) if isinstance(raw, dict) and len(raw) == 1 else ("", None)
    if kind == "arrayValue":
        items = _inner_values(content, field)
        return [_otlp_value(item, field, level + 1) for item in items]
    if kind == "kvlistValue":
        pairs = _pairs(_inner_values(content, field), OF_OTLP, field)
        return {name: _otlp_value(value, field, level + 1) for name, value in pairs.items()}
    value = _SCALARS[kind](as_written(content)) if kind in _SCALARS else _UNREADABLE
    if value is not _UNREADABLE:
        return value
    place = f".{kind}" if kind in _SCALARS else ""
    return _raise_wrong_form(content if place else raw, field, "a value of OpenTelemetry", place)


def _inner_values(raw: Any, field: Field) -> list[Any]:
    """The values of an array or a map; it has none if they are missing."""
    if not isinstance(raw, dict) or raw.keys() - {"values"} or not isinstance(raw.get("values", []), list):
        _raise_wrong_form(raw, field, "an object with an array 'values'", ".values")
    values: list[Any] = raw.get("values", [])
    return values


def _read_whole(content: Any) -> Any:
    """A whole number of 64 bits, as text or as number."""
    number = Decimal(content) if isinstance(content, str) and _WHOLE.fullmatch(content) else content
    limit = WHOLE_LIMITS["BIGINT"]
    is_number = isinstance(number, Decimal | int) and not isinstance(number, bool)
    return int(number) if is_number and -limit <= number < limit and number == int(number) else _UNREADABLE


def _read_double(content: Any) -> Any:
    """A number, as text or as number, or the text of one that is not finite."""
    if isinstance(content, str):
        number = number_in(content)
        return content if content in _NOT_FINITE else number if isinstance(number, Decimal) else _UNREADABLE
    is_number = isinstance(content, Decimal | int) and not isinstance(content, bool)
    return content if is_number else _UNREADABLE


def _read_bytes(content: Any) -> Any:
    return _UNREADABLE if byte_reader("base64")(content) is None else content


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "stringValue": lambda content: content if isinstance(content, str) else _UNREADABLE,
    "boolValue": lambda content: content if isinstance(content, bool) else _UNREADABLE,
    "intValue": _read_whole,
    "doubleValue": _read_double,
    "bytesValue": _read_bytes,
}


def _raise_wrong_form(raw: Any, field: Field, expected: str, place: str = "") -> NoReturn:
    found_text = f"{field.source + place!r} is {json_kind(raw)} {short_text(raw)}"
    raise Rejection("wrong_type", f"{found_text}, expected {expected} with written={field.form.written!r}")
