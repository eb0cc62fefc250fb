"""The values of a field in many parsed records: at its path, or in another part of the records."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.decoding.conversion.numbers import MAX_LENGTH, Mask
from lakehouse.decoding.cut import cut_values
from lakehouse.decoding.fields import WHOLE_LIMITS, Field, Rejection, UnrepresentableValue
from lakehouse.decoding.opened_texts import CONTAINER
from lakehouse.decoding.record_keys import KeyParser
from lakehouse.decoding.record_parts import KEY, PARSED_KEY, TOPIC, TYPED_ENCODINGS, UNMAPPED, VALUE
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.times import Lateness
from lakehouse.decoding.unmapped_values import left_values
from lakehouse.decoding.values import ParsedKey, has_explicit_null, is_null_value, parse_part, read_text

_MAX_NUMBER_LENGTH = 18  # bytes of a number that 64 bits represent, as a whole number or as its nearest double
_WHOLE_NUMBER = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER = r"^-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,20})?$"
_MAX_TIME = 2**62


def read_parts(parts: list[Any], field: Field) -> list[Any]:
    """Parse other parts of records like ``values.parse_part``."""
    return [_read_part(part, field) if type(part) is bytes else part for part in parts]


def parsed_key_part(field: Field) -> str:
    """The name under which the values of a field in keys are kept, which is that of its column."""
    return f"{PARSED_KEY} {field.name}"


def read_parsed_keys(keys: list[bytes | None], fields: Iterable[Field], parse_key: KeyParser) -> dict[str, list[Any]]:
    """Read the fields in keys. Each key is parsed once, and only the values of fields are kept."""
    key_fields = [field for field in fields if field.place.part == PARSED_KEY]
    values: dict[str, list[Any]] = {parsed_key_part(field): [] for field in key_fields}
    for key in keys:
        parsed_key = parse_key(key)
        for field in key_fields:
            values[parsed_key_part(field)].append(None if parsed_key is None else _read_part(parsed_key, field))
    return values


def read_texts(texts: list[Any], field: Field) -> list[Any]:
    """Read the texts of a field like ``values.read_text``; one that was opened for another column is not plain."""
    if field.type == "STRING" or field.form.pattern is not None or field.form.written is not None:
        return texts
    if not set(map(type, texts)) <= {str, type(None)}:
        read_values = read_texts([text if type(text) is str else None for text in texts], field)
        pairs = zip(texts, read_values, strict=True)
        return [value if text is None or type(text) is str else () for text, value in pairs]
    if field.type == "BOOLEAN":
        return [text if text is None else read_text(text, field) for text in texts]
    is_whole = field.type in WHOLE_LIMITS
    try:
        array = pa.array(texts, pa.large_string())
    except UnicodeEncodeError:  # half of a surrogate pair
        return [text if text is None else _plain_value(read_text(text, field), text) for text in texts]
    is_plain = pc.match_substring_regex(array, _WHOLE_NUMBER if is_whole else _NUMBER)
    if field.type.startswith("DECIMAL"):  # the double of a longer number does not show every digit
        is_plain = pc.and_(is_plain, pc.less_equal(pc.binary_length(array), MAX_LENGTH))
    numbers = pc.if_else(is_plain, array, None).cast(pa.int64() if is_whole else pa.float64())
    if numbers.null_count == array.null_count:
        return list(numbers.to_pylist())
    pairs = zip(texts, numbers.to_pylist(), strict=True)
    return [() if number is None and text is not None else number for text, number in pairs]


def _read_part(part: bytes | ParsedKey, field: Field) -> Any:
    try:
        value = parse_part(part, field)
        if field.place.key_encoding in TYPED_ENCODINGS:
            return value
        return _plain_value(value, part.decode("latin-1") if isinstance(part, bytes) else str(value))
    except Rejection:
        return ()


def _plain_value(value: Any, text: str) -> Any:
    """A number that 64 bits represent as an ``int`` or a ``float``; other values unchanged."""
    if type(value) is not Decimal:
        return () if type(value) is UnrepresentableValue else value
    if len(text) > (MAX_LENGTH if "." in text else _MAX_NUMBER_LENGTH) or "e" in text.lower():
        return ()
    return float(value) if "." in text else int(value)


def values_at(objects: Sequence[dict[str, Any]], names: tuple[str, ...]) -> list[Any]:
    """The value at a path of names in each object; ``None`` if there is none."""
    first_name, *inner_names = names
    try:
        values = list(map(itemgetter(first_name), objects))
    except KeyError:
        values = [obj.get(first_name) for obj in objects]
    for name in inner_names:
        values = [value.get(name) if type(value) is dict else _null_or_invalid(value) for value in values]
    return values


def field_values(objects: list[dict[str, Any]], field: Field) -> list[Any]:
    """The value of a field in each object; ``None`` if there is none."""
    if not field.place.whole_depth:
        return values_at(objects, field.place.names)
    names = field.place.names[field.place.whole_depth :]
    return [_value_or_inner(whole, names) for whole in values_at(objects, field.place.names[: field.place.whole_depth])]


def _value_or_inner(whole: Any, names: tuple[str, ...]) -> Any:
    """A value, or the one at a path in it if it is an object; one that no column accepts if that is not certain."""
    if type(whole) is str and CONTAINER.match(whole):
        return ()
    value = whole
    for name in names if type(whole) is dict else ():
        if type(value) is not dict or name not in value:
            return ()
        value = value[name]
    return value


def _null_or_invalid(outer: Any) -> Any:
    """The value inside something that is not an object: null inside a null, else one that no column accepts."""
    return None if outer is None else ()


def values_of_parts(
    arrays: Mapping[str, pa.Array | None], objects: list[dict[str, Any]], rules: Rules
) -> dict[str, list[Any]]:
    """The values of the other parts of the records with these objects, and what columns leave of the objects."""
    values = {part: array[: len(objects)].to_pylist() for part, array in arrays.items() if array is not None}
    if rules.topic is not None:
        values[TOPIC] = [rules.topic] * len(objects)
    if rules.key_parser:
        values |= read_parsed_keys(values.get(KEY, [None] * len(objects)), rules.fields, rules.key_parser)
    if rules.taken_fields is not None:
        values[UNMAPPED] = [left_values(obj, rules.taken_fields) for obj in objects]
    return values


def read_values(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> list[Any]:
    """The values of a field that the parser of the records made, or what columns leave of them."""
    return field_values(objects, field) if field.place.part == VALUE else part_values[UNMAPPED]


def read_written_values(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> list[Any]:
    """The values of a field that is written as text, in the value of a record or in another part."""
    raws = values_in_part(objects, part_values, field)
    if field.place.part == PARSED_KEY:
        return raws
    return read_texts(raws, field) if field.place.part == VALUE else read_parts(raws, field)


def values_in_part(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> list[Any]:
    """The values of a field as the part of the records has them."""
    if field.place.part == VALUE:
        raws = field_values(objects, field)
        return cut_values(raws, field) if field.place.cut else raws
    return part_values.get(
        parsed_key_part(field) if field.place.part == PARSED_KEY else field.place.part, [None] * len(objects)
    )


def is_unambiguous(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> Any:
    """Which records have a field under its current name, and no value that may be a declared null value."""
    is_unambiguous = np.ones(len(objects), bool)
    if field.place.former:
        is_unambiguous &= _uses_current_name(objects, field)
    if field.form.null_values:
        raws = values_in_part(objects, part_values, field)
        raws = read_texts(raws, field) if field.form.reads_text and field.place.part == VALUE else raws
        is_unambiguous &= np.fromiter((not _may_be_null(raw, field) for raw in raws), bool, len(objects))
    return is_unambiguous


def _uses_current_name(objects: list[dict[str, Any]], field: Field) -> Mask:
    """A mask of the objects that have a value at the field's path, or none at its former path.

    A text on the former path may hold objects.
    """
    pairs = zip(values_at(objects, field.place.names), values_at(objects, field.place.former), strict=True)
    is_used = (former is None or (current is not None and former != ()) for current, former in pairs)
    return np.fromiter(is_used, bool, len(objects))


def _may_be_null(raw: Any, field: Field) -> bool:
    """Whether a value may be a declared null value; other parts of a record are bytes, which may always be one."""
    return raw is not None and (type(raw) is bytes or is_null_value(raw, field.form.null_values))


def explicit_nulls_of(objects: list[dict[str, Any]], field: Field, is_plain: Mask) -> Mask:
    """Which of the plain records have an explicit null for a field; a null may be in a text that was opened."""
    explicit_nulls = (
        flag and (value is None or value == ()) and has_explicit_null(obj, field)
        for obj, value, flag in zip(objects, values_at(objects, field.place.names), is_plain.tolist(), strict=True)
    )
    return np.fromiter(explicit_nulls, bool, len(objects))


def judge_late_rows(events: pa.Array, broker_times: pa.Array, rule: Lateness) -> tuple[Mask, Mask]:
    """Masks of the rows that are late, and of those for which that is certain: a huge difference may overflow."""
    unit = 86_400_000_000 if events.type == pa.date32() else 1
    event_times = events.cast(pa.int32() if unit > 1 else pa.int64()).fill_null(0).to_numpy().astype(np.int64) * unit
    times = broker_times.fill_null(0).to_numpy()
    has_times = (events.is_valid().to_numpy(zero_copy_only=False)) & broker_times.is_valid().to_numpy(
        zero_copy_only=False
    )
    is_certain = (times > -_MAX_TIME) & (times < _MAX_TIME)
    limit = min(rule.limit // timedelta(microseconds=1), _MAX_TIME * 2 - 1)
    return has_times & (times - event_times > limit), is_certain
