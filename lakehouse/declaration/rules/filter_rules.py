"""The rules for ``where``: which records of a topic belong to the table."""

from collections.abc import Iterator

from lakehouse.declaration.delete_conditions import HeaderIs
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import is_text

_EXAMPLES = {False: 'FieldIs("type", ["order"])', True: 'HeaderIs("event-type", ["order"])'}


def filter_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the condition that records of the topic must meet."""
    where = table.where
    if where is None:
        return
    is_header = isinstance(where, HeaderIs)
    has_name = bool(where.name) if isinstance(where, HeaderIs) else all(where.path) and bool(where.path)
    example = f"Write, for example: where={_EXAMPLES[is_header]}"
    if not has_name or not where.values:
        subject = "HeaderIs needs the name of a header" if is_header else "FieldIs needs the name of a field"
        yield f"where: {subject}, and at least one value", example
    names = (where.name,) if isinstance(where, HeaderIs) else where.path
    if not all(is_text(text) for text in (*names, *where.values) if isinstance(text, str)):
        yield "where: a name or a value is not valid UTF-8", "No record can have it. Correct it."
