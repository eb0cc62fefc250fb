"""Schemas and messages of Protobuf, drawn at random, as text for us and as classes of Google's library."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from hypothesis import strategies as st

from lakehouse.decoding.fields import UnrepresentableValue
from lakehouse.decoding.formats.avro.logical import non_finite_decimal, shortest_float
from lakehouse.decoding.formats.format import WriterSchema
from lakehouse.decoding.formats.protobuf.compiled import join_text
from lakehouse.decoding.formats.protobuf.values import CONVERTERS, WRAPPERS

FIELD = descriptor_pb2.FieldDescriptorProto
INTEGERS = {
    "int32": (-(2**31), 2**31 - 1),
    "sint32": (-(2**31), 2**31 - 1),
    "sfixed32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "fixed32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "sint64": (-(2**63), 2**63 - 1),
    "sfixed64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
    "fixed64": (0, 2**64 - 1),
}
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    **{name: st.integers(*bounds) | st.integers(0, 3) for name, bounds in INTEGERS.items()},
    "float": st.floats(width=32),
    "double": st.floats(),
    "bool": st.booleans(),
    "string": st.text(max_size=12),
    "bytes": st.binary(max_size=12),
}
KEYS = [name for name in SCALARS if name not in ("float", "double", "bytes")]
KNOWN = ["Timestamp", "Duration", "StringValue", "Int64Value", "DoubleValue", "BytesValue", "Struct", "Value"]
ENUM = {"NONE": 0, "NEW": 1, "OLD": 7, "LOST": -3}
FORMS = ("", "optional", "repeated", "map", "oneof")


@dataclass(frozen=True)
class DrawnField:
    """A field: ``form`` is its label, ``map`` or ``oneof``; ``key`` is the type of the keys of a map."""

    name: str
    number: int
    type: str
    form: str
    key: str = "string"


@dataclass(frozen=True)
class DrawnSchema:
    """The fields of messages M0, M1 and so on; all may contain each other, and the enum Kind."""

    syntax: str
    messages: tuple[tuple[DrawnField, ...], ...]

    @property
    def text(self) -> str:
        """The text of the file."""
        files = ("timestamp", "duration", "wrappers", "struct")
        imports = [f'import "google/protobuf/{file}.proto";' for file in files]
        values = " ".join(f"{name} = {number};" for name, number in ENUM.items())
        lines = [f'syntax = "{self.syntax}";', "package drawn;", *imports, f"enum Kind {{ {values} }}"]
        for index, fields in enumerate(self.messages):
            choices = [f"    {field.type} {field.name} = {field.number};" for field in fields if field.form == "oneof"]
            oneof = ["  oneof one {", *choices, "  }"] if choices else []
            field_lines = [self._line(field) for field in fields if field.form != "oneof"]
            lines += [f"message M{index} {{ // comment", *oneof, *field_lines, "}"]
        return "\n".join(lines)

    def _line(self, field: DrawnField) -> str:
        if field.form == "map":
            return f"  map<{field.key}, {field.type}> {field.name} = {field.number};"
        label = "optional" if self.syntax == "proto2" and not field.form else field.form
        return f"  {label} {field.type} {field.name} = {field.number} [deprecated = true];"

    @property
    def files(self) -> Any:
        """The descriptors of the file, and of those that it imports, as a compiler describes them."""
        file = descriptor_pb2.FileDescriptorProto(name="drawn.proto", package="drawn", syntax=self.syntax)
        file.enum_type.add(name="Kind").value.extend(
            descriptor_pb2.EnumValueDescriptorProto(name=value, number=number) for value, number in ENUM.items()
        )
        files = descriptor_pb2.FileDescriptorSet()
        for module in (timestamp_pb2, duration_pb2, wrappers_pb2, struct_pb2):
            files.file.add().ParseFromString(module.DESCRIPTOR.serialized_pb)
            file.dependency.append(module.DESCRIPTOR.name)
        for index, fields in enumerate(self.messages):
            _describe(file.message_type.add(name=f"M{index}"), fields, self.syntax)
        files.file.append(file)
        return files

    @property
    def compiled(self) -> WriterSchema:
        """The schema as the compiler makes it, but without the compiler."""
        return WriterSchema(join_text("drawn.M0", "", self.files.SerializeToString()), (), "PROTOBUF")

    def message_class(self) -> Any:
        """The class of the first message in Google's library."""
        pool = descriptor_pool.DescriptorPool()
        for file in self.files.file:
            pool.AddSerializedFile(file.SerializeToString())
        return message_factory.GetMessageClass(pool.FindMessageTypeByName("drawn.M0"))


