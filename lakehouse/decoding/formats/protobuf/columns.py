"""Derive columns from a schema of Protobuf, for a proposal, and a ``.proto`` file from columns, for ``publish``."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from lakehouse.decoding.column_types import digits_of
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.format import Path, SchemaField, Schemas, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.framing import FRAME_SIZE, split_frame
from lakehouse.decoding.formats.protobuf.compiled import (
    TYPE_NAMES,
    is_entry,
    load_schema,
    read_indexes,
    root_name,
    split_text,
)
from lakehouse.decoding.formats.protobuf.values import COLUMN_TYPES, SHAPES, WRAPPERS
from lakehouse.decoding.formats.schema_types import MAX_LEVELS, field_tree, merged_fields, nested_type, struct_of
from lakehouse.decoding.written_forms import Written, written_kinds

_SCALAR_TYPES = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), "INT"),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), "BIGINT"),
    **dict.fromkeys(("uint64", "fixed64"), "DECIMAL(20,0)"),
    **dict.fromkeys(("float", "double"), "DOUBLE"),
    "bool": "BOOLEAN",
    "string": "STRING",
    "bytes": "BINARY",
}
_WITHOUT_TYPE = {"google.protobuf.Any"}
_DECLARED_TYPES = {"STRING": "string", "BOOLEAN": "bool", "INT": "int32", "BIGINT": "int64", "DOUBLE": "double"}
_DECLARED_TYPES |= {"BINARY": "bytes"}
_TIME_TYPES = {"DATE": "google.type.Date", "TIMESTAMP": "google.protobuf.Timestamp"}
_IMPORTS = {
    "google.type.Date": "google/type/date.proto",
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
}
_EXACT_DIGITS = 15  # of decimals that doubles represent, each by its shortest text
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def used_schemas(values: Iterable[bytes | None], schemas: Schemas) -> list[WriterSchema]:
    """For each schema and each message that values have: the schema with that message as its first; newest first."""
    used_names = dict[tuple[int, str], None]()
    roots = {schema_id: load_schema(schema).roots for schema_id, schema in schemas.by_id.items()}
    for value in values:
        with suppress(Rejection, IndexError):
            schema_id, data = split_frame(value)
            if schema_id in roots:
                indexes, _ = read_indexes(data, FRAME_SIZE)
                used_names[schema_id, root_name(roots[schema_id], indexes)] = None
    return [_with_first(schemas.by_id[i], name) for i, name in sorted(used_names, key=lambda pair: (-pair[0], pair[1]))]


def _with_first(schema: WriterSchema, name: str) -> WriterSchema:
    return schema._replace(text=" ".join((name, *split_text(schema)[1:])))


def schema_fields(schemas: Iterable[WriterSchema], limit: int) -> dict[Path, SchemaField]:
    """The fields that the first messages of schemas describe, by path; at most ``limit`` of each schema."""
    messages = (load_schema(schema).first_message for schema in schemas)
    return merged_fields(islice(_message_fields(message, (), (), {}, is_optional=False), limit) for message in messages)


def _message_fields(
    message: Any, path: Path, outer_names: tuple[str, ...], structs: dict[str, str | None], *, is_optional: bool
) -> Iterator[tuple[Path, SchemaField]]:
    """Yield the fields of a message and of nested messages; a message within itself is not followed."""
    names = (*outer_names, message.full_name)
    for field in sorted(message.fields, key=lambda field: field.number):
        inner_path = (*path, field.name)
        is_absent = is_optional or (field.has_presence and not field.is_required)
        if _is_followed(field, names, len(inner_path)):
            yield from _message_fields(field.message_type, inner_path, names, structs, is_optional=is_absent)
        else:
            yield inner_path, SchemaField(_column_type(field, structs), is_absent)


def _is_followed(field: Any, outer_names: tuple[str, ...], level: int) -> bool:
    inner = field.message_type
    return (
        bool(inner)
        and not field.is_repeated
        and bool(inner.fields)
        and inner.full_name not in (*outer_names, *SHAPES, *_WITHOUT_TYPE)
        and level < MAX_LEVELS
    )


def _column_type(field: Any, structs: dict[str, str | None]) -> str | None:
    """The type of a column for a field; ``None`` if there is none."""
    is_map = is_entry(field.message_type)
    type_ = _value_type(field.message_type.fields_by_name["value"] if is_map else field, structs)
    if not field.is_repeated:
        return type_
    return nested_type("MAP<STRING, {}>" if is_map else "ARRAY<{}>", type_)


def _value_type(field: Any, structs: dict[str, str | None]) -> str | None:
    if not field.message_type:
        return "STRING" if field.enum_type else _SCALAR_TYPES.get(TYPE_NAMES[field.type])
    name = field.message_type.full_name
    if name in WRAPPERS:
        return _SCALAR_TYPES.get(WRAPPERS[name])
    if name in (*SHAPES, *_WITHOUT_TYPE):
        return COLUMN_TYPES.get(name)
    return _struct_type(field.message_type, structs)


def _struct_type(message: Any, structs: dict[str, str | None]) -> str | None:
    """A struct of the fields that have a column type and a valid name; ``None`` for a message within itself."""
    if message.full_name not in structs:
        structs[message.full_name] = None
        fields = sorted(message.fields, key=lambda field: field.number)
        structs[message.full_name] = struct_of([(field.name, _column_type(field, structs)) for field in fields])
    return structs[message.full_name]


def schema_of_fields(record: str, fields: Iterable[Field]) -> str:
    """Return the text of a file for a message with this name: one field for each field that a column reads.

    Every field is optional, so that a record may come without it, and its absence is not the value 0. Raises
    ``UnusableSchemaError`` if columns read a field in ways that no message can describe.
    """
    lines = _message_lines(record, field_tree(fields, lambda field: _typed("M", field)))
    text = "\n".join(lines)
    imports = [f'import "{file}";' for type_, file in _IMPORTS.items() if f"{type_} " in text or f"{type_}>" in text]
    return "\n".join(['syntax = "proto3";', *imports, *lines, ""])


def _message_lines(name: str, content: Mapping[str, Any]) -> list[str]:
    """The lines of a message; each nested object is a message within it."""
    lines = [f"message {_require_name(name)} {{"]
    for number, (field_name, field) in enumerate(content.items(), 1):
        type_, inner_lines = _typed(f"Type_{field_name}", field)
        label = "" if type_.startswith(("repeated ", "map<")) else "optional "
        lines += [*(f"  {line}" for line in inner_lines), f"  {label}{type_} {_require_name(field_name)} = {number};"]
    return [*lines, "}"]


def _typed(message: str, field: Any) -> tuple[str, list[str]]:
    """The type of a field, and the lines of the message that it needs, which gets this name."""
    if isinstance(field, dict):
        return message, _message_lines(message, field)
    if field.type.startswith("STRUCT"):
        return message, _message_lines(message, {inner.name: inner for inner in field.inner})
    if not field.inner:
        return _scalar_type(field), []
    (item_field,) = field.inner
    if item_field.type.startswith(("ARRAY", "MAP")):
        raise UnusableSchemaError(f"{field.source!r} is {field.type[:60]}, and Protobuf has no arrays or maps of these")
    type_, lines = _typed(message, item_field)
    return f"repeated {type_}" if field.type.startswith("ARRAY") else f"map<string, {type_}>", lines


def _scalar_type(field: Field) -> str:
    if field.form.written is not None:
        return _written_type(field, field.form.written)
    if field.type in _TIME_TYPES:
        number = "int32" if field.type == "DATE" else "int64"
        return "string" if field.form.pattern else number if field.form.epoch else _TIME_TYPES[field.type]
    if field.type.startswith("DECIMAL"):
        precision, _ = digits_of(field.type)
        if precision > _EXACT_DIGITS:
            problem = (
                f"{field.source!r} is {field.type}, and no number of Protobuf has more than {_EXACT_DIGITS} digits"
            )
            raise UnusableSchemaError(f"{problem}: register a schema with confluent.type.Decimal")
        return "double"
    return _DECLARED_TYPES[field.type]


def _written_type(field: Field, written: Written) -> str:
    """The type of a field that is not in JSON's own form."""
    kinds = written_kinds(written)
    if len(kinds) != 1:
        raise UnusableSchemaError(f"{field.source!r} may be of several types (written={written!r}), unlike in Protobuf")
    has_digits = field.type in ("STRING", "BOOLEAN") or field.form.pattern is not None
    number_type = "int64" if has_digits else _scalar_type(field._replace(form=field.form._replace(written=None)))
    return {"string": "string", "boolean": "bool", "number": number_type}[kinds[0]]


def _require_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UnusableSchemaError(f"{name[:60]!r} cannot be a name in Protobuf")
    return name
