"""Derive proposed columns from the messages that records were written with."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import Path, SchemaField, Schemas, WriterSchema
from lakehouse.decoding.formats.framing import FRAME_SIZE, split_frame
from lakehouse.decoding.formats.protobuf.reader import read_indexes, root_name
from lakehouse.decoding.formats.protobuf.values import COLUMN_TYPES, CONVERTERS, WRAPPERS
from lakehouse.decoding.formats.schema_types import MAX_LEVELS, merged_fields, struct_of

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
Part = Mapping[str, Any]


def used_schemas(values: Iterable[bytes | None], schemas: Schemas) -> list[WriterSchema]:
    """For each schema and each message that values have: the schema with only that message; the newest first."""
    used_names = dict[tuple[int, str], None]()
    roots = {schema_id: json.loads(schema.text)["roots"] for schema_id, schema in schemas.by_id.items()}
    for value in values:
        with suppress(Rejection, IndexError):
            schema_id, data = split_frame(value)
            if schema_id in roots:
                indexes, _ = read_indexes(data, FRAME_SIZE)
                used_names[schema_id, root_name(roots[schema_id], indexes)] = None
    return [_with_root(schemas.by_id[i], name) for i, name in sorted(used_names, key=lambda pair: (-pair[0], pair[1]))]


def _with_root(schema: WriterSchema, name: str) -> WriterSchema:
    return schema._replace(text=json.dumps({**json.loads(schema.text), "roots": [[name, []]]}, sort_keys=True))


def schema_fields(schemas: Iterable[WriterSchema], limit: int) -> dict[Path, SchemaField]:
    """The fields that the first messages of schemas describe, by path; at most ``limit`` of each schema."""
    return merged_fields(islice(_MessageTypes(json.loads(schema.text)).fields(), limit) for schema in schemas)


class _MessageTypes:
    """The messages of a compiled schema, and the types of columns for them that were asked for."""

    def __init__(self, parts: Part) -> None:
        self._parts = parts
        self._structs: dict[str, str | None] = {}

    def fields(self) -> Iterator[tuple[Path, SchemaField]]:
        """Yield the fields of the first message, and of the messages in it."""
        return self._message_fields(self._parts["roots"][0][0], (), (), optional=False)

    def _message_fields(
        self, message: str, path: Path, outer_messages: tuple[str, ...], *, optional: bool
    ) -> Iterator[tuple[Path, SchemaField]]:
        """Yield the fields of a message and of nested messages; a message within itself is not followed."""
        for field in self._parts["messages"][message]:
            inner_path, inner_message = (*path, field["name"]), field["type"][1:]
            is_optional = optional or field.get("label") == "optional"
            if self._is_followed(field, (*outer_messages, message), len(inner_path)):
                messages = (*outer_messages, message)
                yield from self._message_fields(inner_message, inner_path, messages, optional=is_optional)
            else:
                yield inner_path, SchemaField(self._column_type(field), is_optional)

    def _is_followed(self, field: Part, outer_messages: tuple[str, ...], level: int) -> bool:
        message = field["type"][1:]
        is_single = "key" not in field and field.get("label") != "repeated"
        return (
            is_single
            and bool(self._parts["messages"].get(message))
            and message not in (*outer_messages, *CONVERTERS, *_WITHOUT_TYPE)
            and level < MAX_LEVELS
        )

    def _column_type(self, field: Part) -> str | None:
        """The type of a column for a field; ``None`` if there is none."""
        type_ = self._value_type(field["type"])
        is_map, is_array = "key" in field, field.get("label") == "repeated"
        if type_ is None or (type_ == "BINARY" and (is_map or is_array)):
            return None
        return f"MAP<STRING, {type_}>" if is_map else f"ARRAY<{type_}>" if is_array else type_

    def _value_type(self, type_: str) -> str | None:
        name = type_[1:]
        if not type_.startswith("."):
            return _SCALAR_TYPES.get(type_)
        if name in self._parts["enums"]:
            return "STRING"
        if name in WRAPPERS:
            return _SCALAR_TYPES.get(WRAPPERS[name])
        return COLUMN_TYPES.get(name) if name in (*CONVERTERS, *_WITHOUT_TYPE) else self._struct_type(name)

    def _struct_type(self, message: str) -> str | None:
        """A struct of the fields that have a column type and a valid name; ``None`` for a message within itself."""
        if message not in self._structs:
            self._structs[message] = None
            types = [(field["name"], self._column_type(field)) for field in self._parts["messages"][message]]
            self._structs[message] = struct_of((name, type_) for name, type_ in types if type_ != "BINARY")
        return self._structs[message]
