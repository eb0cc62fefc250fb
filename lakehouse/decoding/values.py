"""Convert parsed fields to typed values, strictly; the records of a topic, base files and the publisher share it."""

import re
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.decoding.cut import cut_part
from lakehouse.decoding.fields import (
    Field,
    Rejection,
    as_written,
    is_null_text,
    raise_no_object,
    raise_wrong_type,
    short_text,
)
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, TOO_LARGE, too_large_rejection, value_memory
from lakehouse.decoding.nested_types import count_missing
from lakehouse.decoding.numbers import NUMBER, RoundedDecimal, convert_number, parse_number
from lakehouse.decoding.record_parts import KEY, VALUE, WINDOW_TIMES, KeyWindow
from lakehouse.decoding.times import convert_time
from lakehouse.decoding.written import read_written

NO_PARTS: Mapping[str, Any] = {}
_MAX_MISSING = 100_000  # fields of structs in one value
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")
EXACT_KINDS: dict[str, type[Any]] = {"BOOLEAN": bool, "BINARY": bytes}
"""Types whose values need no conversion, with what a parser makes of them."""
_KEY_SIZES = {"INT": 4, "BIGINT": 8}
_TIME_SIZE = 8
_SIZES: dict[KeyWindow, int] = {"time": _TIME_SIZE, "session": 2 * _TIME_SIZE}
_END_OF_TIME = 253_402_300_800_000  # the year 10000: eight bytes of text, or of another number, are hardly less


def convert(
    parsed: dict[str, Any], fields: tuple[Field, ...], parts: Mapping[str, Any] = NO_PARTS, memory: int | None = None
) -> dict[str, Any]:
    """Convert parsed fields, and those read from other ``parts`` of the record, to typed values; ignore other fields.

    ``memory`` is the memory in bytes of the parsed value, if it and the typed values may be too large together.
    Raises ``Rejection`` with one of the reasons ``missing_field``, ``null_field``, ``wrong_type``,
    ``wrong_time_format``, ``no_such_date``, ``ambiguous_time``, ``out_of_range``, ``not_finite``, ``invalid_text`` or
    ``too_large``. Of a field with ``nulls_invalid``, each of them but the last means ``None``.
    """
    row = {}
    for field in fields:
        if memory is not None:
            memory += _memory_of_value(parsed, field, parts)
            if memory > MAX_RECORD_MEMORY:
                raise too_large_rejection()
        row[field.name] = convert_field(parsed, field, parts)
    return row


def convert_field(parsed: dict[str, Any], field: Field, parts: Mapping[str, Any]) -> Any:
    """Convert the value of one field, like ``convert``."""
    try:
        raw, is_missing = _read_raw(parsed, field, parts)
        return convert_value(raw, field, is_missing=is_missing)
    except Rejection as rejection:
        if not field.limits.nulls_invalid or rejection.reason == TOO_LARGE:
            raise
        rejection.without_frames()  # an opened text keeps it
        return None


def _memory_of_value(parsed: dict[str, Any], field: Field, parts: Mapping[str, Any]) -> int:
    """Bytes of memory of the value of a field; none of one that cannot be read, which rejects the record or is null."""
    with suppress(Rejection):
        return value_memory(_read_raw(parsed, field, parts)[0], field)
    return 0


def _read_raw(parsed: dict[str, Any], field: Field, parts: Mapping[str, Any]) -> tuple[Any, bool]:
    """The value of a field as it was parsed, and whether it is missing."""
    if field.place.part != VALUE:
        raw = parse_part(parts.get(field.place.part), field)
        return raw, raw is None
    raw, is_missing = _field_value(parsed, field)
    raw = cut_part(raw, field) if field.place.cut and raw is not None else raw
    return (read_text(raw, field) if field.form.reads_text and isinstance(raw, str) else raw), is_missing


