"""The rules for ``rejects``: reasons of the user's own, conditions on one row, and columns of a reference."""

from collections import Counter
from collections.abc import Iterator, Sequence

from lakehouse.declaration.misspelt import spelling_hint
from lakehouse.declaration.names import SHAPE, is_name
from lakehouse.declaration.reject import Reject
from lakehouse.declaration.sql import NotComputable
from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.formats import KNOWN_REASONS
from lakehouse.decoding.staged import NO_ROWS

_KINDS = 'Write Reject("no_pieces", when="pieces <= 0"), or Reject("unknown_shop", unknown="shops", by=["shop_id"]).'


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
