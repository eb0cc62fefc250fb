"""What records do: whether they belong to the table, delete the row of their key, or every older row."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from lakehouse.decoding.batch import RecordBatch
from lakehouse.decoding.conversion.numbers import Mask
from lakehouse.decoding.conversion.raw_values import values_at
from lakehouse.decoding.deletes import CERTAIN_KINDS, DeleteRule, is_one_of
from lakehouse.decoding.record_filter import RecordFilter
from lakehouse.decoding.record_parts import VALUE

_PRESENT_KINDS = (*CERTAIN_KINDS, dict, list, float)
"""Types of a value of which a native parser is certain that it is present, or null."""


class Settling(Protocol):
    """Records or rows, of which some are open; see ``RecordBatch``."""

    is_open: Mask

    def settle(self, is_odd: Mask, decide: Callable[[int], None]) -> None:
        """Decide about open ones of which a faster rule is not certain."""


def choose_by_header(batch: RecordBatch) -> None:
    """Filter the records whose headers or schemas do not meet ``where``, before they are parsed.

    A tombstone has no schema, so a condition on it does not exclude it.
    """
    for where in batch.rules.where:
        if where.is_about_schema:
            _choose_by_schema(batch, where)
        elif where.part != VALUE:
            array = batch.arrays.get(where.part)
            headers = [None] * len(batch) if array is None else array[: len(batch)].to_pylist()
            batch.filter(np.fromiter((not where.takes_header(header) for header in headers), bool, len(batch)))


def _choose_by_schema(batch: RecordBatch, where: RecordFilter) -> None:
    is_filtered = np.zeros(len(batch), bool)

    def decide(record: int) -> None:
        value = batch.values[record]
        if record in batch.unreadable:
            raise batch.unreadable[record]
        is_filtered[record] = value is not None and batch.rules.parser.schema_name(value) not in where.values

    batch.settle(batch.is_open, decide)
    batch.filter(is_filtered)


def choose_by_value(batch: RecordBatch, are_tombstones: Mask) -> None:
    """Filter the records whose values do not meet ``where``; a tombstone that deletes has none."""
    for where in batch.rules.where if not batch.rules.has_changes else ():
        if where.is_about_value:
            takes = have_value(batch, batch.objects, where, where.takes_fields)
            batch.filter(~takes & ~are_tombstones)


class Effects:
    """Masks of the records that delete the row of their key, and of those that are about no row of their own.

    If the elements of an array are rows, each element says what it is.
    """

    def __init__(self, batch: RecordBatch, are_tombstones: Mask) -> None:
        rules, count = batch.rules, len(batch)
        self.deletes = self.rowless = np.zeros(count, bool)
        if rules.has_changes:
            self.deletes = np.fromiter((change.deletes for change in batch.changes), bool, count) & batch.is_open
            self.rowless = np.fromiter((change.is_rowless for change in batch.changes), bool, count) & batch.is_open
        elif rules.rows_from is None:
            if rules.truncates:
                self.rowless = _decided_by(batch, rules.truncates) & ~are_tombstones
            if rules.deletes:
                self.deletes = (_decided_by(batch, rules.deletes) & ~self.rowless) | are_tombstones


def _decided_by(batch: RecordBatch, rule: DeleteRule) -> Mask:
    return have_value(batch, batch.objects, rule, rule.is_delete)


def have_value(
    rows: Settling, objects: Sequence[Any], rule: DeleteRule | RecordFilter, decide: Callable[[Any], bool]
) -> Mask:
    """Which open rows have one of the values of a rule at its path; ``decide`` is the strict rule for one object."""
    if not rule.path:
        return np.zeros(len(objects), bool)
    raws = values_at(objects, rule.path)
    exists = isinstance(rule, RecordFilter) and not rule.values
    values = ((raw is not None) if exists else is_one_of(raw, rule.values) for raw in raws)
    certain_kinds = _PRESENT_KINDS if exists else CERTAIN_KINDS
    has_value = np.fromiter(values, bool, len(objects))
    is_odd = np.fromiter((type(raw) not in certain_kinds for raw in raws), bool, len(objects))

    def settle(row: int) -> None:
        has_value[row] = decide(objects[row])

    rows.settle(is_odd, settle)
    return has_value & rows.is_open
