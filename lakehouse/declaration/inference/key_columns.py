"""Columns for the keys of records, by the form that all keys have; a line to write if a value has the same field."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.declaration.columns import Column
from lakehouse.declaration.inference.proposal import Proposal
from lakehouse.declaration.inference.proposed_changes import KeyedValue
from lakehouse.declaration.inference.proposed_types import column_line, epoch_unit, type_of, with_type
from lakehouse.declaration.inference.record_fields import field_paths, values_at
from lakehouse.declaration.names import column_name
from lakehouse.decoding.deletes import value_at
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats import KEY_FORMATS, BigEndian
from lakehouse.decoding.formats.format import NO_SCHEMAS, Path, SchemaField, Schemas
from lakehouse.decoding.formats.framing import has_frame, split_frame
from lakehouse.decoding.record_keys import key_parser
from lakehouse.decoding.record_parts import VALUE, KeyEncoding, RecordKey
from lakehouse.decoding.values import convert_value, parse_part

WHOLE = "record_key"
"""The column for a key of one value."""
_PLAIN_FORMS = (
    ("text", Column(WHOLE, "STRING", "", source=RecordKey())),
    ("a whole number of 8 bytes", Column(WHOLE, "BIGINT", "", source=RecordKey("big_endian"))),
    ("a whole number of 4 bytes", Column(WHOLE, "INT", "", source=RecordKey("big_endian"))),
)
_BYTES = Column(WHOLE, "BINARY", "", source=RecordKey())
_JSON_FORMS: tuple[tuple[str, KeyEncoding], ...] = (
    ("JSON", "json"),
    ("JSON with the id of a schema in front", "framed_json"),
)
_CONNECT_NAMES = {"schema", "payload"}  # of Kafka Connect
_MAX_FIELDS, _MAX_LENGTH = 100, 60
_LONG_SIZE = 8  # bytes
_MOSTLY = 0.5  # of the keys, if others are of another kind
_READ = "{}: {}. {} If you do not need them, remove the columns."
_IN_KEY = "If these keys identify a row, name their columns in key=, with required=True."
_BYTES_ONLY = "Bytes cannot be in key=. They show what the producer writes."
_EQUAL = "{}, equal to {}. To read the key itself, write {}."
_UNKNOWN = (
    "Every key seems to begin with the id of a schema, such as {}, but no schema of a registry that is running reads"
    " them all. Set LAKEHOUSE_REGISTRY_URL and run this again, or write {}. With fields, name one:"
    ' RecordKey("avro", "id"), or RecordKey("protobuf", "id").'
)
_OR_NUMBER = "If the keys are whole numbers of 8 bytes, write {}."
_DELETES = (
    "Records with a key and without a value: {:,} of {:,}. If such a record deletes the row of its key, read the"
    " columns of key= with RecordKey, and add deletes=Deletes(when=Tombstone())."
)
_EMPTY = "{:,} of {:,} keys are empty, which {} cannot be: their records are rejected."
_WINDOW = "bytes that end with a time of present days, like the window of an aggregate (see docs/how-to/keys.md)"
_MAX_KEY_FIELDS = 100
_SUBJECT = "Every key is {}, by its schema at the registry"


class KeyColumn(NamedTuple):
    """A column that reads the key, and its value for each record."""

    column: Column
    values: list[Any]


def with_record_key(proposal: Proposal, records: Sequence[KeyedValue], schemas: Schemas = NO_SCHEMAS) -> Proposal:
    """Return the proposal with columns for the keys, by the form that all of them have; unchanged without any key.

    ``schemas`` are those of the values.
    """
    keys = [record.key or None for record in records]
    present_keys = [key for key in keys if key]
    if not present_keys or not proposal.columns:
        return proposal
    form, columns = next(_fitting_forms(keys), ("", []))
    if not columns:
        return _with_warnings(proposal, _unknown_schema(present_keys))
    example = f", such as {ascii(present_keys[0].decode())[:_MAX_LENGTH]}" if form == "text" else ""
    return with_key_columns(proposal, columns, f"Every key is {form}{example}", records, schemas)


def with_key_columns(
    proposal: Proposal, columns: Sequence[KeyColumn], subject: str, records: Sequence[KeyedValue], schemas: Schemas
) -> Proposal:
    """Return the proposal with columns that read the keys, before the others; a name that is taken gets a prefix.

    If another column has the same values, a comment has the line instead. ``subject`` begins each comment.
    """
    taken_names = {column.name for column in proposal.columns}
    new_columns, lines_by_name = list[Column](), dict[str, str]()
    objects = _read_values(proposal, records, schemas)
    for column, values in columns:
        name = f"key_{column.name}" if column.name in taken_names else column.name
        named_column = replace(column, name=name)
        equal_names = (part.name for part in proposal.columns if _are_equal(part, objects, values))
        equal_name = next(equal_names, None)
        if equal_name:
            lines_by_name[equal_name] = column_line(named_column)
        elif name not in {*taken_names, *(column.name for column in new_columns)}:
            new_columns.append(named_column)
    warnings = []
    if lines_by_name:
        warnings.append(_EQUAL.format(subject, ", ".join(lines_by_name), ", ".join(lines_by_name.values())))
    if new_columns:
        shown_columns = [f"{column.name} is the {column.field.source}" for column in new_columns]
        advice = _BYTES_ONLY if new_columns[0].type == "BINARY" else _IN_KEY
        warnings.append(_READ.format(subject, ", ".join(shown_columns), advice))
        warnings += _empty_warnings(new_columns[0], [record.key for record in records])
    without_value = sum(record.key is not None and record.value is None for record in records)
    warnings += [_DELETES.format(without_value, len(records))] if without_value else []
    return _with_warnings(replace(proposal, columns=(*new_columns, *proposal.columns)), *warnings)


def _empty_warnings(column: Column, keys: Sequence[bytes | None]) -> Iterator[str]:
    """Yield how many keys are empty, if the column rejects their records."""
    try:
        key_column(column, [b""])
    except Rejection:
        if b"" in keys:
            yield _EMPTY.format(keys.count(b""), len(keys), column.name)


def key_column(column: Column, keys: Sequence[bytes | None], schemas: Schemas = NO_SCHEMAS) -> KeyColumn:
    """Return a column with the values that it reads from keys; raises ``Rejection`` if it cannot read one."""
    parse_key = key_parser([column.field], schemas)
    parts = [parse_key(key) if parse_key else key for key in keys]
    return KeyColumn(column, [convert_value(parse_part(part, column.field), column.field) for part in parts])


def _with_warnings(proposal: Proposal, *warnings: str) -> Proposal:
    return replace(proposal, warnings=(*proposal.warnings, *warnings))


def _fitting_forms(keys: Sequence[bytes | None]) -> Iterator[tuple[str, list[KeyColumn]]]:
    """The forms that all keys have, the likeliest first, with the columns that read them; none if it is uncertain."""
    for form, encoding in _JSON_FORMS:
        with suppress(Rejection):
            columns = [key_column(column, keys) for column in _json_columns(keys, encoding)]
            if columns:
                yield form, columns
    present_keys = [key for key in keys if key]
    windows = sum(len(key) > _LONG_SIZE and _ends_with_time(key) for key in present_keys)
    if windows >= _MOSTLY * len(present_keys):
        counts = "" if windows == len(present_keys) else f"{windows:,} of {len(present_keys):,} are "
        yield f"{'bytes: ' if counts else ''}{counts}{_WINDOW}", [key_column(_BYTES, keys)]
        return
    has_small_numbers = _are_long(present_keys) and any(map(BigEndian().may_read, present_keys))  # no id is 0
    if all(map(has_frame, present_keys)) and not has_small_numbers:
        return
    for form, column in _PLAIN_FORMS:
        with suppress(Rejection):
            yield form, [key_column(column, keys)]
    yield "bytes, neither text nor a whole number", [key_column(_BYTES, keys)]


def _ends_with_time(key: bytes) -> bool:
    """Whether the last bytes are a time of present days, in milliseconds."""
    number = int.from_bytes(key[-_LONG_SIZE:], "big", signed=True)
    return epoch_unit([Decimal(number)]) == "milliseconds"


def _json_columns(keys: Sequence[bytes | None], encoding: KeyEncoding) -> list[Column]:
    """The columns for keys that are JSON: one for each field of objects, or one for a text."""
    parse_key = key_parser([Column(WHOLE, "STRING", "", source=RecordKey(encoding)).field])
    parsed_keys = [parse_key(key) for key in keys] if parse_key else []
    values = [parsed.value for parsed in parsed_keys if parsed]
    if any(parsed.rejection for parsed in parsed_keys if parsed):
        return []
    if all(isinstance(value, str) for value in values):
        return [Column(WHOLE, "STRING", "", source=RecordKey(encoding))]
    objects = [value for value in values if isinstance(value, dict)]
    paths = field_paths(objects) if len(objects) == len(values) else []
    if {path[0] for path in paths} == _CONNECT_NAMES:
        paths = [path for path in paths if path[0] == "payload"]
    names = {path: column_name("_".join(path)) for path in paths[:_MAX_FIELDS]}
    types = {path: type_of(values_at(path, objects)) for path in names}
    return [
        with_type(Column(name, "STRING", "", source=RecordKey(encoding, path[0] if len(path) == 1 else path)), type_)
        for path, name in names.items()
        if name and (type_ := types[path]) and "<" not in type_[0]
    ]


def _unknown_schema(keys: Sequence[bytes]) -> str:
    """What to write if the keys begin with the id of a schema that is not known."""
    column = Column(WHOLE, "STRING", "", source=RecordKey("avro"))
    text = _UNKNOWN.format(split_frame(keys[0])[0], column_line(column))
    if _are_long(keys):
        return f"{text} {_OR_NUMBER.format(column_line(_PLAIN_FORMS[1][1]))}"
    return text


def _are_long(keys: Sequence[bytes]) -> bool:
    """Whether all keys have as many bytes as a long."""
    return all(len(key) == _LONG_SIZE for key in keys)


def _read_values(proposal: Proposal, records: Sequence[KeyedValue], schemas: Schemas) -> list[dict[str, Any] | None]:
    """The value of each record; ``None`` if it cannot be read, or if it has several rows."""
    parser, objects = proposal.form.parser(schemas), list[dict[str, Any] | None]()
    for record in records:
        objects.append(None)
        with suppress(Rejection, RecursionError):
            objects[-1] = proposal.form.as_json(parser(record.value)) if proposal.rows_from is None else None
    return objects


def _are_equal(column: Column, objects: Sequence[dict[str, Any] | None], values: Sequence[Any]) -> bool:
    """Whether a column has the same values as the keys, also if one of them is a text."""
    pairs = [(content, value) for content, value in zip(objects, values, strict=True) if content is not None]
    if column.field.place.part != VALUE or not pairs:
        return False
    return all(_text_of(value_at(content, column.field.place.names), column) == str(value) for content, value in pairs)


def _text_of(raw: Any, column: Column) -> str:
    """The value of a field as its column stores it, as text; as it is, if its format has only texts."""
    try:
        return str(convert_value(raw, column.field))
    except Rejection:
        return str(raw)


def are_framed(keys: Sequence[bytes | None]) -> bool:
    """Whether all keys may have the id of a schema in front; the bytes of a number also begin with 0."""
    present_keys = [key for key in keys if key is not None]
    return bool(present_keys) and all(key and has_frame(key) for key in present_keys)


def with_schema_key(
    proposal: Proposal,
    records: Sequence[KeyedValue],
    encoding: KeyEncoding,
    key_schemas: Schemas,
    value_schemas: Schemas = NO_SCHEMAS,
) -> Proposal:
    """Return the proposal with columns for the keys, if the ``key_schemas`` read every key."""
    form, keys = KEY_FORMATS[encoding], [record.key for record in records]
    fields = form.schema_fields(form.used_schemas(keys, key_schemas), _MAX_KEY_FIELDS) or {}
    try:
        columns = [key_column(column, keys, key_schemas) for column in _columns(fields, encoding)]
    except Rejection:
        return proposal
    if not proposal.columns or not columns:
        return proposal
    return with_key_columns(proposal, columns, _SUBJECT.format(form.name), records, value_schemas)


def _columns(fields: Mapping[Path, SchemaField], encoding: KeyEncoding) -> list[Column]:
    """The columns of the fields that have a type and a name; a key has no arrays, maps and structs."""
    columns: dict[str, Column] = {}
    for path, field in fields.items():
        name = column_name("_".join(path)) if path else WHOLE
        if name and field.type and "<" not in field.type and name not in columns:
            columns[name] = Column(
                name, field.type, "", source=RecordKey(encoding, path[0] if len(path) == 1 else path)
            )
    return list(columns.values())
