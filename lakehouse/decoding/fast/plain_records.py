"""The fast path: decode plain records many at once, and leave every other record to ``records``.

A record is plain if the output of a native parser proves that the strict rules accept it, and with which values. The
strict rules decide about all others. Pure: it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow.compute import if_else

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
    is_certainly_no_delete,
    is_unambiguous,
    judge_filter,
    judge_late_rows,
    rows_with_huge_exponents,
)
from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fast.plain_parsing import parse_objects, parse_or_none, parse_with_format, parse_with_nulls
from lakehouse.decoding.fast.plain_paths import read_values, read_written_values, values_of_parts
from lakehouse.decoding.fast.spliced_texts import splice_texts
from lakehouse.decoding.fast.unique_names import count_declared, has_unique_names, record_bytes_of
from lakehouse.decoding.fast.unpacked_values import unpack_values
from lakehouse.decoding.record_parts import TIME, UNMAPPED, VALUE
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.values import NO_PARTS


class PlainRecords(NamedTuple):
    """The result for a batch: the columns, which records are late, and the rows of records that are not plain.

    After the fields' columns comes one for each field of ``Rules.null_erases``: which records have an explicit null.
    ``objects`` are the parsed plain records that belong to the table; ``is_filtered`` are those that do not.
    ``is_rounded`` says which records have a decimal that lost digits.
    """

    columns: list[pa.Array]
    late: pa.Array
    uncertain_rows: list[int]
    objects: list[dict[str, Any]]
    is_filtered: Mask
    is_rounded: pa.Array


def decode_plain(
    values: pa.Array, broker_times: pa.Array | None, rules: Rules, parts: Mapping[str, pa.Array] = NO_PARTS
) -> PlainRecords:
    """Decode the plain records of a batch; ``broker_times`` are in microseconds since 1970, UTC.

    They are required if records may be late, or if a field is the broker time. ``parts`` are the other parts of the
    records that fields are read from. In rows that are not plain, the values of the columns mean nothing.
    """
    fields = rules.fields
    unpacked_values, rules = unpack_values(values, rules) if rules.parser.is_packed else (values, rules)
    values = splice_texts(unpacked_values, rules)
    record_bytes = record_bytes_of(values) if rules.parser.is_json else None
    parse_one = parse_with_nulls if rules.parser.json_options.not_finite == "null" else parse_or_none
    objects, is_plain = (
        parse_objects(record_bytes.values, parse_one) if record_bytes else parse_with_format(rules, values)
    )
    broker_times = broker_times[: len(objects)] if broker_times is not None else None
    part_values = values_of_parts({**parts, TIME: broker_times}, objects, rules)
    convert_values = convert_column if record_bytes else convert_typed_column
    columns = [
        convert_values(read_values(objects, part_values, field), field)
        if field.part in (VALUE, UNMAPPED) and not field.reads_text
        else convert_part_column(read_written_values(objects, part_values, field), field)
        for field in fields
    ]
    is_filtered, is_judged = judge_filter(objects, part_values, rules, values)
    is_valid = is_certainly_no_delete(objects, rules.deletes) & is_certainly_no_delete(objects, rules.truncates)
    for field, column in zip(fields, columns, strict=True):
        is_valid &= column.is_plain & is_unambiguous(objects, part_values, field)
    is_plain &= is_judged & (is_valid | is_filtered)
    if record_bytes:
        is_plain[rows_with_huge_exponents(record_bytes, columns)] = False
        is_plain &= ~may_hide_digits(values[: len(objects)], fields) | is_filtered
        is_plain &= has_unique_names(record_bytes, objects, count_declared(fields, columns, len(objects)))
    is_late, is_judged = _judge_lateness(columns, broker_times, rules, is_filtered)
    is_plain &= is_judged
    is_row = is_plain & ~is_filtered
    plain_objects = objects if is_row.all() else list(compress(objects, is_row.tolist()))
    null_columns = [explicit_nulls_of(objects, field, is_row) for field in fields if field.null_erases]
    values = [*(_without_filtered(column.values, is_filtered) for column in columns), *null_columns]
    is_rounded = pa.array(any_rounded(columns, len(is_plain)) & is_row)
    return PlainRecords(
        values, pa.array(is_late), np.flatnonzero(~is_plain).tolist(), plain_objects, is_filtered, is_rounded
    )


def _judge_lateness(
    columns: Sequence[ConvertedColumn], broker_times: pa.Array | None, rules: Rules, is_filtered: Mask
) -> tuple[Mask, Mask]:
    """Return which records are late, and which may be plain: it is certain, and does not reject them."""
    if rules.lateness is None:
        return np.zeros(len(is_filtered), bool), np.ones(len(is_filtered), bool)
    event_column = columns[[field.name for field in rules.fields].index(rules.lateness.column)]
    is_late, is_certain = judge_late_rows(event_column, broker_times, rules.lateness)
    is_late &= ~is_filtered
    return is_late, (is_certain & ~(is_late & rules.lateness.rejects)) | is_filtered


def _without_filtered(values: pa.Array, is_filtered: Mask) -> pa.Array:
    return if_else(pa.array(is_filtered), None, values) if is_filtered.any() else values
