"""A proposed declaration of Protobuf records: the types are those of the messages that the records have."""

from lakehouse import writer_schema
from lakehouse.declaration import Avro, Protobuf, StreamTable
from lakehouse.declaration.inference.proposal import Proposal, propose
from lakehouse.decoding.formats import likely_formats
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.framing import add_frame
from lakehouse_tests.helpers.proposals import types

SHOP = """
syntax = "proto3";
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto"; import "google/protobuf/any.proto"; import "google/protobuf/struct.proto";
import "google/type/date.proto";
message Order {
  string order_id = 1; int32 small = 2; uint32 medium = 3; uint64 large = 4; float ratio = 5; bool open = 6;
  optional sint64 maybe = 7; bytes raw = 8; State state = 9; Place place = 10; repeated Place stops = 11;
  map<int32, double> prices = 12; google.protobuf.Timestamp at = 13; google.protobuf.Duration took = 14;
  google.protobuf.StringValue note = 15; google.protobuf.Any any = 16; google.protobuf.Struct props = 17;
  google.type.Date day = 18; Order parent = 19; oneof pay { string card = 20; }
  enum State { NEW = 0; PAID = 1; }
}
message Place { string city = 1; bytes photo = 2; }
message Refund { string order_id = 1; }
"""
SCHEMA = writer_schema(SHOP, kind="PROTOBUF")
ORDER, REFUND = b"\x00", b"\x02\x04"


def infer_protobuf(*bodies: bytes, text: str = SHOP) -> Proposal:
    schemas = Schemas({1: writer_schema(text, kind="PROTOBUF")}, {})
    values = [add_frame(1, body) for body in bodies]
    proposal = propose(values, Protobuf(), schemas)
    table = StreamTable("t", "t", "", proposal.columns, proposal.key, format=proposal.form)
    assert [table.decode(value, schemas=schemas.by_id) for value in values]
    return proposal


def test_a_number_of_an_enum_without_a_name_leaves_the_column_and_warns() -> None:
    schemas = Schemas({1: SCHEMA}, {})
    values = [add_frame(1, ORDER + b"\x0a\x01a" + state) for state in (b"\x48\x01", b"\x48\x07")]
    proposal = propose(values, Protobuf(), schemas)
    assert types(proposal)["state"] == "STRING"
    assert [text for text in proposal.warnings if "'state'" in text] == [
        "'state' has values that do not fit STRING in some records: they are rejected."
    ]
    (only_unnamed,) = (propose(values[1:], Protobuf(), schemas),)
    assert types(only_unnamed)["state"] == "STRING"


def test_types_are_those_of_the_message_that_records_have() -> None:
    proposal = infer_protobuf(ORDER + b"\x0a\x01a", ORDER + b"\x0a\x01b")
    column_types = types(proposal)
    assert column_types.pop("parent").startswith("STRUCT<order_id: STRING, small: INT,"), "without its own parent"
    assert column_types == {
        "order_id": "STRING",
        "small": "INT",
        "medium": "BIGINT",
        "large": "DECIMAL(20,0)",
        "ratio": "DOUBLE",
        "open": "BOOLEAN",
        "maybe": "BIGINT",
        "raw": "BINARY",
        "place_photo": "BINARY",
        "state": "STRING",
        "place_city": "STRING",
        "stops": "ARRAY<STRUCT<city: STRING>>",
        "prices": "MAP<STRING, DOUBLE>",
        "at": "TIMESTAMP",
        "took": "DECIMAL(21,9)",
        "note": "STRING",
        "day": "DATE",
        "card": "STRING",
    }
    assert proposal.key == ("order_id",)
    optional_names = {column.name for column in proposal.columns if not column.required}
    assert optional_names == {"maybe", "place_city", "place_photo", "at", "took", "note", "day", "parent", "card"}


def test_a_field_without_a_column_type_is_left_out_with_the_reason() -> None:
    text = SHOP.replace("bytes raw = 8", "repeated bytes raw = 8; map<string, bytes> raws = 80")
    proposal = infer_protobuf(ORDER + b"\x0a\x01a" + b"\x42\x01x" + b"\x82\x01\x00", ORDER + b"\x0a\x01b", text=text)
    for name in ("raw", "any"):
        assert f"Field {name!r} is left out: no column can have the type of its schema." in proposal.warnings
    assert "raws" not in types(proposal)


def test_records_of_several_messages_of_a_schema_have_no_key() -> None:
    proposal = infer_protobuf(ORDER + b"\x0a\x01a", REFUND + b"\x0a\x01a")
    assert proposal.key == ()
    assert any("have several types, by their schemas: Order, Refund" in warning for warning in proposal.warnings)


def test_only_the_messages_that_records_have_count() -> None:
    proposal = infer_protobuf(REFUND + b"\x0a\x01a", REFUND + b"\x0a\x01b")
    assert (types(proposal), proposal.key) == ({"order_id": "STRING"}, ("order_id",))


def test_a_column_of_a_field_with_presence_is_not_required() -> None:
    text = 'syntax = "proto2"; message M { required string id = 1; optional int32 n = 2; }'
    proposal = infer_protobuf(ORDER + b"\x0a\x01a\x10\x01", ORDER + b"\x0a\x01b\x10\x01", text=text)
    assert {column.name: column.required for column in proposal.columns} == {"id": True, "n": False}


def test_bytes_that_may_be_protobuf_are_offered_to_both_formats_with_schemas() -> None:
    record = add_frame(1, ORDER + b"\x0a\x01a")
    assert {Avro(), Protobuf()} <= {*likely_formats([record])}
    assert not Protobuf().may_read(add_frame(1, b"\x01"))
