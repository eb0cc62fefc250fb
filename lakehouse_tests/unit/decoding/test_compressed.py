"""Values compressed with gzip or zstd: any format inside, damage with its reason, and no more memory than allowed."""

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakehouse.declaration import Avro, Compressed, Csv, Debezium, Json, Logfmt, StreamTable
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.avro.schemas import writer_schema
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.formats.unpacking.compression import Codec, decompressor, frame_of
from lakehouse.decoding.rules import Rules
from lakehouse_tests.helpers.brokers.registries import SECOND, encode_records
from lakehouse_tests.helpers.change_records import change
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.compressed_values import (
    CODECS,
    COLUMNS,
    COMPRESS,
    for_each_codec,
    for_each_way,
    streamed_zstd,
    table_of,
)
from lakehouse_tests.helpers.decoding.decoded_rows import count_plain

ROW = {"id": 1, "name": "é"}
LINE = json.dumps(ROW, ensure_ascii=False).encode()


def verdict_of(form: Format, value: bytes | None) -> tuple[str | None, str | None, dict[str, Any]]:
    (verdict,) = rows_twice([value], table_of(form).rules())
    return verdict["_reason"], verdict["_detail"], {name: verdict[name] for name in ROW}


@for_each_way
@pytest.mark.parametrize(
    ("form", "content"),
    [
        (Json(), LINE),
        (Json(), b"\xef\xbb\xbf" + LINE),
        (Json(encoding="latin-1"), LINE.decode().encode("latin-1")),
        (Csv(["id", "name"]), "1,é".encode()),
        (Logfmt(), "id=1 name=é".encode()),
    ],
)
def test_a_compressed_value_becomes_the_row_of_the_value(way: str, form: Format, content: bytes) -> None:
    codec, compress = COMPRESS[way]
    assert verdict_of(Compressed(form, codec), compress(content)) == (None, None, ROW)


@for_each_codec
@pytest.mark.parametrize(
    "form", [Json(), Json(encoding="cp1252"), Csv(["id", "name"]), Logfmt(encoding="cp1252"), Json(framed=True)]
)
def test_a_writer_compresses_what_is_read_again(codec: Codec, form: Format) -> None:
    compressed = Compressed(form, codec)
    value = compressed.writer(7)(LINE)
    assert value == compressed.writer(7)(LINE)
    assert verdict_of(compressed, value) == (None, None, ROW)
    assert value.startswith(b"\x00\x00\x00\x00\x07") is form.framed


@for_each_codec
def test_the_id_of_a_schema_is_in_front_of_what_is_compressed(codec: Codec) -> None:
    framed = Compressed(Json(framed=True), codec)
    order = {"id": Decimal(1), "at": datetime(2026, 1, 1, tzinfo=UTC), "total": 1.5, "customer": None, "channel": "a"}
    (avro_value,) = encode_records(7, SECOND, [order])
    schemas = Schemas({7: writer_schema(json.dumps(SECOND))}, {})
    parse_avro = Avro().parser(schemas)
    packed = avro_value[:5] + Compressed(Json(), codec).writer()(avro_value[5:])
    assert Compressed(Avro(), codec).parser(schemas)(packed) == parse_avro(avro_value)
    assert verdict_of(framed, add_frame(7, LINE))[0] == "invalid_compression"
    assert verdict_of(framed, Compressed(Json(), codec).writer()(add_frame(7, LINE)))[0] == "wrong_magic"
    assert verdict_of(framed, add_frame(7, b""))[0] == "empty_value"
    assert verdict_of(framed, b"\x00\x00")[0] == "truncated"


@for_each_codec
def test_compressed_changes_of_a_database_are_changes(codec: Codec) -> None:
    form = Compressed(Debezium(), codec)
    columns = [replace(COLUMNS[0], required=True), COLUMNS[1]]
    table = StreamTable("people", "people", "People.", columns, ["id"], format=form)
    write = form.writer()
    values = [write(change("c", 1, ROW)), write(change("d", 2, ROW)), None, b"x"]
    rows = rows_twice(values, table.rules())
    assert [row["_reason"] for row in rows] == [None, None, None, "invalid_compression"]
    assert [(row["_deleted"], row["_rowless"]) for row in rows[:3]] == [(False, False), (True, False), (False, True)]
    assert (table.has_changes, table.format.typed) == (True, True)


