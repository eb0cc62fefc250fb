"""The rules for deletes: a delete must contain what is read of it, and its order must survive."""

from collections.abc import Iterator

from lakehouse.declaration.delete_conditions import FieldIs, Tombstone
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.record_parts import VALUE


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
