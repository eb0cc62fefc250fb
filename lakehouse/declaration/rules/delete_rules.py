"""The rules for deletes, truncates and change streams. Each rule yields what is wrong, and what to do."""

from collections.abc import Iterator
from datetime import timedelta

from lakehouse.declaration.columns import Column
from lakehouse.declaration.conditions import FieldIs, Tombstone
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.record_parts import KEY, PARSED_KEY, VALUE, Cut
from lakehouse.decoding.written_forms import BYTE_FORMS, TextBoolean, TextNumber

_MIN_PURGE = timedelta(days=1)  # maintenance runs once a day


def delete_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with the deletes and truncates of a table with a key, and with what it may forget."""
    if table.topic_options.may_forget and not table.keep:
        yield "may_forget requires a kept column", "Declare keep=True for a column, or remove may_forget."
    if not table.key:
        return
    yield from _purge_problems(table)
    for option, condition in table.all_conditions[:2]:
        if isinstance(condition, FieldIs) and not (condition.values and all(condition.path)):
            example = 'Write, for example: FieldIs("operation", ["DELETE"])'
            yield f"{option}: FieldIs needs the name of a field, and at least one value", example
    yield from _truncate_problems(table)
    for column in table.record_columns if isinstance(table.deletes.when, Tombstone) else ():
        if column.name in (*table.key, *table.version_sources) and column.field.place.part == VALUE:
            source = "RecordKey()" if column.name in table.key else 'RecordHeader("...")'
            message = f"deletes: column {column.name} is a field of the value, but a tombstone has no value"
            yield message, f"Declare source={source} for it, or use FieldIs if the deletes have a value."


def _truncate_problems(table: TableParts) -> Iterator[Problem]:
    truncates, deletes = table.deletes.truncates, table.deletes.when
    if truncates and isinstance(deletes, FieldIs) and truncates.path == deletes.path:
        for value in (value for value in truncates.values if value in deletes.values):
            message = f"the value {value!r} means both a delete and a truncate"
            yield message, "A truncate deletes all rows. Remove the value from when or from truncates."
    for option in ("truncates", "purge"):
        if getattr(table.deletes, option) and table.order == "offset" and not table.version_columns:
            message = f'{option} of deletes and order="offset" cannot be combined without a version'
            yield message, "Offsets of several partitions cannot be compared. Declare version=, or remove one of them."


def _purge_problems(table: TableParts) -> Iterator[Problem]:
    if table.deletes.purge is None:
        return
    if table.deletes.purge < _MIN_PURGE:
        yield f"purge is {table.deletes.purge}, but the minimum is one day", "Write purge=timedelta(days=1) or more."
    if not (table.deletes.when or table.has_changes):
        yield "purge requires deletes", "Declare Deletes(when=...), or remove purge."
    if table.base:
        message = "purge of deletes and base cannot be combined"
        yield message, "Base rows are older than any delete, and would come back. Remove one of them."


def change_problems(table: TableParts) -> Iterator[Problem]:
    """What is wrong with a table of a change stream: its format decides about deletes and order."""
    if not table.has_changes:
        return
    form = table.format.name
    if not table.key:
        yield f"format {form} requires a key", "Name the columns of the primary key in the database."
    options = {
        "deletes": table.deletes.when or table.deletes.truncates,
        "version": table.named_versions,
        "late": table.late,
        "where": table.where,
        "rejects": table.rejects,
        "rows_from": table.has_elements,
        "base": table.base,
        'order="offset"': table.order == "offset",
        'gaps="accept"': table.topic_options.gaps == "accept",
        'not_finite="null"': table.format.not_finite == "null",
        "duplicate_names": table.format.duplicate_names != "reject",
        "in_base64": table.format.in_base64,
    }
    for option in (name for name, value in options.items() if value):
        yield f"format {form} and {option} cannot be combined", f"{_WHY_NOT[option]} Remove it."
    yield from _column_problems(table)


def _column_problems(table: TableParts) -> Iterator[Problem]:
    form = table.format.name
    for column in table.record_columns:
        if column.keep and not column.null_erases:
            message = f"column {column.name}: keep requires null_erases in a table of format {form}"
            yield message, "A null in the database must replace the stored value. Add null_erases=True."
        has_documents = table.format.documents
        if column.field.place.part == VALUE and not has_documents:
            yield from _value_problems(column, form)
        if column.name in table.key and has_documents and column.field.place.part not in (KEY, PARSED_KEY):
            message = f"key column {column.name} is not in the record's key, which alone a delete has"
            yield message, "Declare source=RecordKey('json', 'id'): the key of each record has the id."
        if column.keep and has_documents:
            message = f"column {column.name}: keep and documents=True cannot be combined"
            yield message, "A field that was removed from a document is missing in it, and is NULL. Remove keep."
        if column.name in table.key and not has_documents and column.field.place.part != VALUE:
            message = f"key column {column.name} is not a field of the row in a table of format {form}"
            yield message, "Remove its source: the row contains its key."


def _value_problems(column: Column, form: str) -> Iterator[Problem]:
    """What makes a value differ from that of the database: a replaced NULL, another NULL, time or written form."""
    advice = {}
    if column.default is not None:
        advice["default"] = _unlike_database(column, "A default replaces a NULL", "default", "coalesce")
    if column.null_values:
        advice["null_values"] = _unlike_database(column, "null_values remove a value", "null_values", "nullif")
    if column.invalid is not None:
        advice["invalid"] = _unlike_database(column, "invalid removes a value", "invalid", "try_cast")
    if column.time.zone is not None:
        advice["zone"] = "The table has the times of the database. Remove zone. For readers, convert them in a view."
    if isinstance(column.source, Cut):
        advice["Cut"] = "The table has the values of the database. Name the field, and cut it in a view, for readers."
    if not isinstance(column.form, TextBoolean | TextNumber) and column.form not in (None, "unsigned", *BYTE_FORMS):
        advice["written"] = _CONNECTOR_WRITES
    for option, correction in advice.items():
        yield f"column {column.name}: format {form} and {option} cannot be combined", correction


def _unlike_database(column: Column, effect: str, option: str, function: str) -> str:
    place = "in a view" if column.keep else "in the sql of another column, or in a view"
    return (
        f"{effect} of the database, so the table would differ from it. Remove {option}. For readers, write"
        f" {function}({column.name}, ...) {place}."
    )


_CONNECTOR_WRITES = (
    "The settings of the connector decide how it writes values. Remove written. If it writes decimals as text, declare"
    " decimal_handling_mode='string'. For other numbers and booleans, declare TextNumber() or TextBoolean(...)."
)
_ORDER = "The position in the log of the database decides which change is newer."
_WHY_NOT = {
    "deletes": "The records themselves say which rows are deleted, and when the table is truncated.",
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
