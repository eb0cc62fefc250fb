"""The rules for deletes and truncates: a delete must contain what is read of it, and its order must survive."""

from collections.abc import Iterator
from datetime import timedelta

from lakehouse.declaration.delete_conditions import FieldIs, Tombstone
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.record_parts import VALUE

_MIN_PURGE = timedelta(days=1)  # maintenance runs once a day


def delete_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the deletes and truncates of a table with a key, and with what it may forget."""
    if table.may_forget and not table.keep:
        yield "may_forget requires a kept column", "Declare keep=True for a column, or remove may_forget."
    if not table.key:
        return
    yield from _purge_problems(table)
    conditions = {"apply_as_deletes": table.apply_as_deletes, "apply_as_truncates": table.apply_as_truncates}
    for option, condition in conditions.items():
        if isinstance(condition, FieldIs) and not (condition.values and all(condition.path)):
            example = 'Write, for example: FieldIs("operation", ["DELETE"])'
            yield f"{option}: FieldIs needs the name of a field, and at least one value", example
    yield from _truncate_problems(table)
    condition = table.apply_as_deletes
    for name in (*table.key, *([table.version_column] if table.version_column else [])):
        column = table.by_name[name]
        if isinstance(condition, Tombstone) and column.field.part == VALUE:
            source = "RecordKey()" if name in table.key else 'RecordHeader("...")'
            message = f"apply_as_deletes: column {name} is a field of the value, but a tombstone has no value"
            yield message, f"Declare source={source} for it, or use FieldIs if the deletes have a value."


def _truncate_problems(table: TableParts) -> Iterator[Problem]:
    truncates, deletes = table.apply_as_truncates, table.apply_as_deletes
    if truncates and isinstance(deletes, FieldIs) and truncates.path == deletes.path:
        for value in (value for value in truncates.values if value in deletes.values):
            message = f"the value {value!r} means both a delete and a truncate"
            yield message, "A truncate deletes all rows. Remove the value from apply_as_deletes or apply_as_truncates."
    for option in ("apply_as_truncates", "purge_deletes"):
        if getattr(table, option) and table.order == "offset" and not table.version_column:
            message = f'{option} and order="offset" cannot be combined without a version'
            yield message, "Offsets of several partitions cannot be compared. Declare version=, or remove one of them."


def _purge_problems(table: TableParts) -> Iterator[Problem]:
    if table.purge_deletes is None:
        return
    if table.purge_deletes < _MIN_PURGE:
        yield (
            f"purge_deletes is {table.purge_deletes}, but the minimum is one day",
            "Write purge_deletes=timedelta(days=1) or more.",
        )
    if not (table.apply_as_deletes or table.has_changes):
        yield "purge_deletes requires deletes", "Declare apply_as_deletes=, or remove purge_deletes=."
    if table.base:
        message = "purge_deletes and base cannot be combined"
        yield message, "Base rows are older than any delete, and would come back. Remove one of them."
