"""A limit for what compressed batches of records become in this process: a batch of 3 KB may hold 100 MB.

aiokafka decompresses a batch as a whole, Spark's client piece by piece.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from gzip import GzipFile
from typing import Any

import cramjam
from aiokafka.errors import CorruptRecordException
from aiokafka.record import default_records as python_records

try:
    from aiokafka.record._crecords import default_records as compiled_records
except ImportError:  # without its extension
    compiled_records = python_records

LARGEST_BATCH = 512 * 1024 * 1024
"""Bytes that a batch may have, decompressed, if batches are read one after the other and dropped."""
_LZ4_RATIO, _SNAPPY_RATIO = 255, 32  # more than that, no data can become


@dataclass
class _Limit:
    """The bytes that are left for batches together, or for each of them."""

    room: int
    is_for_each: bool

    def take(self, size: int) -> bool:
        """Take these bytes; return whether there was room."""
        has_room = size <= self.room
        self.room -= 0 if self.is_for_each else size
        return has_room


_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)


class BatchesTooLargeError(CorruptRecordException):  # type: ignore[misc]
    """Batches have more contents than the limit."""


@contextmanager
def batches_limited(room: int, *, each: bool = False) -> Iterator[None]:
    """Let the batches that are decompressed meanwhile have at most ``room`` bytes of contents together, or ``each``.

    A read of more raises ``BatchesTooLargeError``. Without a limit, batches are read as aiokafka does.
    """
    for module in (python_records, compiled_records):
        for name, read_bounded in _BOUNDED.items():
            if not isinstance(getattr(module, name), _Decoder):
                setattr(module, name, _Decoder(getattr(module, name), read_bounded))
    token = _limit.set(_Limit(room, each))
    try:
        yield
    finally:
        _limit.reset(token)


class _Decoder:
    """Decompresses a batch, within the limit if there is one."""

    def __init__(self, decode: Callable[[Any], bytes], read_bounded: Callable[[Any, int], bytes | None]) -> None:
        self._decode, self._read_bounded = decode, read_bounded

    def __call__(self, payload: Any) -> bytes:
        limit = _limit.get()
        if limit is None:
            return self._decode(payload)
        contents = self._read_bounded(payload, max(0, limit.room))
        contents = self._decode(payload) if contents is None else contents
        if not limit.take(len(contents)):
            raise BatchesTooLargeError("The batches have too many bytes")
        return contents


def _read_gzip(payload: Any, room: int) -> bytes:
    with GzipFile(fileobj=io.BytesIO(payload)) as file:
        return file.read(room + 1)


def _read_zstd(payload: Any, room: int) -> bytes:
    import zstandard  # noqa: PLC0415 - only batches with zstd need it

    with zstandard.ZstdDecompressor().stream_reader(bytes(payload), read_across_frames=True) as reader:
        return bytes(reader.read(room + 1))


def _read_lz4(payload: Any, room: int) -> bytes | None:
    if len(payload) * _LZ4_RATIO <= room:
        return None
    contents = bytearray(room)
    try:
        return bytes(contents[: cramjam.lz4.decompress_into(bytes(payload), contents)])
    except cramjam.DecompressionError as error:
        raise BatchesTooLargeError("A batch has too many bytes, or is damaged") from error


def _read_snappy(payload: Any, room: int) -> None:
    if len(payload) * _SNAPPY_RATIO > room:
        raise BatchesTooLargeError("A batch may have too many bytes")


_BOUNDED: dict[str, Callable[[Any, int], bytes | None]] = {
    "gzip_decode": _read_gzip,
    "snappy_decode": _read_snappy,
    "lz4_decode": _read_lz4,
    "zstd_decode": _read_zstd,
}
