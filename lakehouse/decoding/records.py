"""Strict decoding of one record into typed values, or into the reason why it is rejected.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on
Spark's executors. Records, base files and the publisher share these rules.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from lakehouse.decoding.fields import Field, Rejection, json_kind
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, json_memory, too_large_rejection
from lakehouse.decoding.numbers import parse_number
from lakehouse.decoding.values import NO_PARTS, convert

NotFinite = Literal["reject", "null"]
"""What ``NaN`` and ``Infinity`` do, which are not JSON: reject the record, or be read as null."""
_BLANK = " \t\r\n"
BYTE_ORDER_MARK = "\ufeff"
"""What some programs write in front of a text."""
_CUT_OFF = re.compile(r"t(ru?)?|f(a(ls?)?)?|n(ul?)?|-|\.|(\.\d+)?[eE][+-]?|u[0-9a-fA-F]{0,4}|")


def decode(value: bytes | None, fields: tuple[Field, ...], parts: Mapping[str, Any] = NO_PARTS) -> dict[str, Any]:
    """Decode the bytes of one record into a value for each field; a missing or null field is ``None``.

    ``parts`` are the other parts of the record that fields are read from: bytes, and the broker time in microseconds
    since 1970, UTC.
    Raises ``Rejection`` with one of the reasons ``tombstone``, ``empty_value``, ``invalid_utf8``,
    ``truncated``, ``invalid_json``, ``trailing_bytes``, ``duplicate_name``, ``not_finite``, ``not_an_object``,
    ``too_large`` or one of those of ``values.convert``.
    """
    return convert(parse(value), fields, parts)


def parse(value: bytes | None, not_finite: NotFinite = "reject") -> dict[str, Any]:
    """Parse the bytes of one record as a JSON object, with numbers exactly as written.

    With ``not_finite="null"``, ``NaN`` and ``Infinity`` are null, also in fields that no column reads.
    """
    value = require_value(value)
    if json_memory(value) > MAX_RECORD_MEMORY:
        raise too_large_rejection()
    parsed = parse_json(utf8_text(value), not_finite)
    if not isinstance(parsed, dict):
        raise Rejection("not_an_object", f"the value is {json_kind(parsed)}, not an object")
    return parsed


def require_value(value: bytes | None) -> bytes:
    """Return the value of a record; raises ``Rejection`` if the record has none."""
    if value is None:
        raise Rejection("tombstone", "the record has no value; deletes are not declared for this table")
    if not value:
        raise Rejection("empty_value", "the value is empty")
    return value


def utf8_text(value: bytes) -> str:
    """Return the text of bytes in UTF-8 without a byte order mark in front; raises ``Rejection``."""
    try:
        return value.decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise Rejection("invalid_utf8", f"byte {error.start} is not UTF-8") from None


def parse_json(text: str, not_finite: NotFinite = "reject") -> Any:
    """Parse a text as JSON, with numbers exactly as written; raises ``Rejection`` if it is not valid."""
    if not text.strip(_BLANK):
        raise Rejection("empty_value", "the value is empty")
    try:
        return json.loads(
            text,
            parse_float=parse_number,
            parse_int=parse_number,
            parse_constant=_reject_constant if not_finite == "reject" else _read_as_null,
            object_pairs_hook=_reject_duplicates,
        )
    except json.JSONDecodeError as error:
        raise Rejection(_rejection_reason(error), f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise Rejection("invalid_json", "nested too deeply") from None


def _rejection_reason(error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        return "trailing_bytes"
    has_begun = error.doc.lstrip(_BLANK)[:1] in ("{", "[")
    is_cut_off = error.msg.startswith("Unterminated") or _CUT_OFF.fullmatch(error.doc[error.pos :].rstrip(_BLANK))
    return "truncated" if has_begun and is_cut_off else "invalid_json"


def _reject_constant(name: str) -> Any:
    raise Rejection("not_finite", f"{name} is not a number in JSON")


def _read_as_null(_: str) -> None:
    return None


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise Rejection("duplicate_name", f"{name!r} occurs more than once")
        values[name] = value
    return values
