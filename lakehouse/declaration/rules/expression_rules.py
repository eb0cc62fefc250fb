"""What may not be said in SQL: computed columns, checks and rollups. Each rule yields what is wrong, and what to do."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from lakehouse.declaration.names import NO_CHECK, RECORD, SHAPE, is_name
from lakehouse.declaration.sql import NotComputable, computed_sql, condition_problems, measure_problems
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Rollup
from lakehouse.decoding.column_types import Problem, type_problems


def computed_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with columns that follow from others."""
    types = {column.name: column.type for column in table.told if not column.keep and not column.is_nested}
    for column in table.columns:
        if column.sql is None:
            continue
        if column.name in table.key:
            fact = f"column {column.name}: it is computed, and of the key"
            yield fact, "A key is what records tell: name the columns that it follows from."
        try:
            computed_sql(column.sql, column.type, types)
        except NotComputable as error:
            fact, action = error.problem
            yield f"column {column.name}: {column.sql!r}: {fact}", action


def check_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with what is expected of rows."""
    for name, times in Counter(check.name for check in table.checks).items():
        if not is_name(name):
            yield f"check {name!r}: {SHAPE}", "Choose another name."
        if name in NO_CHECK or times > 1:
            yield f"check {name}: the name is taken", "Choose another name: every merged table has some of its own."
    columns = {column.name: column.type for column in table.stored} | {RECORD: ""}
    for check in table.checks:
        if not check.sql.strip():
            yield f"check {check.name}: has no SQL", "Declare a condition of a row, as price > 0."
            continue
        for fact, action in condition_problems(check.sql, columns):
            yield f"check {check.name}: {fact}", action


def rollup_problems(rollup: Rollup, table: TableParts) -> Iterator[Problem]:
    """What is wrong with an aggregate of the table."""
    for fact, action in chain(_groups(rollup, table), _measures(rollup, table)):
        yield f"rollup {rollup.name}: {fact}", action


def _groups(rollup: Rollup, table: TableParts) -> Iterator[Problem]:
    known = {column.name for column in table.stored}
    if not rollup.by:
        yield "groups by nothing", "Name at least one column."
    for name, times in Counter(rollup.by).items():
        if name not in known:
            yield f"groups by unknown columns: {name}", f"The table has {', '.join(sorted(known))}."
        if times > 1:
            yield f"groups by {name} twice", "Name it once."


def _measures(rollup: Rollup, table: TableParts) -> Iterator[Problem]:
    # which record the newest of a key is changes without the row: no measure of a table with a key follows it
    columns = {column.name: column.type for column in table.stored} | ({RECORD: ""} if table.is_log else {})
    if not rollup.measures:
        yield "has no measure", "Declare at least one, as Measure('count(*)', 'BIGINT', 'Rows.')."
    for name, measure in rollup.measures.items():
        if not is_name(name):
            yield f"measure {name!r}: {SHAPE}", "Choose another name."
        if name in rollup.by:
            yield f"measure {name} is named like a column it groups by", "Choose another name."
        if not measure.sql.strip():
            yield f"measure {name}: has no SQL", "Declare an aggregate, as count(*)."
            continue
        for fact, action in chain(type_problems(measure.type), measure_problems(measure.sql, columns)):
            yield f"measure {name}: {fact}", action
