"""Parsed fields → typed values, strictly: one rule for the records of a topic, base files and the publisher."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from lakehouse.decoding.fields import Beyond, Field, Rejection, kind, shown, wrong_type
from lakehouse.decoding.memory import MOST_OF_ONE, room_of, too_large
from lakehouse.decoding.numbers import as_written, read_number
from lakehouse.decoding.record_parts import KEY, VALUE
from lakehouse.decoding.times import read_time

NOTHING: Mapping[str, Any] = {}
_MOST_LACKING = 100_000  # values of structs in one value
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BYTES = {"INT": 4, "BIGINT": 8}
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def convert(
    parsed: dict[str, Any], fields: tuple[Field, ...], beside: Mapping[str, Any] = NOTHING, made: int | None = None
) -> dict[str, Any]:
    """Turn parsed fields, and those parts that stand ``beside`` them, into typed values; others are ignored.

    ``made`` are bytes of memory that what was parsed takes, where it and the values may be too large.
    Raises ``Rejection`` with one of the reasons ``missing_field``, ``null_field``, ``wrong_type``,
    ``wrong_time_format``, ``no_such_date``, ``out_of_range``, ``invalid_text`` or ``too_large``.
    """
    converted = {}
    for field in fields:
        if field.part == VALUE:
            raw, missing = _value_of(parsed, field)
        else:
            raw = as_read(beside.get(field.part), field)
            missing = raw is None
        if made is not None:
            made += room_of(raw, field)
            if made > MOST_OF_ONE:
                raise too_large()
        converted[field.name] = convert_value(raw, field, missing=missing)
    return converted


def convert_value(raw: Any, field: Field, *, missing: bool = False) -> Any:
    """Turn one value, ``None`` where there is none, into one of the field's type; raises as ``convert``."""
    raw = None if field.nulls and is_null(raw, field.nulls) else raw
    if raw is None and field.required:
        raise Rejection("missing_field" if missing else "null_field", f"{field.source!r} is required")
    raw = field.default if raw is None else raw
    if raw is None:
        return None
    if field.inner and _lacking(raw, field, _MOST_LACKING) > _MOST_LACKING:
        raise Rejection("out_of_range", f"{field.source!r} lacks more than {_MOST_LACKING:,} values")
    value = _typed(raw, field)
    too_small = field.least is not None and value < field.least
    too_great = field.most is not None and value > field.most
    if too_small or too_great:
        allowed = f"{field.least} to {field.most}"
        raise Rejection("out_of_range", f"{field.source!r} is {shown(raw)}, allowed is {allowed}")
    return value


def is_null(raw: Any, nulls: tuple[str, ...]) -> bool:
    """Whether a text, or a number, is one of those that stand for null."""
    if isinstance(raw, str):
        return raw in nulls
    if isinstance(raw, bool) or not isinstance(raw, int | float | Decimal):
        return False
    # a double is the one nearest to what was written
    numbers = (each for each in nulls if _NUMBER.fullmatch(each))
    return any(raw == (float(each) if isinstance(raw, float) else Decimal(each)) for each in numbers)


def number_in(text: str) -> Decimal | Beyond | None:
    """The number that a text writes; ``None`` where it writes none."""
    return as_written(text) if _NUMBER.fullmatch(text) else None


def as_read(part: bytes | int | None, field: Field) -> Any:
    """What a part of a record beside its value says, as JSON would have it: a text, or what it is the text of.

    Raises ``Rejection`` with the reason ``invalid_utf8``, ``invalid_text`` or ``wrong_type``.
    """
    if not isinstance(part, bytes):
        return part
    if field.written == "big_endian":
        return _number_of(part, field)
    try:
        text = part.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Rejection("invalid_utf8", f"{field.source!r}: byte {error.start} is not UTF-8") from None
    if field.type == "STRING" and field.part == KEY and field.written == "text":
        return _without_controls(text, field)
    if field.type == "STRING" or field.pattern is not None:
        return text
    if field.type == "BOOLEAN":
        return {"true": True, "false": False}.get(text, text)
    return as_written(text) if _NUMBER.fullmatch(text) else text


