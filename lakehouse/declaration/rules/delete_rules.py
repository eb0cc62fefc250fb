"""The rules for deletes: a delete must contain what is read of it, and its order must survive."""

from collections.abc import Iterator

from lakehouse.declaration.delete_conditions import FieldIs, Tombstone
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.record_parts import VALUE


def change_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with a table of a change stream: its format decides about deletes and order."""
    if not table.has_changes:
        return
    form = table.format.name
    if not table.key:
        yield f"format {form} requires a key", "Name the columns of the primary key in the database."
    options = {
        "apply_as_deletes": table.apply_as_deletes,
        "version": table.version,
        "late": table.late,
        "base": table.base,
        'order="offset"': table.order == "offset",
    }
    for option in (name for name, value in options.items() if value):
        yield f"format {form} and {option} cannot be combined", f"{_WHY_NOT[option]} Remove it."
    for column in table.columns:
        if column.keep and not column.null_erases:
            message = f"column {column.name}: keep requires null_erases in a table of format {form}"
            yield message, "A null in the database must replace the stored value. Add null_erases=True."
    for name in table.key:
        if name in table.by_name and table.by_name[name].field.part != VALUE:
            yield f"key column {name} is not a field of the row", "Remove its source: the row contains its key."


_ORDER = "The position in the log of the database decides which change is newer."
_WHY_NOT = {
    "apply_as_deletes": "The records themselves say which rows are deleted.",
    "version": _ORDER,
    'order="offset"': _ORDER,
    "base": "A snapshot of the database contains the rows that were there before.",
    "late": "A change that is rejected would leave the table different from its database.",
}


def delete_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with ``apply_as_deletes`` of a table with a key."""
    condition = table.apply_as_deletes
    if condition is None or not table.key:
        return
    if isinstance(condition, FieldIs) and not (condition.values and all(condition.path)):
        example = 'Write, for example: FieldIs("operation", ["DELETE"])'
        yield "apply_as_deletes: FieldIs needs the name of a field, and at least one value", example
    for name in (*table.key, *([table.version] if table.version else [])):
        column = table.by_name[name]
        if isinstance(condition, Tombstone) and column.field.part == VALUE:
            source = "RecordKey()" if name in table.key else 'RecordHeader("...")'
            message = f"apply_as_deletes: column {name} is a field of the value, but a tombstone has no value"
            yield message, f"Declare source={source} for it, or use FieldIs if the deletes have a value."
