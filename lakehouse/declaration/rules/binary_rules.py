"""The rules for columns of bytes. Each rule yields what is wrong, and what to do."""

from collections.abc import Iterator

from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.record_parts import PARSED_KEY, TYPED_ENCODINGS, VALUE

_FORMS = 'written="base64", written="base64url" or written="hex"'
FORM_ADVICE = f"Bytes in a text have one of the forms {_FORMS}. Declare that of the records."
"""What to do if a column of bytes has another form."""


def is_binary(column: Column) -> bool:
    """Whether a column has bytes."""
    return column.type == "BINARY"


def binary_problems(column: Column) -> Iterator[Problem]:
    """What is wrong with the options of a column of bytes."""
    if not is_binary(column):
        return
    if column.sql is not None:
        yield "a computed column cannot be BINARY", "SQL computes no bytes. Read the column from a field."
    for option in ("null_values", "default"):
        if column.written is None and getattr(column, option) not in (None, (), []):
            yield f"BINARY without written and {option} cannot be combined", f"Bytes are not a text. Remove {option}."


def binary_table_problems(table: TableParts) -> Iterator[Problem]:
    """Columns of bytes in a format without bytes, or in a table with base files, which have none."""
    for column in filter(is_binary, table.record_columns):
        is_json_key = column.field.part == PARSED_KEY and column.field.key_encoding not in TYPED_ENCODINGS
        is_text = is_json_key or (column.field.part == VALUE and not table.format.has_bytes)
        if column.written is None and is_text:
            place = "keys that are JSON" if is_json_key else f"values of format {table.format.name}"
            message = f"column {column.name}: {place} have no bytes"
            declaration = f'Column("{column.name}", "BINARY", ..., written="base64")'
            yield message, f"Bytes are a text there. Write {declaration}, or one of the forms base64url and hex."
        if table.base:
            message = f"column {column.name} is BINARY, but base files have only numbers, times, booleans and texts"
            yield message, "Remove base, or the column."
