"""The rules for ``where`` and ``rejects``: which records belong to a table, and which of them are rejected."""

from collections import Counter
from collections.abc import Iterator, Sequence

from lakehouse.declaration.columns import Column
from lakehouse.declaration.conditions import Condition, FieldIs, HeaderIs, Reject, SchemaIs
from lakehouse.declaration.names import SHAPE, is_name, spelling_hint
from lakehouse.declaration.sql import NotComputable
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import is_text
from lakehouse.decoding.formats import KNOWN_REASONS
from lakehouse.decoding.staged import NO_ROWS

_KINDS = 'Write Reject("no_pieces", when="pieces <= 0"), or Reject("unknown_shop", unknown="shops", by=["shop_id"]).'
_EXAMPLES = {False: 'FieldIs("type", ["order"])', True: 'HeaderIs("event-type", ["order"])'}


def reject_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the rules by which a table rejects records."""
    yield from _reason_problems(table)
    for rule in table.rejects:
        if (rule.when is None) == (rule.unknown is None):
            yield f"reject {rule.reason}: either when or unknown is required", _KINDS
        elif bool(rule.by) != (rule.unknown is not None):
            yield f"reject {rule.reason}: by belongs to unknown, which needs at least one column", _KINDS
        elif rule.unknown is not None:
            yield from _unknown_problems(rule, table)
    yield from _condition_problems(table)


def _reason_problems(table: TableParts) -> Iterator[Problem]:
    fixed_reasons = {*KNOWN_REASONS, *table.format.reasons, *NO_ROWS}
    for reason, count in Counter(rule.reason for rule in table.rejects).items():
        if not is_name(reason):
            yield f"reject {reason!r}: {SHAPE}", "Choose another reason."
        if reason in fixed_reasons:
            yield f"reject {reason}: records are rejected for this reason without a rule", "Choose another reason."
        if count > 1:
            yield f"reject {reason}: two rules have this reason", "Give each its own, or join the conditions with OR."


def _condition_problems(table: TableParts) -> Iterator[Problem]:
    for rule in table.rejects:
        try:
            table.condition_of(rule)
        except NotComputable as error:
            message, action = error.problem
            yield f"reject {rule.reason}: {message}", action


def _unknown_problems(rule: Reject, table: TableParts) -> Iterator[Problem]:
    references = {reference.name: reference for reference in table.references}
    reference = references.get(rule.unknown or "")
    if reference is None:
        hint = spelling_hint(rule.unknown or "", references)
        message = f"reject {rule.reason}: the table has no reference {rule.unknown}"
        yield message, f"{hint}Declare it in references=."
        return
    for name in rule.by:
        column, known_column = (_find_column(name, columns) for columns in (table.record_columns, reference.columns))
        if column is None or known_column is None:
            message = f"reject {rule.reason}: by: {name} must be a column of records and of {reference.name}"
            yield message, "Declare it in both, with the same name and type."
        elif column.type != known_column.type:
            types = f"{column.type}, but {known_column.type} in {reference.name}"
            yield f"reject {rule.reason}: by: {name} is {types}", "Declare the same type in both."


def _find_column(name: str, columns: Sequence[Column]) -> Column | None:
    return next((column for column in columns if column.name == name), None)


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