@for_each_way
def test_a_damaged_stream_is_rejected_with_its_reason(way: str) -> None:
    codec, compress = COMPRESS[way]
    form, value = Compressed(Json(), codec), compress(LINE)
    assert {"invalid_compression", "invalid_encoding"} <= {*form.reasons}
    cut_reasons = {verdict_of(form, value[:end])[0] for end in range(5, len(value))}
    assert cut_reasons == {"truncated"}
    assert verdict_of(form, value + b"\n")[:2] == (
        "trailing_bytes",
        f"other bytes begin at byte {len(value)}, after the stream of {codec}",
    )
    assert verdict_of(form, compress(b"") + b"x")[0] == "trailing_bytes"
    assert verdict_of(form, value + value)[:2] == (
        "trailing_bytes",
        f"another stream of {codec} begins at byte {len(value)}, after the stream of {codec}",
    )
    assert verdict_of(form, LINE)[:2] == (
        "invalid_compression",
        f"the value does not begin with the bytes of {codec}",
    )
    assert verdict_of(form, value[:4])[0] in ("truncated", "invalid_compression")
    assert [verdict_of(form, content)[0] for content in (None, b"", compress(b""))] == [
        "tombstone",
        "empty_value",
        "empty_value",
    ]


def test_a_wrong_checksum_is_damage() -> None:
    values = [gzip.compress(LINE), streamed_zstd(LINE, checksum=True)]
    for codec, value in zip(CODECS, values, strict=True):
        at = len(value) - (8 if codec == "gzip" else 1)
        reason, detail, _ = verdict_of(Compressed(Json(), codec), value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :])
        assert reason == "invalid_compression"
        assert detail and f"the stream of {codec} is damaged" in detail


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (b"\x28\xb5\x2f\xfd\x21\x07\x00\x01\x00\x00", "it needs a dictionary"),
        (b"\x28\xb5\x2f\xfd\x28\x00\x01\x00\x00", "its header is not valid"),
        (b"\x28\xb5\x2f\xfd\x20\x01\x07\x00\x00", "a block that is not valid"),
        (b"\x28\xb5\x2f\xfd\x20\x09\x01\x00\x00", "it says that it has 9 bytes, but its blocks do not"),
        (b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd", "does not begin with the bytes of zstd"),
    ],
)
def test_a_frame_of_zstd_that_cannot_be_read_says_why(value: bytes, detail: str) -> None:
    reason, seen_detail, _ = verdict_of(Compressed(Json(), "zstd"), value)
    assert reason == "invalid_compression"
    assert detail in str(seen_detail)


@for_each_codec
@pytest.mark.parametrize("form", [Json(), Csv(["id", "name"]), Logfmt(), Json(encoding="latin-1")])
def test_compressed_records_are_as_plain_as_others(codec: Codec, form: Format) -> None:
    write = Compressed(form, codec).writer()
    values = [write(b'{"id":%d,"name":"x"}' % number) for number in range(50)]
    assert count_plain(values, table_of(Compressed(form, codec)).rules()) == 50


FORMS = st.sampled_from([Json(), Json(encoding="cp1252"), Csv(["id", "name"]), Logfmt(), Json(framed=True)])
CONTENTS = st.sampled_from([LINE, b"1,x", b"id=1 name=x", b'{"id":1,"id":2}', b'{"id":"x"}', b"{}", b"", b"\x81"])


@st.composite
def packed_values(draw: st.DrawFn, codec: Codec, form: Format) -> bytes | None:
    ways = [compress for way_codec, compress in COMPRESS.values() if way_codec == codec]
    value = draw(st.sampled_from(ways))(draw(CONTENTS))
    value = add_frame(7, value) if form.framed else value
    position = draw(st.integers(0, len(value)))
    changes = {
        0: value[:position],
        1: value[:position] + draw(st.binary(min_size=1, max_size=3)) + value[position:],
        2: value[:position] + draw(st.binary(min_size=1, max_size=1)) + value[position + 1 :],
        3: value + draw(st.sampled_from([value, b"\n", b"\x00"])),
        4: None,
    }
    return changes.get(draw(st.integers(0, 8)), value)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[bytes | None], Rules]:
    codec, form = draw(st.sampled_from(CODECS)), draw(FORMS)
    values = draw(st.lists(packed_values(codec, form), min_size=1, max_size=8))
    return values, table_of(Compressed(form, codec)).rules()


@pytest.mark.invariant("8.10")
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck), database=None)
@given(batches())
@example(([gzip.compress(LINE), gzip.compress(LINE)[:-1]], table_of(Compressed(Json(), "gzip")).rules()))
def test_generated_and_damaged_compressed_values_have_equal_results(batch: tuple[list[bytes | None], Rules]) -> None:
    rows_twice(*batch)


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck), database=None)
@given(st.binary(max_size=300), st.booleans(), st.integers(0, 50), st.integers(1, 22))
def test_a_frame_ends_where_the_library_says(content: bytes, has_size: bool, repeats: int, level: int) -> None:
    content *= repeats
    compressor = zstandard.ZstdCompressor(level=level, write_content_size=has_size, write_checksum=has_size)
    value = compressor.compress(content)
    reader = zstandard.ZstdDecompressor().decompressobj()
    assert reader.decompress(value + b"rest") == content
    frame = frame_of(value + b"rest")
    assert frame and frame.end == len(value) == len(value) + 4 - len(reader.unused_data)
    assert frame.min_size <= len(content) <= frame.max_size
    assert decompressor("zstd")(value) == content
