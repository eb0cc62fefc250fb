"""Read the values of one field with ``written`` into the form of JSON, in many records at once if that is certain."""

import re
from binascii import a2b_base64
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.decoding.byte_texts import byte_reader
from lakehouse.decoding.conversion.numbers import MAX_LENGTH, Mask, is_valid, text_array
from lakehouse.decoding.fields import WHOLE_LIMITS, Field
from lakehouse.decoding.json_parsing import find_native
from lakehouse.decoding.written_forms import DIGIT_KINDS, TextNumber, boolean_form, number_form

_MAX_DIGITS, _MAX_GROUPS = 30, 5  # of a number that a double represents; of three digits in 64 bits
_WHOLE = "(?:[0-9]{1,18}|[1-8][0-9]{18})"  # in 64 bits
_EXPONENT = "(?:[eE][+-]?[0-9]{1,2})?"
_ATOMS = (str, int, bool)
_MAX_BYTES = 8  # of an unscaled number in 64 bits
_MAX_LEVELS = 50  # of nesting that the strict parser certainly accepts
_FRACTION = re.compile(rb"[0-9][.e]")  # each double has one


class PlainValues(NamedTuple):
    """The values as JSON would have them, ``None`` if they are uncertain, and a mask of the certain rows."""

    values: list[Any]
    is_plain: Mask


def read_plainly(raw_values: list[Any], field: Field) -> PlainValues:
    """Read the values that a native parser made of a field, except for decimals of Kafka Connect."""
    if field.form.written == "json":
        return _read_json(raw_values)
    if field.form.written == "unsigned":
        plain_values = [raw if type(raw) is int and 0 <= raw < 2**63 else None for raw in raw_values]
        return _plain_values(plain_values, raw_values)
    if field.type == "BINARY":
        return _plain_values([*map(byte_reader(field.form.written), raw_values)], raw_values)
    if field.type == "BOOLEAN":
        return _read_booleans(raw_values, field)
    if field.type == "STRING" or field.form.pattern is not None:
        return _read_digits(raw_values, field)
    return _read_numbers(raw_values, field)


def read_unscaled(raw_values: list[Any]) -> PlainValues:
    """Read decimals of Kafka Connect that have the scale of the column as units of the last place."""
    units = [_unscaled_number(raw) if type(raw) is str else None for raw in raw_values]
    return _plain_values(units, raw_values)


def _unscaled_number(raw: str) -> int | None:
    try:
        data = a2b_base64(raw, strict_mode=True)
    except ValueError:
        return None
    return int.from_bytes(data, signed=True) if 0 < len(data) <= _MAX_BYTES else None


def has_every_digit(raw: Any) -> bool:
    """Whether a native parser certainly lost nothing of a value: it made no double, and the nesting is not deep."""
    level = [raw]
    for _ in range(_MAX_LEVELS):
        kinds = {*map(type, level)}
        if float in kinds:
            return False
        if kinds.isdisjoint((dict, list)):
            return True
        containers = [value for value in level if type(value) in (dict, list)]
        level = [item for value in containers for item in (value.values() if type(value) is dict else value)]
    return False


def is_exact_json(raw: Any) -> bool:
    """Like ``has_every_digit``, faster for a value with few objects and arrays."""
    text = _dump(raw)
    return has_every_digit(raw) if text is None else _is_simple(text) or has_every_digit(raw)


def _dump(raw: Any) -> bytes | None:
    """The JSON text of what a native parser may have made; ``None`` if it has none, or there is no such parser."""
    native: Any = find_native()
    if native is None:
        return None
    try:
        return bytes(native.dumps(raw))
    except native.JSONEncodeError:
        return None


def _is_simple(text: bytes) -> bool:
    """Whether a JSON text certainly has no double and no deep nesting."""
    return text.count(b"[") + text.count(b"{") <= _MAX_LEVELS and not _FRACTION.search(text)


def _read_json(raw_values: list[Any]) -> PlainValues:
    texts = [_json_text(raw) if raw is not None else None for raw in raw_values]
    return _plain_values(texts, raw_values)


def _json_text(raw: Any) -> str | None:
    """The text of a value; ``None`` if a number in it may have lost digits, or if it is nested deeply or invalid."""
    text = None if type(raw) is tuple else _dump(raw)
    return text.decode() if text and (_is_simple(text) or has_every_digit(raw)) else None


def _read_booleans(raw_values: list[Any], field: Field) -> PlainValues:
    form = boolean_form(field.form.written)
    meanings = {(type(value), value): True for value in form.true}
    meanings |= {(type(value), value): False for value in form.false}
    values = [meanings.get((type(raw), raw)) if type(raw) in _ATOMS else None for raw in raw_values]
    return _plain_values(values, raw_values)


