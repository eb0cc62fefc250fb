"""The rules for change streams: what the log of a database decides, a declaration does not decide again."""

from collections.abc import Iterator

from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.record_parts import VALUE
from lakehouse.decoding.written_forms import BYTE_FORMS


def change_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with a table of a change stream: its format decides about deletes and order."""
    if not table.has_changes:
        return
    form = table.format.name
    if not table.key:
        yield f"format {form} requires a key", "Name the columns of the primary key in the database."
    options = {
        "apply_as_deletes": table.apply_as_deletes,
        "apply_as_truncates": table.apply_as_truncates,
        "version": table.version_column,
        "late": table.late,
        "where": table.where,
        "rejects": table.rejects,
        "rows_from": table.has_elements,
        "base": table.base,
        'order="offset"': table.order == "offset",
        'gaps="accept"': table.gaps == "accept",
        'not_finite="null"': table.format.not_finite == "null",
        "duplicate_names": table.format.duplicate_names != "reject",
        "in_base64": table.format.in_base64,
    }
    for option in (name for name, value in options.items() if value):
        yield f"format {form} and {option} cannot be combined", f"{_WHY_NOT[option]} Remove it."
    yield from _column_problems(table)


def _column_problems(table: TableParts) -> Iterator[Problem]:
    form = table.format.name
    for column in table.columns:
        if column.keep and not column.null_erases:
            message = f"column {column.name}: keep requires null_erases in a table of format {form}"
            yield message, "A null in the database must replace the stored value. Add null_erases=True."
        if column.sql is None and column.field.part == VALUE:
            yield from _value_problems(column, form)
            yield from _form_problems(column, form)
    for name in table.key:
        if name in table.by_name and table.by_name[name].field.part != VALUE:
            yield (
                f"key column {name} is not a field of the row in a table of format {form}",
                "Remove its source: the row contains its key.",
            )


def _value_problems(column: Column, form: str) -> Iterator[Problem]:
    """What makes a value differ from that of the database: a NULL that is replaced, another NULL, another time."""
    if column.default is not None:
        message = f"column {column.name}: format {form} and default cannot be combined"
        yield message, _unlike_database(column, "A default replaces a NULL", "default", "coalesce")
    if column.null_values:
        message = f"column {column.name}: format {form} and null_values cannot be combined"
        yield message, _unlike_database(column, "null_values remove a value", "null_values", "nullif")
    if column.invalid is not None:
        message = f"column {column.name}: format {form} and invalid cannot be combined"
        yield message, _unlike_database(column, "invalid removes a value", "invalid", "try_cast")
    if column.zone is not None:
        message = f"column {column.name}: format {form} and zone cannot be combined"
        yield message, "The table has the times of the database. Remove zone. For readers, convert them in a view."


def _form_problems(column: Column, form: str) -> Iterator[Problem]:
    """Values in another form than the connector writes: comparisons with the database would not know it."""
    if column.written is not None and column.written not in BYTE_FORMS:
        yield f"column {column.name}: format {form} and written cannot be combined", _CONNECTOR_WRITES


def _unlike_database(column: Column, effect: str, option: str, function: str) -> str:
    place = "in a view" if column.keep else "in the sql of another column, or in a view"
    return (
        f"{effect} of the database, so the table would differ from it. Remove {option}. For readers, write"
        f" {function}({column.name}, ...) {place}."
    )


_CONNECTOR_WRITES = (
    "The settings of the connector decide how it writes values. Remove written. If it writes decimals as text, declare"
    " decimal_handling_mode='string'. For other texts, write a cast in the sql of another column, or in a view."
)
_ORDER = "The position in the log of the database decides which change is newer."
_WHY_NOT = {
    "apply_as_deletes": "The records themselves say which rows are deleted.",
    "apply_as_truncates": "The records themselves say when the table is truncated.",
    "version": _ORDER,
    'order="offset"': _ORDER,
    "base": "A snapshot of the database contains the rows that were there before.",
    'gaps="accept"': "Rows whose deletes expired would stay.",
    "rows_from": "A change is about one row of the database.",
    "where": "A row that no longer meets it would stay in the table.",
    "duplicate_names": "A connector writes each name once: other records are damaged.",
    "in_base64": "The table has the values of the database. Read a text in base64 in a view.",
    'not_finite="null"': "A NULL in place of NaN would leave the table different from its database.",
    "rejects": "A change that is rejected would leave the table different from its database.",
    "late": "A change that is rejected would leave the table different from its database.",
}
