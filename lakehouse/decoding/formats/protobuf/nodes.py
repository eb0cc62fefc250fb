"""Make values of the messages of Google's library: each message of a schema has a node, which converts its fields.

What is converted is counted before: a few bytes may describe more values than fit into any memory.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

from lakehouse.decoding.fields import Rejection, UnrepresentableValue
from lakehouse.decoding.formats.avro.logical import non_finite_decimal, shortest_float
from lakehouse.decoding.formats.protobuf.compiled import (
    TYPE_NAMES,
    LoadedSchema,
    import_library,
    is_choice,
    is_entry,
    library_methods,
)
from lakehouse.decoding.formats.protobuf.values import CONVERTERS, SHAPES, WRAPPERS
from lakehouse.decoding.memory import (
    BYTES,
    CONTAINER,
    LIST_SLOT,
    LOGICAL,
    MAP_ENTRY,
    NUMBER,
    TEXT,
    UNREPRESENTABLE,
    MemoryCounter,
    dict_memory,
)

UNKNOWN_VALUE = UnrepresentableValue("a field that the schema does not have")
_MEMORY = {"string": TEXT, "bytes": BYTES, "bool": 0, "message": 0, "enum": 0}
_MISSING = object()  # in place of the value of an absent field, which the record then does not have
_TRUTHS = {True: "true", False: "false"}
Convert = Callable[[Any], Any]


class MessageNode:
    """How messages of a type become values; its fields are added after all nodes exist, since it may contain itself.

    ``plain_names`` are the fields that always have a value, and ``converted`` those of them whose values are converted.
    ``lists`` are arrays and maps with their empty value, ``optional`` other fields, with the value if they are absent.
    ``choices`` are the fields of each ``oneof``. ``names`` are all fields by their numbers.
    """

    def __init__(self, name: str, state: MemoryCounter) -> None:
        self.name, self.state, self.memory = name, state, 0
        self.plain_names, self.converted = list[str](), list[tuple[str, Convert]]()
        self.plain_values: Callable[[Any], tuple[Any, ...]] = lambda _: ()
        self.lists, self.optional = list[tuple[str, Convert, Any]](), list[tuple[str, Convert, Any]]()
        self.choices: dict[str, dict[str, Convert]] = {}
        self.names: dict[int, str] = {}
        self.unknown_fields = import_library().unknown_fields.UnknownFieldSet
        methods = library_methods()
        self.has_field, self.which_oneof = methods.HasField, methods.WhichOneof
        self.is_initialized = methods.IsInitialized

    def read(self, message: Any) -> dict[str, Any]:
        """The values of a message by the names of its fields; those that its schema does not have are marked."""
        self.state.add_memory(self.memory)
        values = dict(zip(self.plain_names, self.plain_values(message), strict=True))
        for name, convert in self.converted:
            values[name] = convert(values[name])
        for name, convert, empty in self.lists:
            items = getattr(message, name)
            values[name] = convert(items) if items else empty
        if self.optional or self.choices:
            self._add_present(message, values)
        unknown_fields = self.unknown_fields(message)
        if len(unknown_fields):
            self._mark_unknown(unknown_fields, values)
        return values

    def _add_present(self, message: Any, values: dict[str, Any]) -> None:
        for name, convert, absent in self.optional:
            if self.has_field(message, name):
                values[name] = convert(getattr(message, name))
            elif absent is not _MISSING:
                values[name] = absent
        for oneof, members in self.choices.items():
            name = self.which_oneof(message, oneof)
            if name:
                values[name] = members[name](getattr(message, name))

    def converted_by(self, convert: Convert) -> Convert:
        """What makes one value of a message; only a wrong wire type of its fields rejects it."""

        def convert_message(message: Any) -> Any:
            unknown_fields = self.unknown_fields(message)
            if len(unknown_fields):
                self._mark_unknown(unknown_fields, {})
            return convert(message)

        return convert_message

    def _mark_unknown(self, fields: Iterable[Any], values: dict[str, Any]) -> None:
        for field in fields:
            number = field.field_number
            if number in self.names:
                detail = f"the wire type {field.wire_type}, which its type does not have"
                raise Rejection("invalid_protobuf", f"{self.names[number]!r} has {detail}")
            if f"#{number}" not in values:
                self.state.add_memory(MAP_ENTRY)
                values[f"#{number}"] = UNKNOWN_VALUE


def message_nodes(loaded: LoadedSchema, state: MemoryCounter) -> dict[str, MessageNode]:
    """Return the nodes of all messages of a schema; raises ``Rejection`` if one of them cannot be read."""
    nodes = {name: MessageNode(name, state) for name in loaded.messages}
    for name, message in loaded.messages.items():
        node, fields = nodes[name], sorted(message.fields, key=lambda field: field.number)
        if name in SHAPES and SHAPES[name] != ", ".join(map(_shape, fields)):
            raise Rejection("unusable_schema", f"it and its references define {name} in different ways")
        for field in fields:
            _add_field(node, field, nodes, loaded)
        node.memory = dict_memory(len(fields)) + sum(_memory_of(field) for field in fields if not field.is_repeated)
        if node.plain_names:
            node.plain_names *= 2 if len(node.plain_names) == 1 else 1  # of one name, attrgetter gives no tuple
            node.plain_values = attrgetter(*node.plain_names)
    return nodes


def _add_field(node: MessageNode, field: Any, nodes: Mapping[str, MessageNode], loaded: LoadedSchema) -> None:
    convert, name, message = _conversion(field, nodes, loaded), field.name, field.message_type
    node.names[field.number] = name
    if TYPE_NAMES[field.type] == "group":
        raise Rejection("unusable_schema", f"{field.full_name} is a group, which cannot be read: use a message instead")
    if is_entry(message):
        node.lists.append((name, _map_conversion(field, nodes, loaded), {}))
    elif field.is_repeated:
        node.lists.append((name, _list_conversion(convert, _memory_of(field), node.state), []))
    elif is_choice(field):
        node.choices.setdefault(field.containing_oneof.name, {})[name] = convert or _keep_value
    elif field.has_presence:
        is_wrapper = message and message.full_name in WRAPPERS
        node.optional.append((name, convert or _keep_value, None if is_wrapper else _MISSING))
    else:
        node.plain_names.append(name)
        node.converted += [(name, convert)] if convert else []


def _shape(field: Any) -> str:
    """A field as ``SHAPES`` describes it."""
    oneof = f" of {field.containing_oneof.name}" if is_choice(field) else ""
    return f"{'repeated ' if field.is_repeated else ''}{TYPE_NAMES[field.type]} {field.name}{oneof}"


def _memory_of(field: Any) -> int:
    """Bytes of a value, without its bytes in the record and without what is counted while it is read."""
    if field.message_type and field.message_type.full_name in SHAPES:
        return LOGICAL
    return _MEMORY.get(TYPE_NAMES[field.type], NUMBER)


def _conversion(field: Any, nodes: Mapping[str, MessageNode], loaded: LoadedSchema) -> Convert | None:
    """What makes a value of what the library gives; ``None`` if it is the value."""
    type_, message = TYPE_NAMES[field.type], field.message_type
    if field.enum_type:
        return _enum_conversion(field.enum_type, nodes[field.containing_type.full_name].state)
    if not message:
        is_checked = type_ != "string" or field.containing_type.file.name in loaded.checked_files
        return {"float": _float, "double": _double}.get(type_) if is_checked else _text
    node, name = nodes[message.full_name], message.full_name
    if name not in SHAPES:
        return node.read
    if name in WRAPPERS:
        convert_inner = _conversion(message.fields_by_name["value"], nodes, loaded) or _keep_value
        return node.converted_by(lambda wrapper: convert_inner(wrapper.value))
    convert_json = _json_value if name == "google.protobuf.Value" else _json_items
    return node.converted_by(CONVERTERS.get(name) or partial(convert_json, node))


def _json_value(node: MessageNode, message: Any) -> Any:
    """The value of JSON that one of the fields holds; null if none does."""
    name = message.WhichOneof("kind")
    return None if name in (None, "null_value") else node.choices["kind"][name](getattr(message, name))


def _json_items(node: MessageNode, message: Any) -> Any:
    """The object or the array of JSON that the only field holds."""
    ((name, convert, _),) = node.lists
    return convert(getattr(message, name))


def _enum_conversion(enum: Any, state: MemoryCounter) -> Convert:
    """The names of an enum; of several names of a number, the first one. A number without a name is not a text."""
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, value.name)

    def convert(number: int) -> str | UnrepresentableValue:
        name = names.get(number)
        if name is None:
            state.add_memory(UNREPRESENTABLE)
            return UnrepresentableValue(f"{number}, without a name in {enum.full_name}")
        return name

    return convert


def _list_conversion(convert: Convert | None, memory: int, state: MemoryCounter) -> Convert:
    def convert_items(items: Any) -> list[Any]:
        state.add_memory(CONTAINER + len(items) * (LIST_SLOT + memory))
        return [convert(item) for item in items] if convert else items[:]

    return convert_items


def _map_conversion(field: Any, nodes: Mapping[str, MessageNode], loaded: LoadedSchema) -> Convert:
    """Make a map of its entries: keys become texts, and of two equal ones the last counts."""
    node, parts = nodes[field.message_type.full_name], field.message_type.fields_by_name
    convert_value, state = _conversion(parts["value"], nodes, loaded) or _keep_value, node.state
    needs_fields = loaded.has_required and parts["value"].message_type  # of a value that is absent too
    convert_key = _TRUTHS.__getitem__ if TYPE_NAMES[parts["key"].type] == "bool" else _key_text
    entry_memory = dict_memory(2) + MAP_ENTRY + _memory_of(parts["value"])

    def convert_entries(entries: Any) -> dict[str, Any]:
        state.add_memory(CONTAINER + len(entries) * entry_memory)
        pairs: dict[str, Any] = {}
        for entry in entries:
            if len(node.unknown_fields(entry)):
                detail = "has more than a key and a value, or one of another wire type"
                raise Rejection("invalid_protobuf", f"an entry of {field.name!r} {detail}")
            if needs_fields and not node.is_initialized(entry.value):
                raise incomplete_rejection(field.name)
            pairs[convert_key(entry.key)] = convert_value(entry.value)
        return pairs

    return convert_entries


def incomplete_rejection(name: str) -> Rejection:
    """Return the rejection of a record with a message that does not have a field that it must have."""
    return Rejection("invalid_protobuf", f"a required field of {name}, or of a message in it, is absent")


def _keep_value(value: Any) -> Any:
    return value


def _float(value: float) -> Any:
    return shortest_float(value, struct.pack("<f", value))


def _double(value: float) -> Any:
    return value if value - value == 0 else non_finite_decimal(value)


def _key_text(value: Any) -> str:
    return _text(value) if isinstance(value, bytes) else str(value)


def _text(value: str | bytes) -> str:
    if isinstance(value, bytes):  # of a file in proto2, whose texts the library does not check
        raise Rejection("invalid_utf8", f"{value[:20]!r} is not UTF-8")
    return value
