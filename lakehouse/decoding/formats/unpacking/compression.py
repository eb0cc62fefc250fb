"""Compressed values: gzip with Python's own library, zstd with ``zstandard``, which Spark's client needs too.

Each value is one whole stream. What it may become is limited before memory is allocated for it. Pure and
self-contained (the standard library only, and ``zstandard`` for zstd).
"""

import gzip
import zlib
from collections.abc import Callable
from typing import Literal, NoReturn

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.unpacking.zstd_frames import frame_of
from lakehouse.decoding.memory import MAX_UNPACKED_SIZE

Codec = Literal["gzip", "zstd"]
MAGIC: dict[Codec, bytes] = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
"""The bytes with which compressed values begin."""
INVALID_COMPRESSION = "invalid_compression"
"""The reason to reject a value that cannot be decompressed."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS  # a stream of gzip, with its header and its checksum
_SMALL = 2**20  # bytes that may be allocated before the headers of blocks are read
_ZSTD_WINDOW = 2**27  # the largest window that zstd itself writes and reads without a special option


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
