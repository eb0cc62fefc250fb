"""Values as producers compress them."""

import gzip
from collections.abc import Callable

import pytest
import zstandard

from lakehouse.declaration import Column, StreamTable
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.unpacking.compression import Codec
from lakehouse_tests.helpers.decoding.decoded_rows import rows_of

CODECS: tuple[Codec, ...] = ("gzip", "zstd")
for_each_codec = pytest.mark.parametrize("codec", CODECS)


def streamed_zstd(content: bytes, *, checksum: bool = False) -> bytes:
    """A frame as programs write it that do not know its size before."""
    compressor = zstandard.ZstdCompressor(write_content_size=False, write_checksum=checksum).compressobj()
    return compressor.compress(content) + compressor.flush()


COMPRESS: dict[str, tuple[Codec, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", lambda content: gzip.compress(content, 1)),
    "zstd": ("zstd", zstandard.compress),
    "zstd without size": ("zstd", streamed_zstd),
    "zstd with checksum": ("zstd", lambda content: streamed_zstd(content, checksum=True)),
}
for_each_way = pytest.mark.parametrize("way", COMPRESS)
COLUMNS = [Column("id", "INT", "Which."), Column("name", "STRING", "Who.")]


def table_of(form: Format, *columns: Column) -> StreamTable:
    """A log table in a format, of people by default."""
    return rows_of(form, *(columns or COLUMNS))
