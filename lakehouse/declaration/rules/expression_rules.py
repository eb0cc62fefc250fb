"""The rules of SQL in computed columns, checks and rollups. Each rule yields what is wrong, and what to do."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from lakehouse.declaration.names import NO_CHECK, RECORD, SHAPE, is_name, spelling_hint
from lakehouse.declaration.sql import NotComputable, computed_sql, condition_problems, measure_problems
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Rollup
from lakehouse.decoding.column_types import Problem, type_problems

_MAX_SHOWN = 200  # characters of SQL


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
        try:
            computed_sql(column.sql, column.type, types)
        except NotComputable as error:
            message, action = error.problem
            shown_sql = "" if message.startswith(column.sql) else f"{_shorten(column.sql)!r}: "
            yield f"column {column.name}: {shown_sql}{message}", action


def _shorten(sql: str) -> str:
    return sql if len(sql) <= _MAX_SHOWN else f"{sql[:_MAX_SHOWN]} ..."


def check_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the checks of the table."""
    for name, count in Counter(check.name for check in table.checks).items():
        if not is_name(name):
            yield f"check {name!r}: {SHAPE}", "Choose another name."
        if name in NO_CHECK or count > 1:
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
