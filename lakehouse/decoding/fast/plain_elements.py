"""The fast path for records with many rows: decode the elements of an array in each, many at once.

Every record of which a row is not certain is left to ``elements`` as a whole. Pure: it runs on the driver and, shipped
by value, on Spark's executors.
"""

from collections.abc import Mapping
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakehouse.decoding.fast.plain_columns import (
    ConvertedColumn,
    any_rounded,
    convert_column,
    convert_part_column,
    convert_typed_column,
)
from lakehouse.decoding.fast.plain_digits import may_hide_digits
from lakehouse.decoding.fast.plain_judging import (
    explicit_nulls_of,
    has_same_key,
    is_certainly_no_delete,
    is_unambiguous,
    judge_filter,
    judge_late_rows,
    rows_with_huge_exponents,
)
from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fast.plain_paths import field_values, read_written_values, values_at
from lakehouse.decoding.fast.record_batches import Level, RecordBatch, Rows, levels_of, parse_batch, sum_counts
from lakehouse.decoding.fast.unique_names import count_declared, has_unique_names
from lakehouse.decoding.fields import Field
from lakehouse.decoding.record_parts import ELEMENT, INDEX, TIME, VALUE
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.staged import EMPTY, FILTERED
from lakehouse.decoding.values import NO_PARTS


class PlainElements(NamedTuple):
    """The rows of the plain records of a batch, in their order.

    ``counts`` is the number of rows of each record, 0 for the uncertain ones at ``uncertain_rows``. ``indices``
    are the places of the rows in their records, NULL for a record that is judged as a whole, which has a reason.
    ``columns`` and ``is_rounded`` are like those of ``PlainRecords``. ``objects`` are the parsed plain records that
    belong to the table.
    """

    columns: list[pa.Array]
    late: pa.Array
    reasons: pa.Array
    indices: pa.Array
    counts: list[int]
    uncertain_rows: list[int]
    objects: list[dict[str, Any]]
    is_rounded: pa.Array


def decode_plain_elements(
    values: pa.Array, broker_times: pa.Array | None, rules: Rules, parts: Mapping[str, pa.Array] = NO_PARTS
) -> PlainElements:
    """Decode the rows of plain records like ``decode_plain``; fewer records if their rows take much memory."""
    batch = parse_batch(values, {**parts, TIME: broker_times}, rules)
    rules = batch.rules
    is_filtered, is_certain = judge_filter(batch.objects, batch.part_values, rules, batch.values)
    is_plain = batch.is_plain & is_certain
    levels, is_readable = levels_of(batch.objects, rules, is_plain & ~is_filtered)
    is_plain &= is_readable | is_filtered
    if rules.deletes:  # a record without rows may be a truncate
        is_plain &= np.fromiter((array is not None for array in levels[0].arrays), bool, len(is_plain)) | is_filtered
    rows = Rows.of(levels, is_plain & ~is_filtered)
    outer_columns = {field.name: _convert_outer(batch, levels, field) for field in rules.outer_fields}
    for field in rules.outer_fields:
        is_uncertain = ~outer_columns[field.name].is_plain
        is_plain[levels[field.level].owners[is_uncertain]] &= is_filtered[levels[field.level].owners[is_uncertain]]
    columns, is_row_plain = _convert(batch, rows, outer_columns)
    is_late, is_certain_row = _judge_late(batch, rows, columns)
    is_row_plain &= is_certain_row
    is_plain[rows.owners[~is_row_plain]] = False
    if batch.record_bytes:
        is_plain[rows_with_huge_exponents(batch.record_bytes, columns, rows.owners)] = False
        is_plain &= ~may_hide_digits(batch.values[: len(is_plain)], rules.fields) | is_filtered
        string_counts = _count_strings(batch, rows, columns, outer_columns)
        contents = [array or () for array in levels[0].arrays] if rules.are_arrays else batch.objects
        is_plain &= has_unique_names(batch.record_bytes, contents, string_counts)
    null_columns = [_explicit_nulls(rows, field, is_row_plain) for field in rules.fields if field.null_erases]
    values, is_rounded = [column.values for column in columns], any_rounded(columns, len(rows.elements))
    verdicts = _Verdicts(values, null_columns, is_late, is_rounded, is_plain, is_filtered)
    return _assemble(batch, rows, verdicts)


