"""The rules for how records write the values of columns, and their keys."""

import re
from collections.abc import Iterator

from lakehouse.declaration.columns import Column, Computed
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import WHOLE_LIMITS, is_text
from lakehouse.decoding.formats import KEY_FORMATS
from lakehouse.decoding.nested_types import as_spark_says
from lakehouse.decoding.record_parts import (
    PARSED_ENCODINGS,
    PARSED_KEY,
    TIME,
    TYPED_ENCODINGS,
    VALUE,
    WINDOW_TIMES,
    RecordKey,
)
from lakehouse.decoding.written_forms import BYTE_FORMS, KeyValues, TextBoolean, TextNumber, becomes_json

_FORMS = 'written="base64", written="base64url" or written="hex"'
FORM_ADVICE = f"Bytes in a text have one of the forms {_FORMS}. Declare that of the records."
"""What to do if a column of bytes has another form."""
_TEXT_NUMBER, _TEXT_BOOLEAN, _KEY_VALUES = TextNumber.__name__, TextBoolean.__name__, KeyValues.__name__
_MAP = "map<string,string>"
_FITTING_KINDS: dict[str, tuple[str, ...]] = {
    "text": ("number", "boolean", "epoch"),
    "text_or_number": ("number", "epoch", "pattern", "string"),
    "number": ("pattern", "string"),
    "unsigned": ("number",),
    "json": ("string",),
    "otlp": ("string", _MAP),
    "connect": ("decimal",),
    **dict.fromkeys(BYTE_FORMS, ("binary",)),
    _TEXT_NUMBER: ("number", "epoch"),
    _TEXT_BOOLEAN: ("boolean",),
    _KEY_VALUES: (_MAP,),
}
_ADVICE: dict[str, str] = {
    "text": (
        "It is for numbers, booleans, and times with an epoch. A STRING and a time with a pattern are texts already:"
        " remove written."
    ),
    "text_or_number": (
        "It is for numbers, STRING, and times with a pattern or an epoch. Remove written, or, for a BOOLEAN, declare"
        ' TextBoolean(true=["true", True], false=["false", False]).'
    ),
    "number": (
        "It is for STRING, and for a time with a pattern of digits. Other columns read numbers already: remove written."
    ),
    "unsigned": "It is for numbers. Declare DECIMAL(20,0) for all of them, or remove written.",
    "json": "The text of a JSON value is a STRING. Declare STRING, or remove written.",
    "otlp": "Declare MAP<STRING, STRING> for attributes, STRING for one value, or remove written.",
    "connect": "These values are decimals. Declare DECIMAL(precision,scale), or remove written.",
    **dict.fromkeys(BYTE_FORMS, "These texts are bytes. Declare BINARY, or remove written, to store a text as it is."),
    _TEXT_NUMBER: "It is for numbers, and for times with an epoch. Declare such a column, or remove written.",
    _TEXT_BOOLEAN: "It is for booleans. Declare BOOLEAN, or remove written.",
    _KEY_VALUES: "Each value becomes a text. Declare MAP<STRING, STRING>, or remove written.",
}
_DIGITS = re.compile(r"%Y(%[mdHMSf]|\d)*")
_PARTS_OF_NUMBERS = "0123456789+-"
_INNER_VALUES = (
    "A field within an object can be a column of its own, with its path as source and with written. For values within"
    " arrays and maps, declare STRING if they are texts."
)
_OF_PARTS = (
    "A key and a header are texts. Remove written, or declare a TextNumber or a TextBoolean that lists only texts, or"
    " for bytes base64, base64url or hex."
)
_ONE_FORM = "A key has one form. Declare the one that its producer writes."


def is_binary(column: Column | Computed) -> bool:
    """Whether a column has bytes."""
    return column.type == "BINARY"


def binary_problems(column: Column) -> Iterator[Problem]:
    """What is wrong with the options of a column of bytes."""
    if not is_binary(column):
        return
    for option in ("null_values", "default"):
        if column.written is None and getattr(column, option) not in (None, (), []):
            yield f"BINARY without written and {option} cannot be combined", f"Bytes are not a text. Remove {option}."


def binary_table_problems(table: TableParts) -> Iterator[Problem]:
    """Columns of bytes in a format without bytes, or in a table with base files, which have none."""
    for column in filter(is_binary, table.record_columns):
        is_json_key = column.field.place.part == PARSED_KEY and column.field.place.key_encoding not in TYPED_ENCODINGS
        is_text = is_json_key or (column.field.place.part == VALUE and not table.format.has_bytes)
        if column.written is None and is_text:
            place = "keys that are JSON" if is_json_key else f"values of format {table.format.name}"
            message = f"column {column.name}: {place} have no bytes"
            declaration = f'Column("{column.name}", "BINARY", ..., written="base64")'
            yield message, f"Bytes are a text there. Write {declaration}, or one of the forms base64url and hex."
        if table.base:
            message = f"column {column.name} is BINARY, but base files have only numbers, times, booleans and texts"
            yield message, "Remove base, or the column."


def written_problems(column: Column, typed_by: str = "") -> Iterator[Problem]:
    """What is wrong with the form in which records write the values of a column; ``typed_by`` as in ``time_rules``."""
    written = column.form
    if written is None:
        return
    if becomes_json(written) and typed_by:  # a small value, such as an enum, may become a long text
        message = f"written={written!r} is not allowed for format {typed_by}"
        yield message, "Declare a column for each field that you need, with its path as source."
    form = written if isinstance(written, str) else type(written).__name__
    if column.is_nested and form not in ("otlp", _KEY_VALUES):
        yield f"written is not allowed for {column.type}", _INNER_VALUES
        return
    if column.field.place.part not in (TIME, VALUE):
        yield from _part_problems(column)
    yield from _fit_problems(column, form)
    yield from _option_problems(column)


