"""What a native parser certainly says about many records: to which table they belong, and what they do."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse.decoding.deletes import DeleteRule, is_one_of
from lakehouse.decoding.fast.plain_columns import ConvertedColumn
from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fast.plain_paths import values_at, values_in_part
from lakehouse.decoding.fast.plain_texts import read_texts
from lakehouse.decoding.fast.record_batches import Level
from lakehouse.decoding.fast.unique_names import RecordBytes
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.former_keys import Way, former_rows, value_at
from lakehouse.decoding.record_filter import RecordFilter
from lakehouse.decoding.record_parts import VALUE
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.times import Lateness
from lakehouse.decoding.values import has_explicit_null, is_null_value

_HUGE_EXPONENT = re.compile(rb"[eE][+-]?\d{9}")
_MAX_TIME = 2**62
_CERTAIN_KINDS = (str, bool, int, type(None))
"""Types of a value that a native parser certainly made of what was written, and that a rule can compare."""


def rows_with_huge_exponents(
    record_bytes: RecordBytes, columns: Iterable[ConvertedColumn], owners: Any = None
) -> list[int]:
    """The records with a zero in a column that may be a number with a huge exponent.

    ``owners`` are the records of the rows of the columns, if records have many rows.
    """
    rows = {row for column in columns for row in column.zero_rows}
    records = rows if owners is None else set(owners[list(rows)].tolist())
    return [record for record in records if _HUGE_EXPONENT.search(record_bytes.values[record] or b"")]


def judge_filter(
    objects: list[Any], part_values: Mapping[str, list[Any]], rules: Rules, values: pa.Array
) -> tuple[Mask, Mask]:
    """Masks of the records that do not meet all conditions, and of those for which that is certain."""
    is_filtered, is_certain = np.zeros(len(objects), bool), np.ones(len(objects), bool)
    for where in sorted(rules.where, key=lambda condition: condition.is_about_value):  # as the strict path reads them
        fails, is_judged = _judge_condition(where, objects, part_values, rules, values)
        is_certain &= is_filtered | is_judged
        is_filtered |= fails
    return is_filtered, is_certain


def _judge_condition(
    where: RecordFilter, objects: list[Any], part_values: Mapping[str, list[Any]], rules: Rules, values: pa.Array
) -> tuple[Mask, Mask]:
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


def is_certainly_no_delete(objects: list[Any], rule: DeleteRule | None) -> Mask:
    """Return a mask of the records that are certainly not deletes, by the value of the field."""
    if rule is None or not rule.path:
        return np.ones(len(objects), bool)
    raws = values_at(objects, rule.path)
    is_certain = (type(raw) in _CERTAIN_KINDS and not is_one_of(raw, rule.values) for raw in raws)
    return np.fromiter(is_certain, bool, len(objects))


def has_same_key(level: Level, path: tuple[str, ...], ways: Sequence[Way]) -> Mask:
    """Which of the objects around rows certainly have only updates whose rows had the same key before."""
    is_same = (
        not isinstance(array, list) or all(map(partial(_has_same_key, ways=ways), former_rows(parent, path), array))
        for parent, array in zip(level.objects, level.arrays, strict=True)
    )
    return np.fromiter(is_same, bool, len(level.objects))


def _has_same_key(former: Any, row: Any, ways: Sequence[Way]) -> bool:
    pairs = ((value_at(former, way), value_at(row, way)) for way in ways if former is not None)
    return all(old is None or (type(old) in _CERTAIN_KINDS and old == new) for old, new in pairs)


def is_unambiguous(objects: list[Any], part_values: Mapping[str, list[Any]], field: Field) -> Any:
    """Which records have a field under its current name, and no value that may be a declared null value."""
    is_unambiguous = np.ones(len(objects), bool)
    if field.former:
        is_unambiguous &= _uses_current_name(objects, field)
    if field.null_values:
        raws = values_in_part(objects, part_values, field)
        raws = read_texts(raws, field) if field.reads_text and field.part == VALUE else raws
        is_unambiguous &= np.fromiter((not _may_be_null(raw, field) for raw in raws), bool, len(objects))
    return is_unambiguous


def _uses_current_name(objects: list[dict[str, Any]], field: Field) -> Mask:
    """A mask of the objects that have a value at the field's path, or none at its former path.

    A text on the former path may hold objects.
    """
    pairs = zip(values_at(objects, field.names), values_at(objects, field.former), strict=True)
    is_used = (former is None or (current is not None and former != ()) for current, former in pairs)
    return np.fromiter(is_used, bool, len(objects))


def _may_be_null(raw: Any, field: Field) -> bool:
    """Whether a value may be a declared null value; other parts of a record are bytes, which may always be one."""
    return raw is not None and (type(raw) is bytes or is_null_value(raw, field.null_values))


def explicit_nulls_of(objects: list[dict[str, Any]], field: Field, is_plain: Mask) -> pa.Array:
    """Which of the plain records have an explicit null for a field."""
    explicit_nulls = (
        flag and value is None and has_explicit_null(obj, field)
        for obj, value, flag in zip(objects, values_at(objects, field.names), is_plain.tolist(), strict=True)
    )
    return pa.array(explicit_nulls, pa.bool_(), size=len(objects))


def judge_late_rows(event_column: ConvertedColumn, broker_times: pa.Array, rule: Lateness) -> tuple[Mask, Mask]:
    """Masks of the records that are late, and of those for which that is certain: a huge difference may overflow."""
    values = event_column.values
    unit = 86_400_000_000 if values.type == pa.date32() else 1
    event_times = values.cast(pa.int32() if unit > 1 else pa.int64()).fill_null(0).to_numpy().astype(np.int64) * unit
    times = broker_times.fill_null(0).to_numpy()
    has_times = event_column.has_value & broker_times.is_valid().to_numpy(zero_copy_only=False)
    is_certain = (times > -_MAX_TIME) & (times < _MAX_TIME)
    limit = min(rule.limit // timedelta(microseconds=1), _MAX_TIME * 2 - 1)
    return has_times & (times - event_times > limit), is_certain