class _Verdicts(NamedTuple):
    """The columns of all rows, which rows are late or rounded, and which records are plain and belong to the table."""

    columns: list[pa.Array]
    null_columns: list[pa.Array]
    is_late: Mask
    is_rounded: Mask
    is_plain: Mask
    is_filtered: Mask


def _convert(
    batch: RecordBatch, rows: Rows, outer_columns: Mapping[str, ConvertedColumn]
) -> tuple[list[ConvertedColumn], Mask]:
    """The columns of the rows, and a mask of the rows that certainly have these values."""
    rules = batch.rules
    is_row_plain = rows.are_objects | (not rules.needs_objects)
    if not rules.element_fields:  # arrays in arrays may be too deep, and no column reads them
        is_row_plain &= np.fromiter((type(element) is not list for element in rows.elements), bool, len(rows.elements))
    if rules.deletes_by_record:
        is_row_plain &= is_certainly_no_delete(batch.objects, rules.deletes)[rows.owners]
    elif rules.deletes:
        is_row_plain &= is_certainly_no_delete(rows.objects, rules.deletes._replace(path=rules.deletes.path[1:]))
    if rules.key_ways:
        has_same_keys = has_same_key(rows.levels[-1], rules.paths_to_arrays[-1], rules.key_ways)
        is_row_plain &= has_same_keys[rows.places[-1]]
    columns = []
    for field in rules.fields:
        if field.part == VALUE and not field.of_parent:
            objects, inner_field = rows.place(field)
            column = _convert_values(batch, field_values(objects, inner_field), field)
            is_row_plain &= column.is_plain & is_unambiguous(objects, {}, inner_field)
        elif field.part == INDEX:
            column = convert_column(rows.indices.tolist(), field)
            is_row_plain &= column.is_plain
        else:
            column = rows.spread(outer_columns[field.name], field.level)
            is_clear = is_unambiguous(rows.levels[field.level].objects, batch.part_values, field)
            is_row_plain &= column.is_plain & is_clear[rows.places[field.level]]
        columns.append(column)
    return columns, is_row_plain


def _convert_outer(batch: RecordBatch, levels: list[Level], field: Field) -> ConvertedColumn:
    """The column of a field that is the same for all rows in an object, with a value for each object of its level."""
    if field.part == VALUE:
        return _convert_values(batch, values_at(levels[field.level].objects, field.names), field)
    return convert_part_column(read_written_values(batch.objects, batch.part_values, field), field)


def _convert_values(batch: RecordBatch, raw_values: list[Any], field: Field) -> ConvertedColumn:
    return convert_column(raw_values, field) if batch.record_bytes else convert_typed_column(raw_values, field)


def _judge_late(batch: RecordBatch, rows: Rows, columns: list[ConvertedColumn]) -> tuple[Mask, Mask]:
    """Masks of the rows that are late, and of those for which it is certain that this does not reject them."""
    lateness, size = batch.rules.lateness, len(rows.elements)
    if lateness is None:
        return np.zeros(size, bool), np.ones(size, bool)
    event_column = columns[[field.name for field in batch.rules.fields].index(lateness.column)]
    broker_times = pa.array(batch.part_values[TIME], pa.int64()).take(pa.array(rows.owners))
    is_late, is_certain = judge_late_rows(event_column, broker_times, lateness)
    return is_late, is_certain & ~(is_late & lateness.rejects)