def _read_digits(raw_values: list[Any], field: Field) -> PlainValues:
    """Read whole numbers as texts, and texts as they are if the form allows them."""
    kinds = DIGIT_KINDS[field.form.written]
    values = [(raw if type(raw) is str else str(raw)) if type(raw) in kinds else None for raw in raw_values]
    return _plain_values(values, raw_values)


def _plain_values(values: list[Any], raw_values: list[Any]) -> PlainValues:
    is_plain = [value is not None or raw is None for value, raw in zip(values, raw_values, strict=True)]
    return PlainValues(values, np.array(is_plain, bool))


def _read_numbers(raw_values: list[Any], field: Field) -> PlainValues:
    """Read texts as numbers; numbers of JSON stay as they are, if the form allows them."""
    form = number_form(field.form.written)
    has_only_texts = set(map(type, raw_values)) == {str}
    rows = [] if has_only_texts else [row for row, raw in enumerate(raw_values) if type(raw) is str]
    texts, _ = text_array(raw_values if has_only_texts else [raw_values[row] for row in rows])
    is_whole = field.type in WHOLE_LIMITS or field.form.epoch is not None
    numbers = _parse_numbers(texts, form, is_whole=is_whole)
    if field.type == "TIMESTAMP" and numbers.null_count:  # an epoch may have a fraction
        numbers = _parse_numbers(texts, form, is_whole=False)
    if has_only_texts:
        return PlainValues(_as_list(numbers), is_valid(numbers))
    values = raw_values.copy() if form.or_number else [None] * len(raw_values)
    for row, number in zip(rows, _as_list(numbers), strict=True):
        values[row] = number
    is_plain = np.array([form.or_number or raw is None for raw in raw_values], bool)
    is_plain[rows] = is_valid(numbers)
    return PlainValues(values, is_plain)


def _parse_numbers(texts: pa.Array, form: TextNumber, *, is_whole: bool) -> pa.Array:
    """The numbers that texts write, as integers or doubles; NULL if a text is not certainly a number."""
    matches = pc.match_substring_regex(texts, _certain_regex(form, is_whole=is_whole))
    if not is_whole:  # the double of a longer number does not show every digit
        matches = pc.and_(matches, pc.less_equal(pc.binary_length(texts), MAX_LENGTH))
    if not pc.all(matches, min_count=0).as_py():
        texts = pc.if_else(matches, texts, None)
    if form.suffix:
        texts = pc.utf8_slice_codeunits(texts, 0, stop=-len(form.suffix))
    if form.prefix:
        texts = pc.replace_substring(texts, form.prefix, "", max_replacements=1)
    if form.trailing_sign:
        texts = pc.replace_substring_regex(texts, "^(.*)-$", r"-\1")
    if form.thousands:
        texts = pc.replace_substring(texts, form.thousands, "")
    if form.decimal != ".":
        texts = pc.replace_substring(texts, form.decimal, ".")
    return texts.cast(pa.int64() if is_whole else pa.float64())


def _certain_regex(form: TextNumber, *, is_whole: bool) -> str:
    """The pattern of texts that are certainly numbers, with at most one sign, which is a minus."""
    decimal, thousands, prefix, suffix = map(re.escape, (form.decimal, form.thousands, form.prefix, form.suffix))
    whole = _WHOLE if is_whole else f"[0-9]{{1,{_MAX_DIGITS}}}"
    if form.thousands:
        whole = f"(?:[0-9]{{1,3}}(?:{thousands}[0-9]{{3}}){{1,{_MAX_GROUPS}}}|{whole})"
    fraction = f"{decimal}[0-9]{{1,{_MAX_DIGITS}}}"
    digits = whole if is_whole else f"(?:{whole}(?:{fraction})?|{fraction})"
    digits += _EXPONENT if form.allows_exponent and not is_whole else ""
    number = f"(?:-?{prefix}|{prefix}-){digits}"
    number = f"(?:{number}|{prefix}{digits}-)" if form.trailing_sign else number
    return f"^{number}{suffix}$"


def _as_list(numbers: pa.Array) -> list[Any]:
    """The numbers as Python's, ``None`` for NULL; much faster than ``to_pylist``."""
    values: list[Any] = numbers.fill_null(0).to_numpy().tolist()
    for row in np.flatnonzero(~is_valid(numbers)).tolist() if numbers.null_count else ():
        values[row] = None
    return values
