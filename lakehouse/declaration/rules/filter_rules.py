"""The rules for ``where``: which records of a topic belong to the table."""

from collections.abc import Iterator

from lakehouse.declaration.delete_conditions import Condition, FieldIs, HeaderIs, SchemaIs
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import is_text

_EXAMPLES = {False: 'FieldIs("type", ["order"])', True: 'HeaderIs("event-type", ["order"])'}


def filter_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the conditions that records of the topic must meet."""
    if table.where is not None and not table.conditions:
        yield "where is an empty list", f"Remove it, or write, for example: where={_EXAMPLES[False]}"
    for condition in table.conditions:
        yield from _schema_problems(condition, table) if isinstance(condition, SchemaIs) else _name_problems(condition)
        if not all(is_text(text) for text in _texts_of(condition)):
            yield "where: a name or a value is not valid UTF-8", "No record can have it. Correct it."


def _name_problems(where: FieldIs | HeaderIs) -> Iterator[Problem]:
    is_header = isinstance(where, HeaderIs)
    has_name = bool(where.name) if isinstance(where, HeaderIs) else all(where.path) and bool(where.path)
    if not has_name or not where.values:
        subject = "HeaderIs needs the name of a header" if is_header else "FieldIs needs the name of a field"
        yield f"where: {subject}, and at least one value", f"Write, for example: where={_EXAMPLES[is_header]}"


def _schema_problems(where: SchemaIs, table: TableParts) -> Iterator[Problem]:
    if not where.names or not all(where.names):
        example = 'where=SchemaIs(["com.shop.OrderPlaced"])'
        yield "where: SchemaIs needs the name of a schema", f"Write, for example: {example}"
    if not table.format.names_records:
        message = f"where: schemas of format {table.format.name} have no names"
        yield message, "Choose records by a field or a header: where=FieldIs(...) or where=HeaderIs(...)."


def _texts_of(where: Condition) -> Iterator[str]:
    if isinstance(where, SchemaIs):
        yield from where.names
        return
    names = (where.name,) if isinstance(where, HeaderIs) else where.path
    yield from (text for text in (*names, *where.values) if isinstance(text, str))