def convert_value(raw: Any, field: Field, *, is_missing: bool = False) -> Any:
    """Convert one value to the field's type, ``None`` if there is none; raises like ``convert``."""
    raw = None if field.form.null_values and is_null_value(raw, field.form.null_values) else raw
    raw = None if (is_null_text(raw) if field.inner else field.form.written == "otlp" and raw == {}) else raw
    if raw is None and field.limits.required:
        raise Rejection("missing_field" if is_missing else "null_field", f"{field.source!r} is required")
    if raw is None and field.limits.default is not None:
        value = convert_value(field.limits.default, field._replace(limits=field.limits._replace(default=None)))
        return Decimal(value) if type(value) is RoundedDecimal else value  # the declaration rounded it
    if raw is None:
        return None
    if field.inner and count_missing(raw, field, _MAX_MISSING) > _MAX_MISSING:
        raise Rejection("out_of_range", f"structs in {field.source!r} have more than {_MAX_MISSING:,} missing values")
    value = _convert_present(raw if field.form.written is None else read_written(raw, field), field)
    is_too_small = field.limits.minimum is not None and value < field.limits.minimum
    is_too_large = field.limits.maximum is not None and value > field.limits.maximum
    if is_too_small or is_too_large:
        bounds = f"{field.limits.minimum} to {field.limits.maximum}"
        raise Rejection("out_of_range", f"{field.source!r} is {short_text(raw)}, allowed is {bounds}")
    return value


def is_null_value(raw: Any, null_values: tuple[str, ...]) -> bool:
    """Whether a text or a number is one of those that mean null."""
    raw = as_written(raw)
    if isinstance(raw, str):
        return raw in null_values
    if isinstance(raw, bool) or not isinstance(raw, int | float | Decimal):
        return False
    # a double is the one nearest to the number as written
    numbers = (text for text in null_values if NUMBER.fullmatch(text))
    return any(raw == (float(number) if isinstance(raw, float) else Decimal(number)) for number in numbers)


class ParsedKey(NamedTuple):
    """A key as it was parsed, or why it is not valid."""

    value: Any
    rejection: Rejection | None = None


def parse_part(part: bytes | int | ParsedKey | None, field: Field) -> Any:
    """Parse a key or a header like ``read_text``, a key also as the bytes of a whole number or as it was parsed.

    With ``written``, it stays a text; without, a BINARY gets its bytes. A window after a key is left out,
    or its time is the value.

    Raises ``Rejection`` with the reason ``invalid_utf8``, ``invalid_text`` or ``wrong_type``, or that of the parser.
    """
    if isinstance(part, ParsedKey):
        return _value_in_key(part, field)
    if isinstance(part, bytes) and field.place.key_window:
        windowed_key = split_window(part, field.place.key_window)
        if field.place.key_encoding in WINDOW_TIMES:
            return windowed_key.start if field.place.key_encoding == "window_start" else windowed_key.end
        part = windowed_key.key
    if not isinstance(part, bytes) or (field.type == "BINARY" and field.form.written is None):
        return part
    if field.place.key_encoding == "big_endian":
        return _parse_big_endian(part, field)
    try:
        text = part.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Rejection("invalid_utf8", f"{field.source!r}: the byte at place {error.start} is not UTF-8") from None
    if field.type == "STRING" and field.place.part == KEY and field.place.key_encoding == "text":
        return _reject_control_characters(text, field)
    return read_text(text, field)


def _value_in_key(key: ParsedKey, field: Field) -> Any:
    """The value at the field's path in a key; the whole key without a path."""
    try:
        if key.rejection:
            raise Rejection(key.rejection.reason, key.rejection.detail)  # not the one that is kept
        value, _ = follow_path({"key": key.value}, ("key", *field.place.path))
    except Rejection as rejection:
        detail = rejection.detail.replace("'key'", "the key")
        raise Rejection(rejection.reason, f"{field.source!r}: {detail}") from None
    return value


def read_text(text: str, field: Field) -> Any:
    """Read a text as JSON would give it: as text, number or boolean, depending on the field's type.

    With ``written``, it stays a text.
    """
    if field.type == "STRING" or field.form.pattern is not None or field.form.written is not None:
        return text
    if field.type == "BOOLEAN":
        return {"true": True, "false": False}.get(text, text)
    return parse_number(text) if NUMBER.fullmatch(text) else text


def _parse_big_endian(part: bytes, field: Field) -> int:
    """The whole number whose bytes the key is."""
    if len(part) != _KEY_SIZES[field.type]:
        expected = f"{_KEY_SIZES[field.type]} for {field.type}"
        raise Rejection("wrong_type", f"{field.source!r} has {len(part)} bytes, expected {expected}")
    return int.from_bytes(part, "big", signed=True)