def _count_strings(
    batch: RecordBatch,
    rows: Rows,
    columns: list[ConvertedColumn],
    outer_columns: Mapping[str, ConvertedColumn],
) -> Any:
    """The number of strings in each record that certainly are in columns, names included, or name an array."""
    rules, size = batch.rules, len(batch.objects)
    pairs = [pair for pair in zip(rules.fields, columns, strict=True) if pair[0] in rules.element_fields]
    inner_pairs = [(rows.place(field)[1], column) for field, column in pairs if len(field.names) > 1]
    inner_fields, inner_columns = [field for field, _ in inner_pairs], [column for _, column in inner_pairs]
    row_counts = count_declared(inner_fields, inner_columns, len(rows.elements))
    whole_texts = [column.text_rows for field, column in pairs if len(field.names) == 1]
    row_counts += np.any([mask for mask in whole_texts if mask is not None] or [row_counts < 0], axis=0)
    string_counts = sum_counts(row_counts, rows.owners, size)
    for level, path, outer_fields in zip(rows.levels, rules.paths_to_arrays, rules.outer_levels, strict=True):
        fields = [field for field in outer_fields if field.of_parent]
        masks = [outer_columns[field.name] for field in fields]
        count = len(level.objects)
        if path != (ELEMENT,):
            has_array = np.fromiter((array is not None for array in level.arrays), bool, count)
            fields.append(Field("", "", "", False, None, None, None, path))
            masks.append(ConvertedColumn(pa.nulls(count), has_array, has_array, [], None, has_array))
        string_counts += sum_counts(count_declared(fields, masks, count), level.owners, size)
    return string_counts


def _explicit_nulls(rows: Rows, field: Field, is_row_plain: Mask) -> pa.Array:
    """Which of the plain rows have an explicit null for a field."""
    if field.of_parent:
        objects, places = rows.levels[field.level].objects, rows.places[field.level]
        has_plain_row = np.zeros(len(objects), bool)
        has_plain_row[places[is_row_plain]] = True
        return explicit_nulls_of(objects, field, has_plain_row).take(pa.array(places))
    objects, inner_field = rows.place(field)
    return explicit_nulls_of(objects, inner_field, is_row_plain)


def _assemble(batch: RecordBatch, rows: Rows, verdicts: _Verdicts) -> PlainElements:
    """Put the rows of plain records in their order, with one for each record that has none."""
    is_late, is_plain, is_filtered = verdicts.is_late, verdicts.is_plain, verdicts.is_filtered
    is_kept = is_plain[rows.owners]
    is_whole = is_plain.copy()
    is_whole[rows.owners] = False
    whole_records = np.flatnonzero(is_whole)
    owners = np.concatenate([rows.owners[is_kept], whole_records])
    order = pa.array(np.argsort(owners, kind="stable"))
    all_kept = is_kept.all()

    def arrange(values: pa.Array, of_whole: pa.Array | None = None) -> pa.Array:
        values = values if all_kept else values.filter(pa.array(is_kept))
        if not len(whole_records):
            return values
        whole_values = pa.nulls(len(whole_records), values.type) if of_whole is None else of_whole
        return pa.concat_arrays([values, whole_values]).take(order)

    whole_reasons = [FILTERED if is_filtered[record] else EMPTY for record in whole_records]
    objects = list(compress(batch.objects, (is_plain & ~is_filtered).tolist()))
    return PlainElements(
        [*map(arrange, verdicts.columns), *(arrange(column).fill_null(False) for column in verdicts.null_columns)],
        arrange(pa.array(is_late)).fill_null(False),
        arrange(pa.nulls(len(is_kept), pa.string()), pa.array(whole_reasons, pa.string())),
        arrange(pa.array(rows.indices.astype(np.int32))),
        np.bincount(owners, minlength=len(is_plain)).tolist(),
        np.flatnonzero(~is_plain).tolist(),
        objects,
        arrange(pa.array(verdicts.is_rounded)).fill_null(False),
    )
