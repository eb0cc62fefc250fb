"""Protobuf without a registry: the schema is a file, or a text, in the declaration."""

from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.declaration import Avro, Column, ElementIndex, ParentField, Protobuf, StreamTable
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import UnwritableError
from lakehouse.errors import DeclarationError
from lakehouse_tests.helpers.decoding.both_paths import rows_twice

POSITION = 'syntax = "proto2"; package transit; message Position { required float lat = 1; required float lon = 2; }'
FEED = """
syntax = "proto2";
package transit;
import "shared/position.proto";
message Feed { required Header header = 1; repeated Entity entity = 2; }
message Header { required string version = 1; optional uint64 timestamp = 3; }
message Entity {
  required string id = 1;
  optional Vehicle vehicle = 4;
  message Vehicle { optional Position position = 2; optional uint64 timestamp = 5; }
}
"""
VEHICLES = [
    Column("id", "STRING", required=True, doc="Which."),
    Column("lat", "DOUBLE", source=("vehicle", "position", "lat"), doc="Where."),
    Column("version", "STRING", source=ParentField(("header", "version")), doc="Of the feed."),
    Column("place", "INT", source=ElementIndex(), doc="In the feed."),
]
ENTITIES = b'[{"id": "a", "vehicle": {"position": {"lat": 1.5, "lon": 2}}}, {"id": "b"}]'
LINE = b'{"header": {"version": "2.0"}, "entity": ' + ENTITIES + b"}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "position.proto").write_text(POSITION)
    (tmp_path / "feed.proto").write_text(FEED)
    return tmp_path


def vehicles(form: Protobuf) -> StreamTable:
    return StreamTable("vehicles", "vehicles", doc="", format=form, rows_from="entity", columns=VEHICLES, key=["id"])


def test_a_file_and_its_imports_decode_records_without_anything_in_front(folder: Path) -> None:
    form = Protobuf(schema=folder / "feed.proto", message="transit.Feed")
    value = form.writer()(LINE)
    assert value.startswith(b"\x0a\x05\x0a\x032.0")
    table = vehicles(form)
    assert not table.has_schemas
    ((first, second),) = rows_twice([value], table.rules())
    assert (first["id"], first["lat"], first["version"], first["place"]) == ("a", 1.5, "2.0", 0)
    assert (second["id"], second["lat"], second["place"]) == ("b", None, 1)


def test_a_text_and_a_folder_of_imports_mean_the_same_as_the_file(folder: Path) -> None:
    of_file = Protobuf(schema=folder / "feed.proto")
    of_text = Protobuf(schema=FEED, imports=str(folder))
    assert repr(of_file) == repr(of_text)
    (folder / "feed.proto").write_text(FEED.replace("// ", "").replace("optional uint64 timestamp = 3", ""))
    assert repr(Protobuf(schema=folder / "feed.proto")) != repr(of_file)


def test_any_message_of_the_file_can_be_the_record(folder: Path) -> None:
    form = Protobuf(schema=folder / "feed.proto", message="transit.Entity.Vehicle")
    table = StreamTable(
        "v", "v", doc="", format=form, columns=[Column("lat", "DOUBLE", source=("position", "lat"), doc="")], key=[]
    )
    assert table.decode(form.writer()(b'{"position": {"lat": 0.5, "lon": 1}}')) == {"lat": 0.5}


def test_bytes_that_are_no_message_are_rejected(folder: Path) -> None:
    table = vehicles(Protobuf(schema=folder / "feed.proto"))
    for value, reason in (
        (b"\xff\xff", "truncated"),
        (b"", "empty_value"),
        (None, "tombstone"),
        (b"\x12\x00", "invalid"),
    ):
        with pytest.raises(Rejection) as rejected:
            table.decode_rows(value)
        assert reason in rejected.value.reason
    with pytest.raises(UnwritableError, match="has no field 'other'"):
        table.format.writer()(b'{"other": 1}')


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"schema": Path("no/such.proto")}, "the schema of Protobuf cannot be used: .*No such file"),
        ({"schema": "message A {"}, "the schema of Protobuf cannot be used: protoc cannot compile it"),
        ({"schema": 'syntax = "proto3"; message A {}', "message": "B"}, "it has no message 'B', but A"),
        ({"message": "A"}, "Protobuf has message or imports without schema"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(options: dict[str, object], problem: str) -> None:
    columns = [Column("id", "STRING", doc="")]
    with pytest.raises(DeclarationError, match=problem):
        StreamTable("t", "t", doc="", format=Protobuf(**options), columns=columns, key=[])  # type: ignore[arg-type]


def test_a_schema_of_avro_may_be_a_file(tmp_path: Path) -> None:
    text = '{"type": "record", "name": "A", "fields": [{"name": "id", "type": "string"}]}'
    (tmp_path / "a.avsc").write_text(text)
    table = StreamTable("a", "a", doc="", columns=[Column("id", "STRING", doc="")], key=[], format=Avro(schema=text))
    of_file = replace(table, format=Avro(schema=tmp_path / "a.avsc"))
    assert repr(of_file.format) == repr(table.format)
    assert of_file.decode(table.format.writer()(b'{"id": "x"}')) == {"id": "x"}
    with pytest.raises(DeclarationError, match="schema of Avro cannot be used: .*No such file"):
        replace(table, format=Avro(schema=tmp_path / "b.avsc"))
