"""Parse JSON strictly: no bare NaN, no equal names in an object, nothing after the value, numbers exactly as written.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import json
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Literal, NamedTuple

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.numbers import parse_number

Native = ModuleType
"""The module ``orjson``, which not every machine has."""
NotFinite = Literal["reject", "null"]
"""What ``NaN`` and ``Infinity`` do, which are not JSON: reject the record, or be read as null."""
DuplicateNames = Literal["reject", "first", "last"]
"""What two equal names in one object do: reject the record, or the value after the first or the last one counts."""


ReadObject = Callable[[dict[str, Any]], Any]


class JsonOptions(NamedTuple):
    """What is read although JSON does not have it, or does not say what it means."""

    not_finite: NotFinite = "reject"
    duplicate_names: DuplicateNames = "reject"
    base64_path: tuple[str | None, ...] | None = None
    """The path to the texts that hold JSON in base64; ``None`` in it means each item of an array."""


STRICT = JsonOptions()
"""Everything else than JSON with unique names rejects the record."""
_BLANK = " \t\r\n"
_BLANKS = re.compile(f"[{_BLANK}]*+")
BYTE_ORDER_MARK = "\ufeff"
"""What some programs write in front of a text."""
_CUT_OFF = re.compile(r"t(ru?)?|f(a(ls?)?)?|n(ul?)?|-|\.|(\.\d+)?[eE][+-]?|u[0-9a-fA-F]{0,4}|")


def find_native() -> Native | None:
    """The native parser of this machine; ``None`` if it has none, which costs only time."""
    try:
        import orjson  # noqa: PLC0415 - not every machine has it
    except ImportError:
        return None
    return orjson


def utf8_text(value: bytes) -> str:
    """Return the text of bytes in UTF-8 without a byte order mark in front; raises ``Rejection``."""
    try:
        return value.decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise Rejection("invalid_utf8", f"the byte at place {error.start} is not UTF-8") from None


def parse_json(text: str, options: JsonOptions = STRICT, read_object: ReadObject | None = None) -> Any:
    """Parse a text as JSON, with numbers exactly as written; raises ``Rejection`` if it is not valid.

    ``read_object`` says what an object means, after those within it.
    """
    return _decode(text, _decoder(options, read_object).decode)


def parse_array_or_objects(text: str, options: JsonOptions = STRICT) -> Any:
    """Parse a text as JSON, or as a list of the objects that follow one another in it, with or without white space."""
    decoder = _decoder(options)

    def decode(text: str) -> Any:
        values, end = list[Any](), _end_of_blanks(text, 0)
        while end < len(text) and (not values or (isinstance(values[0], dict) and text[end] == "{")):
            value, end = decoder.raw_decode(text, end)
            values.append(value)
            end = _end_of_blanks(text, end)
        if end < len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        return values[0] if len(values) == 1 else values

    return _decode(text, decode)


def _decoder(options: JsonOptions, read_object: ReadObject | None = None) -> json.JSONDecoder:
    make_object = _OBJECTS[options.duplicate_names]
    return json.JSONDecoder(
        parse_float=parse_number,
        parse_int=parse_number,
        parse_constant=_reject_constant if options.not_finite == "reject" else _read_as_null,
        object_pairs_hook=(lambda pairs: read_object(make_object(pairs))) if read_object else make_object,
    )


def _end_of_blanks(text: str, start: int) -> int:
    match = _BLANKS.match(text, start)
    return match.end() if match else start


def _decode(text: str, decode: Callable[[str], Any]) -> Any:
    if not text.strip(_BLANK):
        raise Rejection("empty_value", "the value is empty")
    try:
        return decode(text)
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


def _keep_first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        values.setdefault(name, value)
    return values


_OBJECTS: Mapping[DuplicateNames, Callable[[list[tuple[str, Any]]], dict[str, Any]]] = {
    "reject": _reject_duplicates,
    "first": _keep_first,
    "last": dict,
}
"""Make an object of its names and values, by what equal names do."""
