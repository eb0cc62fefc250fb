"""Strict decoding of one record into typed values, or a reason why it may not enter.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on
Spark's executors. One rule for records, base files and the publisher.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from lakehouse.decoding.fields import Field, Rejection, kind
from lakehouse.decoding.memory import MOST_OF_ONE, json_room, too_large
from lakehouse.decoding.numbers import as_written
from lakehouse.decoding.values import NOTHING, convert

_BLANK = " \t\r\n"
_CUT_SHORT = re.compile(r"t(ru?)?|f(a(ls?)?)?|n(ul?)?|-|\.|(\.\d+)?[eE][+-]?|u[0-9a-fA-F]{0,4}|")


def decode(value: bytes | None, fields: tuple[Field, ...], beside: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """Decode the bytes of one record into a value for each field; a missing or null field is ``None``.

    ``beside`` are the parts of the record, beside its value, from which fields take theirs: bytes, and the broker's
    time in microseconds since 1970, UTC.
    Raises ``Rejection`` with one of the reasons ``tombstone``, ``empty_value``, ``invalid_utf8``,
    ``truncated``, ``invalid_json``, ``trailing_bytes``, ``duplicate_name``, ``not_finite``, ``not_an_object``,
    ``too_large`` or one of those of ``values.convert``.
    """
    return convert(parse(value), fields, beside)


def parse(value: bytes | None) -> dict[str, Any]:
    """Parse the bytes of one record as a JSON object, with numbers exactly as written."""
    value = require_value(value)
    if json_room(value) > MOST_OF_ONE:
        raise too_large()
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Rejection("invalid_utf8", f"byte {error.start} is not UTF-8") from None
    if not text.strip(_BLANK):
        raise Rejection("empty_value", "the value is empty")
    parsed = _parse_text(text)
    if not isinstance(parsed, dict):
        raise Rejection("not_an_object", f"the value is {kind(parsed)}, not an object")
    return parsed


def require_value(value: bytes | None) -> bytes:
    """Return the value of a record; ``Rejection`` where it has none."""
    if value is None:
        raise Rejection("tombstone", "the record has no value; deletes are not declared for this table")
    if not value:
        raise Rejection("empty_value", "the value is empty")
    return value


def _parse_text(text: str) -> Any:
    try:
        return json.loads(
            text,
            parse_float=as_written,
            parse_int=as_written,
            parse_constant=_refuse_constant,
            object_pairs_hook=_without_duplicates,
        )
    except json.JSONDecodeError as error:
        raise Rejection(_reason_of(error), f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise Rejection("invalid_json", "nested too deeply") from None


def _reason_of(error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        return "trailing_bytes"
    begun = error.doc.lstrip(_BLANK)[:1] in ("{", "[")
    cut_short = error.msg.startswith("Unterminated") or _CUT_SHORT.fullmatch(error.doc[error.pos :].rstrip(_BLANK))
    return "truncated" if begun and cut_short else "invalid_json"


def _refuse_constant(name: str) -> Any:
    raise Rejection("not_finite", f"{name} is not a number in JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for name, value in pairs:
        if name in unique:
            raise Rejection("duplicate_name", f"{name!r} stands more than once")
        unique[name] = value
    return unique
