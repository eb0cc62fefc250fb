"""Compressed values: gzip with Python's own library, zstd with ``zstandard``, which Spark's client needs too.

Each value is one whole stream. What it may become is limited before memory is allocated for it. Pure and
self-contained (the standard library only, and ``zstandard`` for zstd).
"""

import gzip
import zlib
from collections.abc import Callable
from typing import Literal, NamedTuple, NoReturn

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.memory import MAX_UNPACKED_SIZE

MAGIC_SIZE = 4
_MAX_BLOCK = 128 * 1024  # bytes that a block becomes at most
_BLOCK_HEADER, _CHECKSUM = 3, 4
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2  # kinds of blocks
Codec = Literal["gzip", "zstd"]
MAGIC: dict[Codec, bytes] = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
"""The bytes with which compressed values begin."""
INVALID_COMPRESSION = "invalid_compression"
"""The reason to reject a value that cannot be decompressed."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS  # a stream of gzip, with its header and its checksum
_SMALL = 2**20  # bytes that may be allocated before the headers of blocks are read
_ZSTD_WINDOW = 2**27  # the largest window that zstd itself writes and reads without a special option


class Frame(NamedTuple):
    """Where a frame ends, and the bytes that it becomes at least and at most."""

    end: int
    min_size: int
    max_size: int


class _Header(NamedTuple):
    """The header of a frame: its own bytes, what it says about the content, and whether a checksum follows."""

    size: int
    content_size: int | None
    has_checksum: bool


def frame_of(value: bytes) -> Frame | None:
    """The frame at the begin of a value; ``None`` if the value ends within it; ``ValueError`` if it is damaged."""
    header = _header_of(value)
    if header is None:
        return None
    position, is_last = header.size, False
    min_size = max_size = 0
    while not is_last:
        block = int.from_bytes(value[position : position + _BLOCK_HEADER], "little")
        is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        if position + _BLOCK_HEADER > len(value):
            return None
        if kind > _COMPRESSED or size > _MAX_BLOCK:
            raise ValueError("it has a block that is not valid")
        position += _BLOCK_HEADER + (1 if kind == _REPEATED else size)
        min_size += 0 if kind == _COMPRESSED else size
        max_size += _MAX_BLOCK if kind == _COMPRESSED else size
    position += _CHECKSUM if header.has_checksum else 0
    if position > len(value):
        return None
    if header.content_size is None:
        return Frame(position, min_size, max_size)
    if not min_size <= header.content_size <= max_size:
        raise ValueError(f"it says that it has {header.content_size:,} bytes, but its blocks do not")
    return Frame(position, header.content_size, header.content_size)


def _header_of(value: bytes) -> _Header | None:
    """The header of the frame; ``None`` if the value ends within it."""
    if len(value) <= MAGIC_SIZE:
        return None
    descriptor = value[MAGIC_SIZE]
    if descriptor & 8:
        raise ValueError("its header is not valid")
    is_single = bool(descriptor & 0x20)
    dictionary_bytes, size_bytes = (0, 1, 2, 4)[descriptor & 3], (int(is_single), 2, 4, 8)[descriptor >> 6]
    dictionary = MAGIC_SIZE + 1 + (not is_single)
    begin = dictionary + dictionary_bytes
    end = begin + size_bytes
    if len(value) < end:
        return None
    if any(value[dictionary:begin]):
        raise ValueError("it needs a dictionary, which records do not have")
    content_size = int.from_bytes(value[begin:end], "little") + (256 if size_bytes == 2 else 0) if size_bytes else None
    return _Header(end, content_size, bool(descriptor & 4))


def decompressor(codec: Codec) -> Callable[[bytes], bytes]:
    """Return a function that decompresses a value.

    It raises ``Rejection`` with one of the reasons ``invalid_compression``, ``truncated``, ``trailing_bytes`` and
    ``too_large``.
    """
    decompress = _decompress_gzip if codec == "gzip" else _zstd_decompressor()

    def decompress_value(value: bytes) -> bytes:
        if not value.startswith(MAGIC[codec]):
            raise Rejection(INVALID_COMPRESSION, f"the value does not begin with the bytes of {codec}")
        return decompress(value)

    return decompress_value


def compress(value: bytes, codec: Codec) -> bytes:
    """Return a value as one stream; a second call returns the same bytes."""
    if codec == "gzip":
        return gzip.compress(value, mtime=0)
    import zstandard  # noqa: PLC0415 - only for tables that need it

    return zstandard.compress(value)


def _decompress_gzip(value: bytes) -> bytes:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    try:
        content = stream.decompress(value, MAX_UNPACKED_SIZE + 1)
    except zlib.error as error:
        raise Rejection(INVALID_COMPRESSION, f"the stream of gzip is damaged: {error}") from None
    if len(content) > MAX_UNPACKED_SIZE:
        _reject_size()
    if not stream.eof:
        _reject_end(value, "gzip")
    if stream.unused_data:
        _reject_rest(value, len(value) - len(stream.unused_data), "gzip")
    return content


def _zstd_decompressor() -> Callable[[bytes], bytes]:
    import zstandard  # noqa: PLC0415 - only for tables that need it

    decompress = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompress

    def decompress_value(value: bytes) -> bytes:
        try:
            if 0 < zstandard.frame_content_size(value) <= _SMALL:
                return decompress(value, allow_extra_data=False)
        except zstandard.ZstdError:
            pass  # the headers of the frame say why
        max_size = _max_size_of(value)
        try:
            return decompress(value, max_output_size=min(max_size, MAX_UNPACKED_SIZE) or 1)
        except zstandard.ZstdError as error:
            if max_size > MAX_UNPACKED_SIZE and "full frame" in str(error):  # it is, but there is no space for more
                _reject_size()
            raise Rejection(INVALID_COMPRESSION, f"the stream of zstd is damaged: {error}") from None

    return decompress_value


def _max_size_of(value: bytes) -> int:
    """The bytes that a frame of zstd becomes at most, by its headers; raises ``Rejection`` if they are not valid."""
    try:
        frame = frame_of(value)
    except ValueError as error:
        raise Rejection(INVALID_COMPRESSION, f"the stream of zstd is damaged: {error}") from None
    if frame is None:
        _reject_end(value, "zstd")
    if frame.end < len(value):
        _reject_rest(value, frame.end, "zstd")
    if frame.min_size > MAX_UNPACKED_SIZE:
        _reject_size()
    return frame.max_size


def _reject_size() -> NoReturn:
    raise Rejection("too_large", f"it decompresses to more than {MAX_UNPACKED_SIZE // 10**6} MB")


def _reject_end(value: bytes, codec: Codec) -> NoReturn:
    raise Rejection("truncated", f"the value ends after {len(value):,} bytes, within its stream of {codec}")


def _reject_rest(value: bytes, end: int, codec: Codec) -> NoReturn:
    kind = f"another stream of {codec} begins" if value.startswith(MAGIC[codec], end) else "other bytes begin"
    raise Rejection("trailing_bytes", f"{kind} at byte {end:,}, after the stream of {codec}")
