"""Strict decoding of one record into typed values, or into the reason why it is rejected.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on
Spark's executors. Records, base files and the publisher share these rules.
"""

from collections.abc import Mapping
from typing import Any

from lakehouse.decoding import json_parsing
from lakehouse.decoding.fields import Field, Rejection, json_kind
from lakehouse.decoding.json_parsing import STRICT, JsonOptions, parse_json, utf8_text
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, json_memory, too_large_rejection
from lakehouse.decoding.record_parts import ELEMENT
from lakehouse.decoding.values import NO_PARTS, convert


def decode(value: bytes | None, fields: tuple[Field, ...], parts: Mapping[str, Any] = NO_PARTS) -> dict[str, Any]:
    """Decode the bytes of one record into a value for each field; a missing or null field is ``None``.

    ``parts`` are the other parts of the record that fields are read from: bytes, and the broker time in microseconds
    since 1970, UTC.
    Raises ``Rejection`` with one of the reasons ``tombstone``, ``empty_value``, ``invalid_utf8``,
    ``truncated``, ``invalid_json``, ``trailing_bytes``, ``duplicate_name``, ``not_finite``, ``not_an_object``,
    ``too_large`` or one of those of ``values.convert``.
    """
    return convert(parse(value), fields, parts)


def parse(value: bytes | None, options: JsonOptions = STRICT) -> dict[str, Any]:
    """Parse the bytes of one record as a JSON object, with numbers exactly as written.

    The options also hold in fields that no column reads.
    """
    parsed = _parse_value(value, options)
    if not isinstance(parsed, dict):
        raise Rejection("not_an_object", f"the value is {json_kind(parsed)}, not an object")
    return parsed


def parse_array(value: bytes | None, options: JsonOptions = STRICT) -> dict[str, Any]:
    """Parse the bytes of one record as a JSON array like ``parse``; it is the field ``ELEMENT``."""
    return {ELEMENT: _parse_value(value, options)}


def parse_array_or_objects(value: bytes | None, options: JsonOptions = STRICT) -> dict[str, Any]:
    """Parse the bytes of one record like ``parse_array``, or as objects that follow one another: an array of them."""
    return {ELEMENT: json_parsing.parse_array_or_objects(_text_of(value), options)}


def _parse_value(value: bytes | None, options: JsonOptions) -> Any:
    return parse_json(_text_of(value), options)


def _text_of(value: bytes | None) -> str:
    value = require_value(value)
    if json_memory(value) > MAX_RECORD_MEMORY:
        raise too_large_rejection()
    return utf8_text(value)


def require_value(value: bytes | None) -> bytes:
    """Return the value of a record; raises ``Rejection`` if the record has none."""
    if value is None:
        raise Rejection("tombstone", "the record has no value, and deletes have no Tombstone()")
    if not value:
        raise Rejection("empty_value", "the value is empty")
    return value
