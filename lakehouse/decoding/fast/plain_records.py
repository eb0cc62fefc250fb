"""The fast path: decode plain records many at once, and leave every other record to ``records``.

A record is plain if the output of a native parser proves that the strict rules accept it, and with which values. The
strict rules decide about all others. Pure: it runs on the driver and, shipped by value, on Spark's executors.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from pyarrow.compute import if_else

from lakehouse.decoding.deletes import DeleteRule, is_one_of
from lakehouse.decoding.fast.plain_columns import ConvertedColumn, convert_column, convert_typed_column
from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fast.plain_paths import values_at
from lakehouse.decoding.fast.plain_texts import json_key_part, read_json_keys, read_parts, read_texts
from lakehouse.decoding.fast.unique_names import RecordBytes, has_unique_names, record_bytes_of
from lakehouse.decoding.fast.unpacked_values import unpack_values
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.judge import may_be_too_large
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, MAX_SLICE_MEMORY
from lakehouse.decoding.record_parts import JSON_KEY, KEY, TIME, UNMAPPED, VALUE
from lakehouse.decoding.rules import Rules, column_memory
from lakehouse.decoding.times import Lateness
from lakehouse.decoding.unmapped_values import left_values
from lakehouse.decoding.values import NO_PARTS, has_explicit_null, is_null_value

_HUGE_EXPONENT = re.compile(rb"[eE][+-]?\d{9}")
_STRING_OR_NOT_FINITE = re.compile(rb'("(?:[^"\\]++|\\.)*+"?)|-?Infinity|NaN', re.DOTALL)
_MAX_TIME = 2**62
_CERTAIN_KINDS = (str, bool, int, type(None))
"""Types of a value that a native parser certainly made of what was written, and that a rule can compare."""


class PlainRecords(NamedTuple):
    """The result for a batch: the columns, which records are late, and the rows of records that are not plain.

    After the fields' columns comes one for each field of ``Rules.null_erases``: which records have an explicit null.
    ``objects`` are the parsed plain records that belong to the table; ``is_filtered`` are those that do not.
    """

    columns: list[pa.Array]
    late: pa.Array
    uncertain_rows: list[int]
    objects: list[dict[str, Any]]
    is_filtered: Mask


def decode_plain(
    values: pa.Array, broker_times: pa.Array | None, rules: Rules, parts: Mapping[str, pa.Array] = NO_PARTS
) -> PlainRecords:
    """Decode the plain records of a batch; ``broker_times`` are in microseconds since 1970, UTC.

    They are required if records may be late, or if a field is the broker time. ``parts`` are the other parts of the
    records that fields are read from. In rows that are not plain, the values of the columns mean nothing.
    """
    fields, lateness = rules.fields, rules.lateness
    values, rules = unpack_values(values, rules) if rules.parser.is_packed else (values, rules)
    record_bytes = record_bytes_of(values) if rules.parser.is_json else None
    parse_one = _parse_with_nulls if rules.parser.not_finite == "null" else _parse_or_none
    objects, is_plain = _parse(record_bytes.values, parse_one) if record_bytes else _parse_with_format(rules, values)
    broker_times = broker_times[: len(objects)] if broker_times is not None else None
    part_values = _values_of_parts({**parts, TIME: broker_times}, objects, rules)
    convert_values = convert_column if record_bytes else convert_typed_column
    columns = [
        convert_values(_read_values(objects, part_values, field), field)
        if field.part in (VALUE, UNMAPPED) and not field.reads_text
        else convert_column(_read_texts(objects, part_values, field), field)
        for field in fields
    ]
    is_filtered, is_judged = _judge_filter(objects, part_values, rules, values)
    is_valid = _is_certainly_no_delete(objects, rules.deletes) & _is_certainly_no_delete(objects, rules.truncates)
    for field, column in zip(fields, columns, strict=True):
        is_valid &= column.is_plain & _is_unambiguous(objects, part_values, field)
    is_plain &= is_judged & (is_valid | is_filtered)
    if record_bytes:
        is_plain[_rows_with_huge_exponents(record_bytes, columns)] = False
        is_plain &= has_unique_names(record_bytes, objects, fields, columns)
    is_late = np.zeros(len(is_plain), bool)
    if lateness is not None:
        event_column = columns[[field.name for field in fields].index(lateness.column)]
        is_late, is_certain = _judge_late(event_column, broker_times, lateness)
        is_late &= ~is_filtered
        is_plain &= (is_certain & ~(is_late & lateness.rejects)) | is_filtered
    uncertain_rows = np.flatnonzero(~is_plain).tolist()
    is_row = is_plain & ~is_filtered
    plain_objects = objects if is_row.all() else list(compress(objects, is_row.tolist()))
    null_columns = [_explicit_nulls(objects, field, is_row) for field in fields if field.null_erases]
    values = [_without_filtered(column.values, is_filtered) for column in columns]
    return PlainRecords([*values, *null_columns], pa.array(is_late), uncertain_rows, plain_objects, is_filtered)


def _without_filtered(values: pa.Array, is_filtered: Mask) -> pa.Array:
    return if_else(pa.array(is_filtered), None, values) if is_filtered.any() else values


def _read_values(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> list[Any]:
    """The values of a field that the parser of the records made, or what columns leave of them."""
    return values_at(objects, field.names) if field.part == VALUE else part_values[UNMAPPED]


def _read_texts(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> list[Any]:
    """The values of a field that is written as text, in the value of a record or in another part."""
    raws = _values_in_part(objects, part_values, field)
    return read_texts(raws, field) if field.part == VALUE else read_parts(raws, field)


def _values_in_part(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> list[Any]:
    """The values of a field as the part of the records has them."""
    if field.part == VALUE:
        return values_at(objects, field.names)
    return part_values.get(json_key_part(field) if field.part == JSON_KEY else field.part, [None] * len(objects))


def _rows_with_huge_exponents(record_bytes: RecordBytes, columns: list[ConvertedColumn]) -> list[int]:
    """The rows with a zero in a column that may be a number with a huge exponent."""
    zero_rows = {row for column in columns for row in column.zero_rows}
    return [row for row in zero_rows if _HUGE_EXPONENT.search(record_bytes.values[row] or b"")]


def _judge_filter(
    objects: list[Any], part_values: Mapping[str, list[Any]], rules: Rules, values: pa.Array
) -> tuple[Mask, Mask]:
    """Masks of the records that do not meet a condition, and of those for which that is certain."""
    where = rules.where
    if where is None:
        return np.zeros(len(objects), bool), np.ones(len(objects), bool)
    if where.is_about_schema:
        names = [_schema_name(value, rules.parser) for value in values[: len(objects)].to_pylist()]
        is_filtered = np.fromiter((name not in where.values for name in names), bool, len(objects))
        return is_filtered, np.fromiter((name is not None for name in names), bool, len(objects))
    if not where.is_about_value:
        takes_header = [where.takes_header(header) for header in part_values[where.part]]
        return ~np.array(takes_header, bool), np.ones(len(objects), bool)
    raws = values_at(objects, where.path)
    is_filtered = np.fromiter((not is_one_of(raw, where.values) for raw in raws), bool, len(objects))
    return is_filtered, np.fromiter((type(raw) in _CERTAIN_KINDS for raw in raws), bool, len(objects))


def _schema_name(value: bytes | None, parser: Parser) -> str | None:
    try:
        return parser.schema_name(value) if value else None
    except Rejection:
        return None


def _is_certainly_no_delete(objects: list[Any], rule: DeleteRule | None) -> Mask:
    """Which records have a text, a whole number or a boolean that means no delete, or no value, in the field."""
    if rule is None or not rule.path:
        return np.ones(len(objects), bool)
    raws = values_at(objects, rule.path)
    is_certain = (type(raw) in _CERTAIN_KINDS and not is_one_of(raw, rule.values) for raw in raws)
    return np.fromiter(is_certain, bool, len(objects))


def _is_unambiguous(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> Any:
    """Which records have a field under its current name, and no value that may be a declared null value."""
    is_unambiguous = np.ones(len(objects), bool)
    if field.former:
        is_unambiguous &= _uses_current_name(objects, field)
    if field.null_values:
        raws = _values_in_part(objects, part_values, field)
        raws = read_texts(raws, field) if field.reads_text and field.part == VALUE else raws
        is_unambiguous &= np.fromiter((not _may_be_null(raw, field) for raw in raws), bool, len(objects))
    return is_unambiguous


def _parse(values: list[bytes | None], parse_one: Callable[[bytes | None], Any]) -> tuple[list[dict[str, Any]], Mask]:
    """The parsed objects, empty ones for values that are not objects, and a mask of the objects."""
    try:
        parsed = list(map(orjson.loads, values))  # type: ignore[arg-type]
    except orjson.JSONDecodeError:
        parsed = list(map(parse_one, values))
    if set(map(type, parsed)) == {dict}:
        return parsed, np.ones(len(parsed), bool)
    objects = [value if type(value) is dict else {} for value in parsed]
    return objects, np.fromiter((type(value) is dict for value in parsed), bool, len(parsed))


def _parse_with_format(rules: Rules, values: pa.Array) -> tuple[list[dict[str, Any]], Mask]:
    """Parse like ``_parse``, with the parser of a format; stop when the objects take much memory."""
    memory_limits = column_memory(rules)
    safe_memory = MAX_RECORD_MEMORY - memory_limits[0] - values.nbytes * memory_limits[1]  # no record takes too much
    parse_value, memory_of = rules.parser.__call__, rules.parser.memory_of  # looked up once
    parsed: list[dict[str, Any] | None] = []
    total = 0
    for value in values.to_pylist():
        try:
            obj = parse_value(value)
        except Rejection:
            obj = None
        memory = memory_of(value)
        total += memory
        if total > MAX_SLICE_MEMORY and parsed:
            break
        if memory > safe_memory and may_be_too_large(memory, len(value or b""), memory_limits):
            obj = None
        parsed.append(obj)
    return [obj or {} for obj in parsed], np.fromiter((obj is not None for obj in parsed), bool, len(parsed))


def _values_of_parts(
    arrays: Mapping[str, pa.Array | None], objects: list[dict[str, Any]], rules: Rules
) -> dict[str, list[Any]]:
    """The values of the other parts of the records with these objects, and what columns leave of the objects."""
    values = {part: array[: len(objects)].to_pylist() for part, array in arrays.items() if array is not None}
    if rules.reads_json_key:
        values |= read_json_keys(values.get(KEY, [None] * len(objects)), rules.fields)
    if rules.taken_fields is not None:
        values[UNMAPPED] = [left_values(obj, rules.taken_fields) for obj in objects]
    return values


def _parse_or_none(value: bytes | None) -> Any:
    try:
        return orjson.loads(value)  # type: ignore[arg-type]
    except orjson.JSONDecodeError:
        return None


def _parse_with_nulls(value: bytes | None) -> Any:
    """Parse JSON in which NaN and infinities are null; those within strings are not matched as such."""
    parsed = _parse_or_none(value)
    if parsed is not None or value is None:
        return parsed
    return _parse_or_none(_STRING_OR_NOT_FINITE.sub(lambda match: match[1] or b"null", value))


def _uses_current_name(objects: list[dict[str, Any]], field: Field) -> Mask:
    """A mask of the objects that have a value at the field's path, or none at its former path.

    A text on the former path may hold objects.
    """
    pairs = zip(values_at(objects, field.names), values_at(objects, field.former), strict=True)
    is_used = (former is None or (current is not None and former != ()) for current, former in pairs)
    return np.fromiter(is_used, bool, len(objects))


def _explicit_nulls(objects: list[dict[str, Any]], field: Field, is_plain: Mask) -> pa.Array:
    """Which of the plain records have an explicit null for a field."""
    explicit_nulls = (
        flag and value is None and has_explicit_null(obj, field)
        for obj, value, flag in zip(objects, values_at(objects, field.names), is_plain.tolist(), strict=True)
    )
    return pa.array(explicit_nulls, pa.bool_(), size=len(objects))


def _may_be_null(raw: Any, field: Field) -> bool:
    """Whether a value may be a declared null value; other parts of a record are bytes, which may always be one."""
    return raw is not None and (type(raw) is bytes or is_null_value(raw, field.null_values))


def _judge_late(event_column: ConvertedColumn, broker_times: pa.Array, rule: Lateness) -> tuple[Mask, Mask]:
    """Masks of the records that are late, and of those for which that is certain: a huge difference may overflow."""
    values = event_column.values
    unit = 86_400_000_000 if values.type == pa.date32() else 1
    event_times = values.cast(pa.int32() if unit > 1 else pa.int64()).fill_null(0).to_numpy().astype(np.int64) * unit
    times = broker_times.fill_null(0).to_numpy()
    has_times = event_column.has_value & broker_times.is_valid().to_numpy(zero_copy_only=False)
    is_certain = (times > -_MAX_TIME) & (times < _MAX_TIME)
    limit = min(rule.limit // timedelta(microseconds=1), _MAX_TIME * 2 - 1)
    return has_times & (times - event_times > limit), is_certain
