"""The rules for columns that read the key of the record. Each rule yields what is wrong, and what to do."""

from collections.abc import Iterator

from lakehouse.declaration.columns import Column
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import WHOLE_LIMITS
from lakehouse.decoding.formats import KEY_FORMATS
from lakehouse.decoding.record_parts import PARSED_ENCODINGS, PARSED_KEY, WINDOW_TIMES, RecordKey

_ONE_FORM = "A key has one form. Declare the one that its producer writes."


def typed_key(source: RecordKey) -> str:
    """The name of the format that gives types to a key; empty if none does."""
    return KEY_FORMATS[source.written].name if source.written in KEY_FORMATS else ""


def reads_window_time(column: Column) -> bool:
    """Whether a column is the start or the end of the window in the key."""
    return isinstance(column.source, RecordKey) and column.source.written in WINDOW_TIMES


def key_source_problems(column: Column) -> Iterator[Problem]:
    """What is wrong with the form of a key, and with the path in it."""
    source = column.source
    if not isinstance(source, RecordKey):
        return
    if source.written == "big_endian" and column.type not in WHOLE_LIMITS:
        message = f"its key is a big-endian integer, but the column is {column.type}"
        yield message, "Declare INT for four bytes, or BIGINT for eight."
    if source.names and source.written not in PARSED_ENCODINGS:
        message = f"{source!r} has a path, but only a key in JSON, Avro or Protobuf has fields"
        yield message, 'Write RecordKey("json", ...), or remove the path.'
    if source.window and source.written in WINDOW_TIMES:
        message = f"{source!r} has a window, but is one of its times"
        yield message, "Remove window= here, and write it where the key is read."
    if source.written == "protobuf" and not source.names:
        yield f"{source!r} has no path, but the key is a message", 'Name its field: RecordKey("protobuf", "id").'
    if not all(source.names):
        yield f"{source!r} has an empty name in its path", "Name a field of the key, or remove the path."


def key_table_problems(table: TableParts) -> Iterator[Problem]:
    """Columns that read the key in different forms, and keys whose schemas the values exclude."""
    encodings = {
        column.field.key_encoding: column for column in table.record_columns if column.field.part == PARSED_KEY
    }
    if len(encodings) > 1:
        (form, column), (other_form, other_column), *_ = encodings.items()
        yield f"columns {column.name} and {other_column.name} read the key as {form} and as {other_form}", _ONE_FORM
    yield from _window_problems(table)
    for encoding, column in encodings.items():
        form_of_value = table.format.written or table.format
        is_one_kind = encoding in KEY_FORMATS and isinstance(KEY_FORMATS[encoding], type(form_of_value))
        if encoding in KEY_FORMATS and table.format.needs_schemas and (table.has_changes or not is_one_kind):
            message = f"column {column.name}: {column.source!r} and format {table.format.name} cannot be combined"
            is_row = "Remove its source: the row contains its key."
            yield message, is_row if table.has_changes else "A table keeps schemas of one kind. Read the value instead."


def _window_problems(table: TableParts) -> Iterator[Problem]:
    """Columns that read the key with different windows, or times that its window does not have."""
    sources = {column.name: column.source for column in table.record_columns if isinstance(column.source, RecordKey)}
    times = {name: source for name, source in sources.items() if source.written in WINDOW_TIMES}
    windows = {source.window: name for name, source in sources.items() if name not in times}
    if len(windows) > 1:
        (window, name), (other_window, other_name), *_ = windows.items()
        message = f"columns {name} and {other_name} read the key with window={window!r} and window={other_window!r}"
        yield message, "A key ends with one window. Write the same window in each RecordKey."
    for name, source in times.items():
        if not any(windows):
            message = f"column {name}: no column reads the key in front of the window"
            yield message, 'Declare a column of the key, such as source=RecordKey(window="time"), or "session".'
        elif source.key_window == "session" and "session" not in windows:
            message = f"column {name}: a time window has no end in the key"
            yield message, 'Remove the column: the size of the window is not in the record. A "session" has an end.'