def _number_of(part: bytes, field: Field) -> int:
    """The whole number whose bytes a key is, the highest first."""
    if len(part) != _BYTES[field.type]:
        expected = f"{_BYTES[field.type]} of {field.type}"
        raise Rejection("wrong_type", f"{field.source!r} has the length of {len(part)} bytes, expected {expected}")
    return int.from_bytes(part, "big", signed=True)


def _without_controls(text: str, field: Field) -> str:
    """A text in which no character is one that no text has; bytes of a number are full of them."""
    found = _CONTROL.search(text)
    if found is None:
        return text
    type_ = {size: name for name, size in _BYTES.items()}.get(len(text.encode()))
    hint = f"; it may be a number: declare {type_} with RecordKey('big_endian')" if type_ else ""
    raise Rejection("invalid_text", f"{field.source!r} holds the control character U+{ord(found[0]):04X}{hint}")


def says_null(parsed: dict[str, Any], field: Field) -> bool:
    """Whether a record says null for a field, or for what it is within; a missing one and ``null_values`` do not.

    Raises ``Rejection`` with the reason ``wrong_type`` where something on the way is no object.
    """
    raw, missing = _value_of(parsed, field)
    return raw is None and not missing


def _value_of(parsed: dict[str, Any], field: Field) -> tuple[Any, bool]:
    """The value of a field by its names, else by those it had before, and whether it is missing."""
    raw, missing = _found(parsed, field.names)
    return _found(parsed, field.former) if missing and field.former else (raw, missing)


def _found(parsed: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, bool]:
    """The value to which names lead, one within the other, and whether one of them is missing."""
    value: Any = parsed
    for depth, name in enumerate(names):
        if value is None:
            return None, False
        if not isinstance(value, dict):
            within = ".".join(names[:depth])
            raise Rejection("wrong_type", f"{within!r} is {kind(value)} {shown(value)}, expected an object")
        if name not in value:
            return None, True
        value = value[name]
    return value, False


def _typed(raw: Any, field: Field) -> Any:
    if field.type == "STRING":
        return _text(raw, field)
    if field.inner:
        return _holding(raw, field)
    if field.type == "BOOLEAN":
        return raw if isinstance(raw, bool) else wrong_type(raw, field)
    return read_time(raw, field) if field.type in ("TIMESTAMP", "DATE") else read_number(raw, field)


def _holding(raw: Any, field: Field) -> Any:
    """A value that holds others: of a struct its fields, of a map pairs in the order of their names."""
    if field.type.startswith("ARRAY"):
        items = raw if isinstance(raw, list) else wrong_type(raw, field)
        return [_inside(each, field.inner[0]) for each in items]
    if not isinstance(raw, dict):
        wrong_type(raw, field)
    if field.type.startswith("STRUCT"):
        return {each.name: _inside(raw.get(each.name), each) for each in field.inner}
    (item,) = field.inner
    return [(_text(name, field), _inside(raw[name], item)) for name in sorted(raw)]


def _inside(raw: Any, field: Field) -> Any:
    """A value within another: nothing is required there."""
    return None if raw is None or (field.nulls and is_null(raw, field.nulls)) else _typed(raw, field)


def _lacking(raw: Any, field: Field, most: int) -> int:
    """How many values the structs in a value lack, counted until there are more than allowed.

    Each takes room in a row, and none in the record.
    """
    if field.type.startswith("STRUCT"):
        if not isinstance(raw, dict) or not raw:
            return field.leaves
        held = [(raw.get(each.name), each) for each in field.inner]
        lacking = sum(value is None for value, each in held if not each.inner)
        within = ((value, each) for value, each in held if each.inner)
    else:
        (item,) = field.inner
        lacking = 0
        within = ((each, item) for each in (_items(raw) if item.inner else ()))
    for value, each in within:
        if lacking > most:
            break
        lacking += _lacking(value, each, most - lacking)
    return lacking


def _items(raw: Any) -> Iterable[Any]:
    if isinstance(raw, dict):
        return raw.values()
    return raw if isinstance(raw, list) else ()


def _text(raw: Any, field: Field) -> str:
    if not isinstance(raw, str):
        wrong_type(raw, field)
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        raise Rejection("invalid_text", f"{field.source!r} holds half of a surrogate pair") from None
    return raw