def _describe(message: Any, fields: Sequence[DrawnField], syntax: str) -> None:
    if any(field.form == "oneof" for field in fields):
        message.oneof_decl.add(name="one")
    for field in fields:
        part = message.field.add(name=field.name, number=field.number, label=FIELD.LABEL_OPTIONAL)
        _set_type(part, field.type)
        if field.form == "oneof":
            part.oneof_index = 0
        elif field.form == "repeated":
            part.label = FIELD.LABEL_REPEATED
        elif field.form == "map":
            entry = message.nested_type.add(name=f"{field.name.capitalize()}Entry")
            entry.options.map_entry = True
            for name, number, type_ in (("key", 1, field.key), ("value", 2, field.type)):
                _set_type(entry.field.add(name=name, number=number, label=FIELD.LABEL_OPTIONAL), type_)
            part.label, part.type = FIELD.LABEL_REPEATED, FIELD.TYPE_MESSAGE
            part.type_name = f".drawn.{message.name}.{entry.name}"
        elif field.form == "optional" and syntax == "proto3":
            part.proto3_optional, part.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _set_type(part: Any, type_: str) -> None:
    if type_ in SCALARS:
        part.type = getattr(FIELD, f"TYPE_{type_.upper()}")
    else:
        part.type = FIELD.TYPE_ENUM if type_ == "Kind" else FIELD.TYPE_MESSAGE
        part.type_name = f".{type_}" if "." in type_ else f".drawn.{type_}"


@st.composite
def schemas(draw: st.DrawFn) -> DrawnSchema:
    """Schemas of one to three messages."""
    count, syntax = draw(st.integers(1, 3)), draw(st.sampled_from(["proto2", "proto3"]))
    types = st.sampled_from([*SCALARS, "Kind", *(f"M{n}" for n in range(count))])
    types |= st.sampled_from([f"google.protobuf.{name}" for name in KNOWN])
    messages = []
    for _ in range(count):
        numbers = draw(st.lists(st.integers(1, 40) | st.integers(1, 15_000), max_size=6, unique=True))
        forms = [draw(st.sampled_from(FORMS)) for _ in numbers]
        fields = zip(sorted(numbers), forms, strict=True)
        messages.append(
            tuple(DrawnField(f"f{n}", n, draw(types), form, draw(st.sampled_from(KEYS))) for n, form in fields)
        )
    return DrawnSchema(syntax, tuple(messages))


def fill(draw: st.DrawFn, message: Any, level: int = 0) -> Any:
    """Set some of the fields of a message to drawn values."""
    for field in message.DESCRIPTOR.fields:
        if level > 2 or not draw(st.booleans()):
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            _fill_map(draw, getattr(message, field.name), field.message_type, level)
        elif field.is_repeated:
            items = getattr(message, field.name)
            for _ in range(draw(st.integers(0, 3))):
                if field.message_type:
                    _fill_message(draw, items.add(), level)
                else:
                    items.append(draw(_values(field)))
        elif field.message_type:
            inner = getattr(message, field.name)
            inner.SetInParent()
            _fill_message(draw, inner, level)
        else:
            setattr(message, field.name, draw(_values(field)))
    return message


def _fill_map(draw: st.DrawFn, pairs: Any, entry: Any, level: int) -> None:
    key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
    for _ in range(draw(st.integers(0, 3))):
        if value.message_type:
            _fill_message(draw, pairs[draw(_values(key))], level)
        else:
            pairs[draw(_values(key))] = draw(_values(value))


def _fill_message(draw: st.DrawFn, message: Any, level: int) -> None:
    if message.DESCRIPTOR.name == "Value":
        message.string_value = draw(st.text(max_size=3))
    elif message.DESCRIPTOR.name == "Struct":
        message.update({"a": [1.5, None, {"b": draw(st.text(max_size=3))}], "c": draw(st.booleans())})
    else:
        fill(draw, message, level + 1)


_TYPE_NAMES = {getattr(FIELD, f"TYPE_{name.upper()}"): name for name in SCALARS}


def _values(field: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([*ENUM.values()]) if field.enum_type else SCALARS[_TYPE_NAMES[field.type]]


def as_read(message: Any) -> Any:
    """What we read from a message of Google's library."""
    values: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        raw = getattr(message, field.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            value = field.message_type.fields_by_name["value"]
            values[field.name] = {_key(key): _as_value(raw[key], value) for key in raw}
        elif field.is_repeated:
            values[field.name] = [_as_value(item, field) for item in raw]
        elif not field.has_presence or message.HasField(field.name):
            values[field.name] = _as_value(raw, field)
        elif field.message_type and field.message_type.full_name in WRAPPERS and not _is_choice(field):
            values[field.name] = None
    return values


def _is_choice(field: Any) -> bool:
    """Whether a field is in a oneof that its schema has, not in one that the library adds for ``optional``."""
    return bool(field.containing_oneof) and field.containing_oneof.name != f"_{field.name}"


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _as_value(raw: Any, field: Any) -> Any:
    if field.message_type:
        return _as_message_value(raw, field.message_type.full_name)
    if field.enum_type:
        value = field.enum_type.values_by_number.get(raw)
        return value.name if value else UnrepresentableValue(f"{raw}, without a name in {field.enum_type.full_name}")
    if field.type == FIELD.TYPE_FLOAT:
        return shortest_float(raw, struct.pack("<f", raw))
    return raw if not isinstance(raw, float) or raw - raw == 0 else non_finite_decimal(raw)


def _as_message_value(message: Any, name: str) -> Any:
    if name in CONVERTERS:
        return CONVERTERS[name](message)
    if name == "google.protobuf.Value":
        values = list(as_read(message).values())
        return values[0] if values and values != ["NULL_VALUE"] else None
    fields = as_read(message)
    only_fields = {"google.protobuf.Struct": "fields", "google.protobuf.ListValue": "values"}
    only_fields |= dict.fromkeys(WRAPPERS, "value")
    return fields[only_fields[name]] if name in only_fields else fields