def _option_problems(column: Column) -> Iterator[Problem]:
    written = column.form
    if isinstance(written, TextNumber):
        yield from _number_problems(written)
    if isinstance(written, TextBoolean):
        yield from _boolean_problems(written)
    if isinstance(written, KeyValues):
        yield from _pair_problems(written)
    for option in ("null_values", "default") if written == "otlp" and column.type == "STRING" else ():
        if getattr(column, option) not in (None, (), []):
            message = f"{option} is not allowed for a STRING with written='otlp'"
            yield message, f"The value is in an object, and an empty one is null. Remove {option}."


def _fit_problems(column: Column, form: str) -> Iterator[Problem]:
    if not {*_kinds(column)} & {*_FITTING_KINDS[form]}:
        advice = FORM_ADVICE if column.type == "BINARY" else _ADVICE[form]
        yield f"written={column.form!r} does not fit {_described_type(column)}", advice
    pattern = column.time.pattern
    if form in ("number", "text_or_number") and pattern is not None and not _DIGITS.fullmatch(pattern):
        action = "A number has only digits, and no zero in front. Write a pattern that begins with %Y, such as %Y%m%d."
        yield f"the pattern {pattern} does not match a number", action


def _kinds(column: Column) -> Iterator[str]:
    """What the type and the format of the column are, in the words of the tables of this module."""
    if column.type in ("TIMESTAMP", "DATE"):
        yield "epoch" if column.time.epoch else "pattern" if column.time.pattern else "time"
    elif column.type in (*WHOLE_LIMITS, "DOUBLE"):
        yield "number"
    elif column.type.startswith("DECIMAL"):
        yield from ("number", "decimal")
    else:
        yield as_spark_says(column.type)


def _described_type(column: Column) -> str:
    time_format = {"epoch": " with an epoch", "pattern": " with a pattern", "time": " without pattern and epoch"}
    return column.type + time_format.get(next(_kinds(column)), "")


def _part_problems(column: Column) -> Iterator[Problem]:
    if isinstance(column.source, RecordKey) and column.source.written in PARSED_ENCODINGS:
        return
    if isinstance(column.source, RecordKey) and column.source.written in ("big_endian", *WINDOW_TIMES):
        yield (
            f"written and {column.source!r} cannot be combined",
            "The key is either a text or the bytes of a number. Remove one of the two.",
        )
    form = column.form
    has_texts = form in BYTE_FORMS or (isinstance(form, TextNumber) and not form.or_number)
    if isinstance(form, TextBoolean):
        has_texts = all(isinstance(value, str) for value in (*form.true, *form.false))
    if not has_texts:
        yield f"written={form!r} is not allowed for the {column.field.source}", _OF_PARTS


def _number_problems(form: TextNumber) -> Iterator[Problem]:
    """Separators that are not one character, or that a number has in another place."""
    if not all(map(is_text, (form.decimal, form.thousands, form.prefix, form.suffix))):
        yield f"{form!r} is not valid UTF-8", "No record can contain it. Correct it."
    if len(form.decimal) != 1 or form.decimal in _PARTS_OF_NUMBERS:
        yield f"decimal is {form.decimal!r}", "Write the one character before the fraction, for example decimal=','."
    if len(form.thousands) > 1 or (form.thousands and form.thousands in _PARTS_OF_NUMBERS + form.decimal):
        action = "Write the one character between groups of three digits. It must differ from decimal."
        yield f"thousands is {form.thousands!r}", action
    reserved = _PARTS_OF_NUMBERS + form.decimal + form.thousands
    if form.prefix and (form.prefix[-1] in reserved or form.prefix[0] in "+-"):
        action = "Begin and end it with a character that no number has, for example a letter or a space."
        yield f"prefix {form.prefix!r} may be read as a part of the number", action
    if form.suffix and form.suffix[0] in reserved:
        action = "Begin it with a character that no number has, for example a letter or a space."
        yield f"suffix {form.suffix!r} may be read as a part of the number", action


def _pair_problems(form: KeyValues) -> Iterator[Problem]:
    if not (form.key and form.value and is_text(form.key + form.value)):
        yield f"{form!r} has an empty name, or one that is not valid UTF-8", "Write the names that the objects have."
    if form.key == form.value:
        yield f"key and value are both {form.key!r}", "Name the field with the name, and the one with the value."


def _boolean_problems(form: TextBoolean) -> Iterator[Problem]:
    for name, values in (("true", form.true), ("false", form.false)):
        if not values:
            yield f"TextBoolean: {name} is empty", f"List the values that mean {name}, exactly as records contain them."
    if not all(is_text(value) for value in (*form.true, *form.false) if isinstance(value, str)):
        yield f"{form!r} is not valid UTF-8", "No record can contain it. Correct it."
    for value in form.true:
        if any(type(value) is type(false_value) and value == false_value for false_value in form.false):
            yield f"the value {value!r} means both true and false", "Remove it from one of the two lists."


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
        column.field.place.key_encoding: column
        for column in table.record_columns
        if column.field.place.part == PARSED_KEY
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
