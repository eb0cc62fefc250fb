"""Schemas of Protobuf are compiled with what they import; one that cannot be read is refused with the reason."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import google.type
import pytest
from hypothesis import given, settings

from lakehouse import writer_schema
from lakehouse.declaration import Avro, Protobuf
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import RegisteredSchema, Schemas, UnusableSchemaError
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.formats.protobuf import schemas as schemas_module
from lakehouse.decoding.formats.protobuf.compiled import TYPE_NAMES, load_schema
from lakehouse_tests.helpers.decoding.protobuf_orders import read
from lakehouse_tests.helpers.protobuf_schemas import DrawnSchema, schemas

GOOGLE = Path(next(iter(google.type.__path__))).parent
PROTOBUF_FILES: tuple[str, ...] = (
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
)
PROTOBUF_FILES += ("timestamp", "type", "wrappers")
PROTO3 = 'syntax = "proto3"; '


def registered(text: str, *named_references: tuple[str, str]) -> RegisteredSchema:
    """A schema as the client of a registry gives it."""
    texts = dict.fromkeys(reference for _, reference in named_references)
    return RegisteredSchema(text, tuple(texts), "PROTOBUF", named_references)


def messages_of(text: str, *references: str) -> dict[str, Any]:
    messages = load_schema(writer_schema(text, references, kind="PROTOBUF")).messages
    return {name: {field.name: type_of(field) for field in message.fields} for name, message in messages.items()}


def type_of(field: Any) -> str:
    return field.message_type.full_name if field.message_type else TYPE_NAMES[field.type]


@pytest.mark.invariant("8.13")
@settings(max_examples=10)
@given(schemas())
def test_a_text_means_what_its_descriptors_mean(drawn: DrawnSchema) -> None:
    compiled = writer_schema(drawn.text, kind="PROTOBUF")
    assert Protobuf().fingerprint(compiled) == Protobuf().fingerprint(drawn.compiled)


def test_the_types_of_google_and_confluent_need_no_reference() -> None:
    files = [f"google/protobuf/{name}.proto" for name in PROTOBUF_FILES]
    files += [f"google/type/{file.stem}.proto" for file in sorted((GOOGLE / "type").glob("*.proto"))]
    files += ["google/api/annotations.proto", "confluent/meta.proto", "confluent/type/decimal.proto"]
    imports = " ".join(f'import "{name}";' for name in files)
    fields = "google.type.Money money = 1; confluent.type.Decimal price = 2 [(confluent.field_meta) = { doc: 'x' }];"
    text = f"{PROTO3} {imports} message M {{ {fields} google.protobuf.FieldMask mask = 3; }}"
    assert messages_of(text) == {
        "M": {"money": "google.type.Money", "price": "confluent.type.Decimal", "mask": "google.protobuf.FieldMask"},
        "google.type.Money": {"currency_code": "string", "units": "int64", "nanos": "int32"},
        "confluent.type.Decimal": {"value": "bytes", "precision": "uint32", "scale": "int32"},
        "google.protobuf.FieldMask": {"paths": "string"},
    }


PLACE = 'syntax = "proto3"; package shop.places; message Place { string city = 1; } message Unused {}'
ITEM = 'syntax = "proto2"; package shop; import "places.proto"; message Item { optional places.Place at = 1; }'
ORDER = """
    syntax = 'proto3'; package shop.orders; import public "item.proto"; import "places.proto";
    import "google/protobuf/descriptor.proto"; option java_package = "x"; option (custom) = { a: { b: "};" } };
    message Custom { Custom a = 1; string b = 2; } extend google.protobuf.FileOptions { Custom custom = 50000; }
    service Orders { rpc Get(Order) returns (Order); }
    message Order {
      reserved 4 to 9, 20 to max; reserved "old";
      Item item = 0x1 [json_name = "thing", deprecated = true];
      .shop.places.Place to = 2; Order parent = 03;
    }
    message Item { /* the inner one */ string sku = 1; }
