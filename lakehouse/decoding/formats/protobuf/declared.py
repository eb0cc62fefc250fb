"""Derive a ``.proto`` file from a declaration; ``publish`` registers it for a topic that has no schema."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lakehouse.decoding.column_types import digits_of
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.declared_fields import field_tree
from lakehouse.decoding.formats.format import UnusableSchemaError
from lakehouse.decoding.written_forms import Written, written_kinds

_TYPES = {"STRING": "string", "BOOLEAN": "bool", "INT": "int32", "BIGINT": "int64", "DOUBLE": "double"}
_TYPES |= {"BINARY": "bytes"}
_TIME_TYPES = {"DATE": "google.type.Date", "TIMESTAMP": "google.protobuf.Timestamp"}
_IMPORTS = {
    "google.type.Date": "google/type/date.proto",
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
}
_EXACT_DIGITS = 15  # of decimals that doubles represent, each by its shortest text
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
    if field.written is not None:
        return _written_type(field, field.written)
    if field.type in _TIME_TYPES:
        number = "int32" if field.type == "DATE" else "int64"
        return "string" if field.pattern else number if field.epoch else _TIME_TYPES[field.type]
    if field.type.startswith("DECIMAL"):
        precision, _ = digits_of(field.type)
        if precision > _EXACT_DIGITS:
            problem = (
                f"{field.source!r} is {field.type}, and no number of Protobuf has more than {_EXACT_DIGITS} digits"
            )
            raise UnusableSchemaError(f"{problem}: register a schema with confluent.type.Decimal")
        return "double"
    return _TYPES[field.type]


def _written_type(field: Field, written: Written) -> str:
    """The type of a field that is not in JSON's own form."""
    kinds = written_kinds(written)
    if len(kinds) != 1:
        raise UnusableSchemaError(f"{field.source!r} may be of several types (written={written!r}), unlike in Protobuf")
    has_digits = field.type in ("STRING", "BOOLEAN") or field.pattern is not None
    number_type = "int64" if has_digits else _scalar_type(field._replace(written=None))
    return {"string": "string", "boolean": "bool", "number": number_type}[kinds[0]]


def _require_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UnusableSchemaError(f"{name[:60]!r} cannot be a name in Protobuf")
    return name
