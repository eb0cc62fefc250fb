"""Turn a registered schema of Protobuf into the form that decodes records: JSON with all names in full.

It has the messages that a record may be (``roots``, by their places in the file). Of all files, it has only the
messages and enums that these can contain. Formatting, comments, options and the order of fields do not change it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.protobuf.bytes import SCALARS
from lakehouse.decoding.formats.protobuf.known import known_files
from lakehouse.decoding.formats.protobuf.nodes import KIND
from lakehouse.decoding.formats.protobuf.reader import reader_of
from lakehouse.decoding.formats.protobuf.text import (
    EnumDefinition,
    FieldDefinition,
    MessageDefinition,
    parse_proto,
)

_MAX_NUMBER = 2**29 - 1
_KEY_TYPES = SCALARS.keys() - {"float", "double", "bytes"}
Part = dict[str, Any]


class _Types(NamedTuple):
    """The messages and enums of all files by their full names; ``has_presence`` of the file of each message."""

    messages: dict[str, tuple[MessageDefinition, bool]]
    enums: dict[str, EnumDefinition]

    def resolve(self, name: str, scope: str) -> str:
        """The full name of a type: the innermost one that a scope has, as compilers choose it."""
        if name.startswith("."):
            full_names = [name[1:]]
        else:
            scopes = scope.split(".")
            full_names = [".".join((*scopes[:count], name)) for count in range(len(scopes), 0, -1)] + [name]
        for full_name in full_names:
            if full_name in self.messages or full_name in self.enums:
                return full_name
        raise UnusableSchemaError(f"it refers to {name[:200]}, which neither it nor its references define")


def writer_schema(text: str, references: Sequence[str] = ()) -> WriterSchema:
    """Return the compiled form of a schema; ``references`` are the files that it imports.

    Raises ``UnusableSchemaError``.
    """
    try:
        schema = WriterSchema(_compile(text, references), (), KIND)
        reader_of(schema)
    except Rejection as rejection:
        raise UnusableSchemaError(rejection.detail) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, UnusableSchemaError):
            raise
        raise UnusableSchemaError(f"it is not a .proto file: {type(error).__name__}: {error}"[:500]) from None
    return schema


def _compile(text: str, references: Iterable[str]) -> str:
    file = parse_proto(text)
    if not file.messages:
        raise UnusableSchemaError("it has no message")
    types = _Types({}, {})
    for other_file in (*known_files(), *map(parse_proto, references), file):
        for message in other_file.messages:
            _add_message(message, other_file.package, types, has_presence=other_file.has_presence)
        for enum in other_file.enums:
            _add(types.enums, _full_name(other_file.package, enum.name), enum)
    roots = _roots(file.messages, file.package)
    parts: Part = {"roots": roots, "messages": {}, "enums": {}}
    names = list(_root_names(roots))
    while names:
        name = names.pop()
        if name in types.enums:
            parts["enums"].setdefault(name, [[*pair] for pair in types.enums[name].numbers.items()])
        elif name not in parts["messages"]:
            parts["messages"][name] = _message_part(name, types)
            names += [field["type"][1:] for field in parts["messages"][name] if field["type"].startswith(".")]
    return json.dumps(parts, sort_keys=True)


def _full_name(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _add(definitions: dict[str, Any], name: str, definition: Any) -> None:
    """Add a definition; two references may be versions of one file, and define the same."""
    if _shape(definitions.setdefault(name, definition)) != _shape(definition):
        raise UnusableSchemaError(f"it and its references define {name} in different ways")


def _shape(definition: Any) -> Any:
    """What two definitions of a message have in common if they mean the same: names of types may be written in full."""
    if isinstance(definition, EnumDefinition):
        return definition.numbers
    message, has_presence = definition
    fields = [field._replace(type=field.type.rpartition(".")[2]) for field in message.fields]
    return fields, message.is_entry, has_presence


def _add_message(message: MessageDefinition, scope: str, types: _Types, *, has_presence: bool) -> None:
    name = _full_name(scope, message.name)
    own_message = message._replace(fields=sorted(message.fields, key=lambda field: field.number), messages=[], enums=[])
    _add(types.messages, name, (own_message, has_presence))
    for inner_message in message.messages:
        _add_message(inner_message, name, types, has_presence=has_presence)
    for enum in message.enums:
        _add(types.enums, _full_name(name, enum.name), enum)


def _roots(messages: Sequence[MessageDefinition], scope: str) -> list[Any]:
    """The messages in a scope by their indexes, each with those in it.

    An index that may mean two messages has ``None``, and one that is only that of the entry of a map has nothing.
    Some serializers count the entries of maps as messages, and some do not.
    """
    bare_messages = [message for message in messages if not message.is_entry]
    roots: list[Any] = []
    for index, message in enumerate(messages):
        meanings = [] if message.is_entry else [message]
        meanings += [bare for bare in bare_messages[index : index + 1] if bare not in meanings]
        if len(meanings) == 1:
            name = _full_name(scope, meanings[0].name)
            roots.append([name, _roots(meanings[0].messages, name)])
        else:
            roots.append(None if meanings else [])
    return roots


def _root_names(roots: Iterable[Any]) -> Iterator[str]:
    for root in roots:
        if root:
            yield root[0]
            yield from _root_names(root[1])


def _message_part(name: str, types: _Types) -> list[Part]:
    """The fields of a message, in the order of their numbers."""
    message, has_presence = types.messages[name]
    parts = [_field_part(field, name, types, has_presence=has_presence) for field in message.fields]
    for key, what in (("number", "number"), ("name", "name")):
        if len({part[key] for part in parts}) < len(parts):
            raise UnusableSchemaError(f"message {name} has two fields of the same {what}")
    return parts


def _field_part(field: FieldDefinition, scope: str, types: _Types, *, has_presence: bool) -> Part:
    if not 0 < field.number <= _MAX_NUMBER:
        raise UnusableSchemaError(f"field {field.name} of {scope} has the number {field.number}")
    part: Part = {"number": field.number, "name": field.name}
    if field.type in SCALARS:
        return {**part, "type": field.type, **_presence(field, has_presence=has_presence)}
    full_name = types.resolve(field.type, scope)
    if full_name in types.enums:
        enum = types.enums[full_name]
        if not enum.numbers:
            raise UnusableSchemaError(f"enum {full_name} has no names")
        return {**part, "type": f".{full_name}", **_presence(field, has_presence=has_presence)}
    message, _ = types.messages[full_name]
    if message.is_entry:
        return {**part, **_map_part(field, full_name, types)}
    return {**part, "type": f".{full_name}", **_presence(field, has_presence=True)}


def _presence(field: FieldDefinition, *, has_presence: bool) -> Part:
    """What a message without the field means; empty if the field then has the default of its type."""
    if field.oneof:
        return {"oneof": field.oneof, "label": "optional"}
    label = field.label or ("optional" if has_presence else "")
    return {"label": label} if label else {}


def _map_part(field: FieldDefinition, entry: str, types: _Types) -> Part:
    """The type of the values of a map, and that of its keys."""
    message, _ = types.messages[entry]
    pair = {inner.number: inner for inner in message.fields}
    if pair.keys() != {1, 2} or field.label != "repeated" or pair[1].type not in _KEY_TYPES:
        raise UnusableSchemaError(f"the map {field.name} has no valid keys and values")
    value = pair[2].type
    return {"key": pair[1].type, "type": value if value in SCALARS else f".{types.resolve(value, entry)}"}
