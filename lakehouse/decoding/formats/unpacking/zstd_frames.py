"""The frame of a value that is compressed with zstd: where it ends, and how much it may become.

Both are in the headers of its blocks (RFC 8878, section 3.1.1), so nothing is decompressed. Pure and self-contained
(the standard library only).
"""

from typing import NamedTuple

MAGIC_SIZE = 4
_MAX_BLOCK = 128 * 1024  # bytes that a block becomes at most
_BLOCK_HEADER, _CHECKSUM = 3, 4
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2  # kinds of blocks


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
