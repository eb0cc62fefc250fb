"""Packs: files with the hashes of the keys that some data files of a table hold.

A pack never changes, and the table never needs it: a pack that is missing, damaged or of another key only means that
its data files must be read. It begins with the length of its header, and the CRC-32 of length and header, and of the
hashes. The header is JSON: the form, the columns of the key with their types, the path, size in bytes and rows of each
data file, and the number of hashes. Then come the hashes in ascending order, 8 bytes each, little-endian.
"""

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

Hashes = np.ndarray[Any, np.dtype[np.uint64]]
Files = dict[str, tuple[int, int | None]]
"""Data files by their path in the log: their size in bytes and their rows, ``None`` if the log has no count."""
Key = Sequence[tuple[str, str]]
"""The name and the type of each column of a key, and what computed the hashes."""

SUFFIX = ".keys"
_FORM = 1
_LENGTH, _SUMS = struct.Struct("<Q"), struct.Struct("<QQ")
_HASH = np.dtype("<u8")


@dataclass(frozen=True)
class KeyPack:
    """A pack whose header is right: its own path, its key, its data files, and where its hashes are."""

    path: Path
    key: tuple[tuple[str, str], ...]
    files: Files
    count: int
    first: int
    checksum: int

    def read(self) -> Hashes:
        """Read the hashes; raises ``OSError`` if the pack is damaged, or was removed since."""
        with self.path.open("rb") as file:
            file.seek(self.first)
            content = file.read()
        if len(content) != self.count * _HASH.itemsize or zlib.crc32(content) != self.checksum:
            raise OSError(f"{self.path} is damaged")
        return np.frombuffer(content, _HASH)

    def has_any(self, hashes: Hashes) -> bool:
        """Whether the pack has one of these hashes, which are in ascending order; raises what ``read`` raises."""
        own_hashes = self.read()
        places = np.searchsorted(own_hashes, hashes)
        return bool((own_hashes[np.minimum(places, len(own_hashes) - 1)] == hashes).any())


def open_pack(path: Path) -> KeyPack | None:
    """Read the header of a pack; ``None`` if it is of another form or damaged, or was removed."""
    try:
        with path.open("rb") as file:
            length = file.read(_LENGTH.size)
            header_sum, checksum = _SUMS.unpack(file.read(_SUMS.size))
            text = file.read(_LENGTH.unpack(length)[0])
        header = json.loads(text)
        if zlib.crc32(length + text) != header_sum or header["form"] != _FORM:
            return None
        files = {path: (size, rows) for path, (size, rows) in header["files"].items()}
        key = tuple((name, type_) for name, type_ in header["key"])
        first = _LENGTH.size + _SUMS.size + len(text)
        return KeyPack(path, key, files, int(header["count"]), first, checksum)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, struct.error):
        return None


def write_pack(folder: Path, key: Key, files: Files, hashes: Hashes) -> None:
    """Write a pack of at least one hash into a folder, in ascending order; raises ``OSError`` if the disk fails.

    It is not flushed: if a power cut tears it, a checksum is wrong.
    """
    content = np.ascontiguousarray(hashes, _HASH).data
    text = json.dumps({"form": _FORM, "key": list(key), "files": files, "count": len(hashes)}).encode()
    length = _LENGTH.pack(len(text))
    draft = folder / f".{uuid4().hex}"
    try:
        with draft.open("wb") as file:
            file.write(length + _SUMS.pack(zlib.crc32(length + text), zlib.crc32(content)) + text)
            file.write(content)
        draft.rename(folder / f"{uuid4().hex}{SUFFIX}")
    finally:
        draft.unlink(missing_ok=True)
