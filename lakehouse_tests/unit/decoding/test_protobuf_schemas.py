"""Schemas of Protobuf: the files of Google are parsed as its compiler parsed them; what cannot be read is refused."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import google.type
import pytest
from google.protobuf import descriptor_pb2

from lakehouse import writer_schema
from lakehouse.declaration import Avro, Protobuf
from lakehouse.decoding.formats.format import (
    RegisteredSchema,
    UnusableSchemaError,
    WriterSchema,
)
from lakehouse.decoding.formats.protobuf.known import known_files
from lakehouse.decoding.formats.protobuf.text import MessageDefinition, parse_proto

GOOGLE = Path(next(iter(google.type.__path__))).parent
FILES = sorted((GOOGLE / "type").glob("*.proto")) + sorted((GOOGLE / "api").glob("*.proto"))
LABELS = {1: "optional", 2: "required", 3: "repeated"}
SCALAR_NAMES = {
    number: name.removeprefix("TYPE_").lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}


def compiled(message: Any) -> dict[str, Any]:
    """What the compiler says about a message."""
    fields = {
        (field.number, field.name, SCALAR_NAMES[field.type] if field.type not in (11, 14) else short(field.type_name))
        for field in message.field
    }
    repeated_names = {field.name for field in message.field if LABELS[field.label] == "repeated"}
    oneofs = {f.name: message.oneof_decl[f.oneof_index].name for f in message.field if f.HasField("oneof_index")}
    return {
        "fields": fields,
        "repeated": repeated_names,
        "oneofs": {name: oneof for name, oneof in oneofs.items() if oneof != f"_{name}"},
        "entry": message.options.map_entry,
        "messages": [(inner.name, compiled(inner)) for inner in message.nested_type],
        "enums": {enum.name: {value.name: value.number for value in enum.value} for enum in message.enum_type},
    }


def parsed(message: MessageDefinition) -> dict[str, Any]:
    """The same of our own parser."""
    return {
        "fields": {(field.number, field.name, short(field.type)) for field in message.fields},
        "repeated": {field.name for field in message.fields if field.label == "repeated"},
        "oneofs": {field.name: field.oneof for field in message.fields if field.oneof},
        "entry": message.is_entry,
        "messages": [(inner.name, parsed(inner)) for inner in message.messages],
        "enums": {enum.name: enum.numbers for enum in message.enums},
    }


def short(type_: str) -> str:
    return type_.rpartition(".")[2]


def descriptor(module: str) -> Any:
    return descriptor_pb2.FileDescriptorProto.FromString(import_module(module).DESCRIPTOR.serialized_pb)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_files_of_google_are_parsed_as_its_compiler_parsed_them(file: Path) -> None:
    own_file, google_file = parse_proto(file.read_text()), descriptor(f"google.{file.parent.name}.{file.stem}_pb2")
    assert own_file.package == google_file.package
    assert [(m.name, parsed(m)) for m in own_file.messages] == [(m.name, compiled(m)) for m in google_file.message_type]
    enums = {enum.name: {value.name: value.number for value in enum.value} for enum in google_file.enum_type}
    assert {enum.name: enum.numbers for enum in own_file.enums} == enums


def test_the_known_types_are_those_of_google() -> None:
    names = ("any", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "wrappers")
    files = [descriptor(f"google.protobuf.{name}_pb2") for name in names]
    files += [descriptor(f"google.type.{file.stem}_pb2") for file in (GOOGLE / "type").glob("*.proto")]
    own_files = {file.package: file for file in known_files()}
    for package in ("google.protobuf", "google.type"):
        expected = {m.name: compiled(m) for file in files if file.package == package for m in file.message_type}
        assert {message.name: parsed(message) for message in own_files[package].messages} == expected
        enums = {
            e.name: {v.name: v.number for v in e.value} for f in files if f.package == package for e in f.enum_type
        }
        assert {enum.name: enum.numbers for enum in own_files[package].enums} == enums


def messages_of(text: str, *references: str) -> dict[str, Any]:
    schema = writer_schema(text, references, kind="PROTOBUF")
    return {name: {f["name"]: f["type"] for f in fields} for name, fields in parts(schema)["messages"].items()}


def parts(schema: WriterSchema) -> dict[str, Any]:
    return json.loads(schema.text)


def test_imported_types_are_found_by_their_names_in_the_packages_around_a_message() -> None:
    place = 'syntax = "proto3"; package shop.places; message Place { string city = 1; } message Unused {}'
    item = 'syntax = "proto2"; package shop; import "places.proto"; message Item { optional places.Place at = 1; }'
    order = """
        syntax = 'proto3'; package shop.orders; import public "item.proto";
        option java_package = "x"; option (custom) = { a: { b: "};" } };
        service Orders { rpc Get(Order) returns (Order) { option (http) = { get: "/" }; } }
        message Order {
          reserved 4 to 9, 20 to max; reserved "old"; extensions 100 to 199;
          Item item = 0x1 [json_name = "thing", (rules).string = { min_len: 1 }];
          .shop.places.Place to = 2; Order parent = 03; extend Order { bool x = 100; }
        }
        message Item { /* the inner one */ string sku = 1; }
    """
    assert messages_of(order, place, item) == {
        "shop.orders.Order": {
            "item": ".shop.orders.Item",
            "to": ".shop.places.Place",
            "parent": ".shop.orders.Order",
        },
        "shop.orders.Item": {"sku": "string"},
        "shop.places.Place": {"city": "string"},
    }


def test_a_map_that_a_registry_writes_as_entries_is_a_map() -> None:
    entry = "message AsEntry { option map_entry = true; optional string key = 1; optional int32 value = 2; }"
    text = f'syntax = "proto3"; message M {{ repeated AsEntry as = 1; {entry} }}'
    maps = 'syntax = "proto3"; message M { map<string, int32> as = 1; }'
    assert parts(writer_schema(text, kind="PROTOBUF")) == parts(writer_schema(maps, kind="PROTOBUF"))


@pytest.mark.invariant("8.13")
def test_formatting_comments_and_options_do_not_change_what_a_schema_means() -> None:
    first = writer_schema('syntax="proto3"; message M { int32 a = 1; string b = 2; }', kind="PROTOBUF")
    fields = "string b = 2 [deprecated = true]; int32 a = 1;"
    text = f'// new\nsyntax = "proto3";\noption java_package = "x";\nmessage M {{\n{fields} }}'
    assert Protobuf().fingerprint(first) == Protobuf().fingerprint(writer_schema(text, kind="PROTOBUF"))
    for change in ("int64 a = 1;", "optional int32 a = 1;", "int32 a = 3;", "int32 c = 1;"):
        other_text = f'syntax="proto3"; message M {{ {change} string b = 2; }}'
        assert Protobuf().fingerprint(first) != Protobuf().fingerprint(writer_schema(other_text, kind="PROTOBUF"))


def test_a_schema_that_a_table_stores_can_be_used_but_no_registry_gives_one() -> None:
    schema = writer_schema('syntax = "proto3"; message M { M m = 1; }', kind="PROTOBUF")
    assert Protobuf().can_use(schema)
    assert not Protobuf().can_use(schema._replace(text='{"roots": [], "messages": {}, "enums": {}}'))
    with pytest.raises(UnusableSchemaError, match="is unexpected"):
        Protobuf().writer_schema(RegisteredSchema(*schema))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'syntax = "proto3"; message M { Other o = 1; }',
            "refers to Other, which neither it nor its references define",
        ),
        ('syntax = "proto3"; message M { group G = 1 { int32 a = 1; } }', "has a group"),
        ('edition = "2023"; message M { int32 a = 1; }', "an edition of Protobuf"),
        ('syntax = "proto4"; message M {}', "its syntax is 'proto4'"),
        ('syntax = "proto3"; enum E { A = 0; }', "it has no message"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "two fields of the same number"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 a = 2; }', "two fields of the same name"),
        ('syntax = "proto3"; message M { int32 a = 0; }', "has the number 0"),
        ('syntax = "proto3"; message M { int32 a = 536870912; }', "has the number 536870912"),
        ('syntax = "proto3"; message M { map<double, int32> a = 1; }', "no valid keys and values"),
        ('syntax = "proto3"; message M { E e = 1; } enum E {}', "has no names"),
        ('syntax = "proto3";\nmessage M { int32 = 1; }', "'=' in line 2 is unexpected"),
        ('syntax = "proto3"; message M { int32 a = 1;', "ends within a definition"),
        ('syntax = "proto3"; message M { int32 a = x; }', "'x' in line 1 is unexpected"),
        ('{"type": "record"}', "'{' in line 1 is unexpected"),
        ('syntax = "proto3"; /* open', "is unexpected"),
        ("message M {" * 33 + "}" * 33, "more than 32 levels"),
        ("{" * 100_000, "is unexpected"),
        ("", "it has no message"),
    ],
)
def test_a_schema_by_which_no_record_can_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnusableSchemaError, match=message):
        writer_schema(text, kind="PROTOBUF")


def test_two_versions_of_an_imported_file_must_agree() -> None:
    text = 'syntax = "proto3"; message M { Item item = 1; }'
    item = 'syntax = "proto3"; message Item { string sku = 1; }'
    assert messages_of(text, item, item)["Item"] == {"sku": "string"}
    with pytest.raises(UnusableSchemaError, match="define Item in different ways"):
        messages_of(text, item, 'syntax = "proto3"; message Item { string sku = 2; }')


def test_a_schema_of_another_kind_is_refused() -> None:
    with pytest.raises(UnusableSchemaError, match="it is a schema of AVRO, not of Protobuf"):
        Protobuf().writer_schema(RegisteredSchema("{}", (), "AVRO"))
    with pytest.raises(UnusableSchemaError, match="it is a schema of PROTOBUF, not of Avro"):
        Avro().writer_schema(RegisteredSchema('syntax = "proto3"; message M {}', (), "PROTOBUF"))
    with pytest.raises(ValueError, match="'XML' is not a kind"):
        writer_schema("<a/>", kind="XML")
