"""The rules for conditions and SQL: ``where``, ``rejects``, computed columns, checks and rollups."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from lakehouse.declaration.columns import Column, Computed
from lakehouse.declaration.conditions import Condition, FieldExists, FieldIs, HeaderIs, Reject, SchemaIs
from lakehouse.declaration.names import CHECK_NAMES, RECORD, SHAPE, is_name, spelling_hint
from lakehouse.declaration.sql import NotComputable, computed_sql, condition_problems, measure_problems, named_columns
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Explode, Rollup
from lakehouse.decoding.column_types import Problem, type_problems
from lakehouse.decoding.fields import is_text
from lakehouse.decoding.formats import KNOWN_REASONS
from lakehouse.decoding.staged import NO_ROWS

_KINDS = 'Write Reject("no_pieces", when="pieces <= 0"), or Reject("unknown_shop", unknown="shops", by=["shop_id"]).'
_EXAMPLES = {False: 'FieldIs("type", ["order"])', True: 'HeaderIs("event-type", ["order"])'}
_MAX_SHOWN = 200  # characters of SQL


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
    element_where = table.rows_from.where if isinstance(table.rows_from, Explode) else None
    if (table.where is not None and not table.conditions) or (element_where is not None and not element_where):
        yield "where is an empty list", f"Remove it, or write, for example: where={_EXAMPLES[False]}"
    for condition in (*table.conditions, *table.element_conditions):
        yield from _schema_problems(condition, table) if isinstance(condition, SchemaIs) else _name_problems(condition)
        if not all(is_text(text) for text in _texts_of(condition)):
            yield "where: a name or a value is not valid UTF-8", "No record can have it. Correct it."


def _name_problems(where: FieldIs | HeaderIs) -> Iterator[Problem]:
    is_header = isinstance(where, HeaderIs)
    has_name = bool(where.name) if isinstance(where, HeaderIs) else all(where.path) and bool(where.path)
    if not has_name or not (where.values or isinstance(where, FieldExists)):
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


def computed_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the computed columns of the table."""
    types = {column.name: column.type for column in table.record_columns if not column.keep and not column.is_nested}
    for column in table.computed_columns:
        if not column.sql:
            yield (
                f"column {column.name}: sql is empty",
                "Write an expression over other columns, for example rating >= 7.",
            )
        if column.name in table.key:
            message = f"column {column.name}: a computed column cannot be part of the key"
            yield message, "The key must come from records. Name the columns that it is computed from."
        names = named_columns(column.sql)
        unread_columns = [c for c in table.columns if c.name in names and c.name not in types]
        if unread_columns:
            yield from _unreadable_problems(column, unread_columns)
            continue
        try:
            computed_sql(column.sql, column.type, types)
        except NotComputable as error:
            message, action = error.problem
            shown_sql = "" if message.startswith(column.sql) else f"{_shorten(column.sql)!r}: "
            yield f"column {column.name}: {shown_sql}{message}", action


def _unreadable_problems(column: Computed, unread_columns: Sequence[Column | Computed]) -> Iterator[Problem]:
    """The columns that the SQL of a computed column names and cannot read."""
    for unread_column in unread_columns:
        subject = f"column {column.name}: {_shorten(column.sql)!r}: {unread_column.name}"
        if isinstance(unread_column, Computed):
            yield f"{subject} is a computed column", "Write its expression in its place."
        elif unread_column.keep:
            effect = "its value may be of an older record than the row, and is known when it is stored"
            yield f"{subject} has keep: {effect}", "Compute it in a view, or remove keep."
        else:
            advice = "Declare the field that you need as a column, or compute it in a view."
            yield f"{subject} is {unread_column.type}", advice


def _shorten(sql: str) -> str:
    return sql if len(sql) <= _MAX_SHOWN else f"{sql[:_MAX_SHOWN]} ..."


def check_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the checks of the table."""
    for name, count in Counter(check.name for check in table.checks).items():
        if not is_name(name):
            yield f"check {name!r}: {SHAPE}", "Choose another name."
        if name in CHECK_NAMES or count > 1:
            action = "Choose another name. Every merged table has checks of its own."
            yield f"check {name}: the name is already used", action
    columns = {column.name: column.type for column in table.stored_columns} | {RECORD: ""}
    for check in table.checks:
        if not check.sql.strip():
            yield f"check {check.name}: sql is empty", "Write a condition on a row, for example price > 0."
            continue
        for message, action in condition_problems(check.sql, columns):
            yield f"check {check.name}: {message}", action


def rollup_problems(rollup: Rollup, table: TableParts) -> Iterator[Problem]:
    """What is wrong with a rollup of the table."""
    for message, action in chain(_group_problems(rollup, table), _rollup_measure_problems(rollup, table)):
        yield f"rollup {rollup.name}: {message}", action


def _group_problems(rollup: Rollup, table: TableParts) -> Iterator[Problem]:
    column_names = {column.name for column in table.stored_columns}
    if not rollup.by:
        yield "by is empty", "Name at least one column."
    for name, count in Counter(rollup.by).items():
        if name not in column_names:
            hint = spelling_hint(name, column_names)
            known_columns = ", ".join(sorted(column_names))
            yield f"unknown column in by: {name}", f"{hint}The columns of the table are {known_columns}."
        if count > 1:
            yield f"{name} is listed twice in by", "List it once."


def _rollup_measure_problems(rollup: Rollup, table: TableParts) -> Iterator[Problem]:
    # in a table with a key, the newest record of a row can change while the row does not, so no measure may use it
    columns = {column.name: column.type for column in table.stored_columns} | ({RECORD: ""} if table.is_log else {})
    if not rollup.measures:
        yield "measures is empty", "Declare at least one, for example Measure('count(*)', 'BIGINT', 'Rows.')."
    for name, measure in rollup.measures.items():
        if not is_name(name):
            yield f"measure {name!r}: {SHAPE}", "Choose another name."
        if name in rollup.by:
            yield f"measure {name} has the same name as a column in by", "Choose another name."
        if not measure.sql.strip():
            yield f"measure {name}: sql is empty", "Write an aggregate, for example count(*)."
            continue
        if measure.type == "BINARY":
            yield f"measure {name}: no measure can be BINARY", "Declare a number, a time, a boolean or a STRING."
        for message, action in chain(type_problems(measure.type), measure_problems(measure.sql, columns)):
            yield f"measure {name}: {message}", action
