"""Compressed values that become large: what is too large, and how much memory the others take."""

import json
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import zstandard

from lakehouse.declaration import Column, Compressed, Json, Logfmt, Rejection
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.unpacking.compression import Codec, decompressor, frame_of
from lakehouse.decoding.memory import MAX_SLICE_MEMORY, MAX_UNPACKED_SIZE
from lakehouse.decoding.verdicts import decode_slices
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.decoding.compressed_values import COMPRESS, for_each_codec, for_each_way, table_of
from lakehouse_tests.helpers.decoding.native import NATIVE

BOMBS: dict[str, tuple[Codec, Callable[[], bytes]]] = {
    "gzip": ("gzip", lambda: _zeros(zlib.compressobj(wbits=31))),
    "zstd without size": ("zstd", lambda: _zeros(zstandard.ZstdCompressor(write_content_size=False).compressobj())),
    "zstd": ("zstd", lambda: zstandard.compress(bytes(10**8))),
}


def _zeros(compressor: Any) -> bytes:
    """Many zeros, compressed piece by piece."""
    return b"".join(compressor.compress(bytes(10**7)) for _ in range(20)) + compressor.flush()


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_too_large_without_being_inflated(name: str) -> None:
    codec, make_bomb = BOMBS[name]
    bomb = make_bomb()
    tracemalloc.start()
    try:
        with pytest.raises(Rejection, match="decompresses to more than 20 MB") as rejected:
            decompressor(codec)(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rejected.value.reason == "too_large"
    # gzip says nothing about its size before its end; zstd does in its headers
    assert peak < (2 * MAX_UNPACKED_SIZE + 10**6 if codec == "gzip" else 10**5)


@for_each_way
def test_a_value_of_the_largest_size_is_read_and_one_more_byte_is_too_large(way: str) -> None:
    codec, compress = COMPRESS[way]
    decompress = decompressor(codec)
    content = b"ab" * (MAX_UNPACKED_SIZE // 2)
    assert decompress(compress(content)) == content
    with pytest.raises(Rejection, match="too_large"):
        decompress(compress(content + b"a"))


def test_the_id_of_no_dictionary_needs_none() -> None:
    assert decompressor("zstd")(b"\x28\xb5\x2f\xfd\x21\x00\x02\x11\x00\x00{}") == b"{}"
    assert frame_of(b"\x28\xb5\x2f\xfd\x21\x00\x02\x11\x00\x00{}") == (12, 2, 2)


def test_many_small_blocks_are_not_too_large() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    texts = [b"%d abcabcabcabc" % (number % 7) for number in range(1000)]
    pieces = [compressor.compress(text) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for text in texts]
    value = b"".join(pieces) + compressor.flush()
    frame = frame_of(value)
    assert frame and frame.max_size > MAX_UNPACKED_SIZE
    assert decompressor("zstd")(value) == b"".join(texts)


@for_each_codec
@pytest.mark.parametrize("decoder", [NATIVE, None])
@pytest.mark.parametrize("form", [Json(), Logfmt()])
def test_small_records_that_become_large_are_decoded_in_slices(codec: Codec, decoder: Any, form: Format) -> None:
    """Their bytes do not show how much memory they take together."""
    compressed = Compressed(form, codec)
    line = json.dumps({"id": 1, "name": "x" * 100_000}).encode()
    values = pa.array([compressed.writer()(line)] * 200, pa.binary())
    assert values.nbytes < 100_000
    slices = list(decode_slices(values, None, table_of(compressed).rules(), decoder))
    assert sum(len(decoded.verdicts) for decoded in slices) == 200
    largest = max(decoded.verdicts.nbytes for decoded in slices)
    assert largest * compressed.parser().memory_by_byte <= MAX_SLICE_MEMORY * 1.1


@for_each_codec
def test_a_record_that_takes_too_much_memory_once_parsed_is_too_large(codec: Codec) -> None:
    write = Compressed(Json(), codec).writer()
    lists = b'{"id":1,"name":"x","other":[' + b",".join([b"[[]]"] * 1_700_000) + b"]}"
    columns = [Column(f"n{number}", "STRING", "A copy.", source="name") for number in range(13)]
    copies = b'{"id":1,"name":"' + b"x" * 12_000_000 + b'"}'
    rows = rows_twice([write(lists), write(b'{"id":1}')], table_of(Compressed(Json(), codec)).rules())
    assert [row["_reason"] for row in rows] == ["too_large", None]
    rules = table_of(Compressed(Json(), codec), *columns).rules()
    fast, strict = (
        [row for decoded in decode_slices(pa.array([write(copies)]), None, rules, decoder) for row in decoded.verdicts]
        for decoder in (NATIVE, None)
    )
    assert [row["_reason"].as_py() for row in (*fast, *strict)] == ["too_large"] * 2