def _reject_control_characters(text: str, field: Field) -> str:
    """Return a text without control characters; the bytes of numbers are full of them."""
    match = _CONTROL_CHARACTER.search(text)
    if match is None:
        return text
    type_ = {size: name for name, size in _KEY_SIZES.items()}.get(len(text.encode()))
    hint = f"; it may be a number: declare {type_} with RecordKey('big_endian')" if type_ else ""
    raise Rejection("invalid_text", f"{field.source!r} contains the control character U+{ord(match[0]):04X}{hint}")


def has_explicit_null(parsed: dict[str, Any], field: Field) -> bool:
    """Whether a field, or an object around it, is an explicit null; neither ``null_values`` nor a missing field count.

    Raises ``Rejection`` with the reason ``wrong_type`` if the path leads through something that is not an object.
    """
    raw, is_missing = _field_value(parsed, field)
    return raw is None and not is_missing


def _field_value(parsed: dict[str, Any], field: Field) -> tuple[Any, bool]:
    """The value at a field's path, or else at its former path, and whether it is missing.

    For a field that some records write as an object, it is the object itself if that does not contain the value.
    """
    if field.place.whole_depth:
        whole, is_missing = follow_path(parsed, field.place.names[: field.place.whole_depth])
        if not isinstance(whole, dict):
            return whole, is_missing
        value, has_no_value = follow_path(whole, field.place.names[field.place.whole_depth :])
        return whole if has_no_value else value, False
    raw, is_missing = follow_path(parsed, field.place.names)
    return follow_path(parsed, field.place.former) if is_missing and field.place.former else (raw, is_missing)


def follow_path(parsed: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, bool]:
    """The value at the end of a path of names, and whether one of the names is missing.

    Raises ``Rejection`` with the reason ``wrong_type`` if the path leads through something that is not an object.
    """
    value: Any = parsed
    for depth, name in enumerate(names):
        if value is None or is_null_text(value):
            return None, False
        if not isinstance(value, dict):
            raise_no_object(value, ".".join(names[:depth]))
        if name not in value:
            return None, True
        value = value[name]
    return value, False


def _convert_present(raw: Any, field: Field) -> Any:
    if field.type == "STRING":
        return _require_text(raw, field)
    if field.inner:
        return _convert_nested(raw, field)
    if field.type in EXACT_KINDS:
        return raw if isinstance(raw, EXACT_KINDS[field.type]) else raise_wrong_type(raw, field)
    return convert_time(raw, field) if field.type in ("TIMESTAMP", "DATE") else convert_number(raw, field)


def _convert_nested(raw: Any, field: Field) -> Any:
    """Convert a nested value: a struct to a dict, a map to pairs sorted by key, an array to a list."""
    if field.type.startswith("ARRAY"):
        items = raw if isinstance(raw, list) else raise_wrong_type(raw, field)
        return [_convert_inner(item, field.inner[0]) for item in items]
    if not isinstance(raw, dict):
        raise_wrong_type(raw, field)
    if field.type.startswith("STRUCT"):
        return {inner.name: _convert_inner(raw.get(inner.name), inner) for inner in field.inner}
    (item_field,) = field.inner
    return [(_require_text(name, field), _convert_inner(raw[name], item_field)) for name in sorted(raw)]


def _convert_inner(raw: Any, field: Field) -> Any:
    """Convert a value inside a nested value, in which nothing is required."""
    if raw is None or (field.form.null_values and is_null_value(raw, field.form.null_values)):
        return None
    return _convert_present(raw, field)


def _require_text(raw: Any, field: Field) -> str:
    raw = as_written(raw)
    if not isinstance(raw, str):
        raise_wrong_type(raw, field)
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        raise Rejection("invalid_text", f"{field.source!r} contains half of a surrogate pair") from None
    return raw


class WindowedKey(NamedTuple):
    """A key without its window, and the start and the end of that, in milliseconds since 1970."""

    key: bytes
    start: int
    end: int | None


def split_window(key: bytes, window: KeyWindow) -> WindowedKey:
    """Split a key from its window, which ends with its start; the end of a session is before that.

    Raises ``Rejection`` with the reason ``wrong_type`` if the last bytes are not those of such a window.
    """
    size = _SIZES[window]
    start = int.from_bytes(key[-_TIME_SIZE:], "big", signed=True)
    end = int.from_bytes(key[-size:-_TIME_SIZE], "big", signed=True) if window == "session" else None
    if len(key) < size or not 0 <= start <= (start if end is None else end) < _END_OF_TIME:
        raise Rejection("wrong_type", f"the last {size} bytes of the key are not those of a {window} window")
    return WindowedKey(key[:-size], start, end)