"""


@pytest.mark.parametrize("has_names", [False, True])
def test_imported_types_are_those_of_the_references(has_names: bool) -> None:
    if has_names:
        schema = Protobuf().writer_schema(registered(ORDER, ("places.proto", PLACE), ("item.proto", ITEM)))
    else:
        schema = writer_schema(ORDER, [PLACE, ITEM], kind="PROTOBUF")
    loaded = load_schema(schema)
    order = {field.name: type_of(field) for field in loaded.messages["shop.orders.Order"].fields}
    assert order == {"item": "shop.orders.Item", "to": "shop.places.Place", "parent": "shop.orders.Order"}
    assert {*loaded.messages} == {"shop.orders.Order", "shop.orders.Custom", "shop.orders.Item", "shop.places.Place"}


def test_a_map_that_a_registry_writes_as_entries_is_a_map() -> None:
    entry = "message AsEntry { option map_entry = true; optional string key = 1; optional int32 value = 2; }"
    text = f'syntax = "proto3"; message M {{ repeated AsEntry as = 1; {entry} }}'
    maps = 'syntax = "proto3"; message M { map<string, int32> as = 1; }'
    assert read(text, b"\x0a\x05\x0a\x01k\x10\x05") == read(maps, b"\x0a\x05\x0a\x01k\x10\x05") == {"as": {"k": 5}}


def test_a_file_of_an_edition_is_read_by_its_features() -> None:
    fields = "int32 a = 1; int32 b = 2 [features.field_presence = IMPLICIT];"
    edition = (
        f'edition = "2023"; message M {{ {fields} E e = 3; }} enum E {{ option features.enum_type = CLOSED; A = 1; }}'
    )
    assert read(edition, b"") == {"b": 0}
    assert str(read(edition, b"\x18\x05")["e"]) == "5, without a name in E"


@pytest.mark.invariant("8.13")
def test_formatting_comments_and_options_do_not_change_what_a_schema_means() -> None:
    first = writer_schema('syntax="proto3"; message M { int32 a = 1; string b = 2; }', kind="PROTOBUF")
    fields = "string b = 2 [deprecated = true]; int32 a = 1;"
    text = f'// new\nsyntax = "proto3";\nimport "google/type/date.proto";\nmessage M {{\n{fields} }}'
    assert Protobuf().fingerprint(first) == Protobuf().fingerprint(writer_schema(text, kind="PROTOBUF"))
    for change in ("int64 a = 1;", "optional int32 a = 1;", "int32 a = 3;", "int32 c = 1;", "repeated int32 a = 1;"):
        other_text = f'syntax="proto3"; message M {{ {change} string b = 2; }}'
        assert Protobuf().fingerprint(first) != Protobuf().fingerprint(writer_schema(other_text, kind="PROTOBUF"))


def test_a_stored_schema_shows_from_which_text_it_was_made() -> None:
    text = 'syntax = "proto3"; import "item.proto"; package shop.orders; message M { Item item = 1; } message Item {}'
    registered_schema = registered(text, ("item.proto", ITEM), ("places.proto", PLACE))
    schema = Protobuf().writer_schema(registered_schema)
    assert Protobuf().is_made_from(schema, registered_schema)
    assert not Protobuf().is_made_from(schema, registered_schema._replace(text=f"{text} "))
    other_reference = registered(text, ("item.proto", f"{ITEM} "), ("places.proto", PLACE))
    assert not Protobuf().is_made_from(schema, other_reference)


def test_a_schema_that_a_table_stores_can_be_used_but_no_registry_gives_one() -> None:
    schema = writer_schema('syntax = "proto3"; message M { M m = 1; }', kind="PROTOBUF")
    assert schema.text.startswith("M ")
    assert Protobuf().can_use(schema)
    assert not Protobuf().can_use(schema._replace(text=schema.text[:-9]))
    with pytest.raises(UnusableSchemaError, match="protoc cannot compile it"):
        Protobuf().writer_schema(RegisteredSchema(*schema))


def test_a_schema_in_an_older_form_is_refused_with_what_to_do() -> None:
    schema = writer_schema('syntax = "proto3"; message M { M m = 1; }', kind="PROTOBUF")
    old_schema = schema._replace(text='{"roots": [["M", []]], "messages": {"M": []}, "enums": {}}')
    assert not Protobuf().can_use(old_schema)
    with pytest.raises(Rejection, match="a form that is no longer read: delete the table of schemas"):
        Protobuf().parser(Schemas({1: old_schema}, {}))(add_frame(1, b"\x00"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("message M { Other o = 1; }", 'schema.proto:1:32: "Other" is not defined'),
        ("enum E { A = 0; }", "it has no message"),
        ("message M { int32 a = 1; int32 b = 1; }", "Field number 1 has already been used"),
        ("message M { int32 a = 1; int32 a = 2; }", '"a" is already defined'),
        ("message M { map<double, int32> a = 1; }", "cannot be float/double"),
        ("message M { E e = 1; } enum E {}", "must contain at least one value"),
        ("message M { int32 = 1; }", "schema.proto:1:38: Expected field name"),
        ("message M { int32 a = 1;", "Reached end of input"),
        ('import "item.proto"; message M {}', "item.proto: File not found"),
        ('import "../../etc/passwd"; message M {}', "not allowed in the virtual path"),
        ("message M {" * 40 + "}" * 40, "maximum recursion limit"),
        ("message M {} option (x) = " + "{a:" * 100_000, "protoc cannot compile it: schema.proto"),
        ("".join(f"message M{n} {{ M{(n + 1) % 3000} m = 1; }} " for n in range(3000)), "within each other"),
        ("message M {} // \ud800", "surrogates not allowed"),
        ("message M {} //" + "x" * 5_000_000, "more than protoc is given"),
        ("package google.protobuf; message Timestamp { int32 seconds = 1; }", "google.protobuf.Timestamp in different"),
        (
            "package google.protobuf; message Timestamp { repeated int64 seconds = 1; int32 nanos = 2; }",
            "google.protobuf.Timestamp in different",
        ),
        (
            "package google.protobuf; message Struct { F fields = 1; } message F {}",
            "google.protobuf.Struct in different",
        ),
        (
            "package google.protobuf; enum E { E0 = 0; } message Value { E null_value = 1; double number_value = 2;"
            " string string_value = 3; bool bool_value = 4; Value struct_value = 5; Value list_value = 6; }",
            "google.protobuf.Value in different",
        ),
    ],
)
def test_a_schema_by_which_no_record_can_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnusableSchemaError, match=message):
        writer_schema(PROTO3 + text, kind="PROTOBUF")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('syntax = "proto2"; message M { optional group G = 1 { optional int32 a = 1; } }', "M.g is a group"),
        ('syntax = "proto4"; message M {}', 'Unrecognized syntax identifier "proto4"'),
        ('{"type": "record"}', "it: schema.proto:1:1: Expected top-level statement"),
        ("{" * 100_000, "Expected top-level statement"),
        ("", "it has no message"),
    ],
)
def test_a_text_that_is_no_file_of_proto2_or_proto3_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnusableSchemaError, match=message):
        writer_schema(text, kind="PROTOBUF")


def test_protoc_is_found_where_this_process_found_it() -> None:
    """Without the packages of the interpreter, as with those of a user or of PYTHONPATH, which -I leaves out."""
    command = [sys.executable, "-I", "-S", "-c", schemas_module._PROTOC, "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_compilation_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas_module, "_SECONDS", 0.001)
    with pytest.raises(UnusableSchemaError, match="protoc takes more than 0.001 seconds"):
        writer_schema(f"{PROTO3} message M {{}}", kind="PROTOBUF")


@pytest.mark.parametrize("name", ["../item.proto", "/item.proto", "a//item.proto", "a\x00.proto", "x" * 300])
def test_a_reference_is_no_file_outside_of_the_folder_of_the_compilation(name: str) -> None:
    with pytest.raises(UnusableSchemaError, match="not the name of a file|cannot be a file"):
        Protobuf().writer_schema(registered(f"{PROTO3} message M {{}}", (name, PLACE)))


def test_two_versions_of_an_imported_file_must_agree() -> None:
    text = f'{PROTO3} import "item.proto"; message M {{ Item item = 1; }}'
    item, commented_item, other_item = (
        f"{PROTO3} message Item {{ string sku = {number}; }} {end}" for number, end in ((1, ""), (1, "// new"), (2, ""))
    )
    schema = Protobuf().writer_schema(registered(text, ("item.proto", item), ("item.proto", commented_item)))
    assert load_schema(schema).messages["Item"].fields_by_name["sku"].number == 1
    with pytest.raises(UnusableSchemaError, match="versions of a file that differ"):
        Protobuf().writer_schema(registered(text, ("item.proto", item), ("item.proto", other_item)))


def test_a_schema_of_another_kind_is_refused() -> None:
    with pytest.raises(UnusableSchemaError, match="it is a schema of AVRO, not of Protobuf"):
        Protobuf().writer_schema(RegisteredSchema("{}", (), "AVRO"))
    with pytest.raises(UnusableSchemaError, match="it is a schema of PROTOBUF, not of Avro"):
        Avro().writer_schema(RegisteredSchema('syntax = "proto3"; message M {}', (), "PROTOBUF"))
    with pytest.raises(ValueError, match="'XML' is not a kind"):
        writer_schema("<a/>", kind="XML")
