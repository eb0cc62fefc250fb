"""Packs: files with the hashes of the keys that some data files of a table hold.

A pack never changes, and the table never needs it: a pack that is missing, damaged or of another key only means that
its data files must be read. It begins with the length of its header and the CRC-32 of all that follows. The header is
JSON: the form, the columns of the key with their types, and the path, size in bytes and rows of each data file. Then
come the hashes in ascending order, 8 bytes each, little-endian, so that a search of a mapped pack reads few pages.
"""

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

Hashes = np.ndarray[Any, np.dtype[np.uint64]]
Files = dict[str, tuple[int, int | None]]
"""Data files by their path in the log: their size in bytes and their rows, ``None`` if the log has no count."""
Key = Sequence[tuple[str, str]]
"""The name and the type of each column of a key."""

SUFFIX = ".keys"
_FORM = 1
_PREFIX = struct.Struct("<QQ")
_HASH = np.dtype("<u8")


@dataclass(frozen=True)
class KeyPack:
    """A pack whose checksum is right: its own path, its key and data files, and the byte at which its hashes begin."""

    path: Path
    key: tuple[tuple[str, str], ...]
    files: Files
    first: int

    @property
    def hashes(self) -> Hashes:
        """The hashes, mapped into memory; raises ``OSError`` if the pack was removed since."""
        return np.memmap(self.path, _HASH, "r", self.first)

    def has_any(self, hashes: Hashes) -> bool:
        """Whether the pack has one of these hashes, which are in ascending order."""
        own_hashes = self.hashes
        places = np.searchsorted(own_hashes, hashes)
        return bool((own_hashes[np.minimum(places, len(own_hashes) - 1)] == hashes).any())


def open_pack(path: Path) -> KeyPack | None:
    """Open a pack; ``None`` if it was removed or is damaged. Its checksum is computed once in a process."""
    try:
        status = path.stat()
        return _open_unchanged(path, (status.st_ino, status.st_mtime_ns, status.st_size))
    except OSError:
        return None


@lru_cache(maxsize=1_000)
def _open_unchanged(path: Path, _identity: tuple[int, ...]) -> KeyPack | None:
    try:
        content = np.memmap(path, np.uint8, "r").data
        length, checksum = _PREFIX.unpack_from(content)
        if zlib.crc32(content[_PREFIX.size :]) != checksum:
            return None
        first = _PREFIX.size + length
        header = json.loads(bytes(content[_PREFIX.size : first]))
    except (ValueError, struct.error):
        return None
    files = {path: (size, rows) for path, (size, rows) in header["files"].items()}
    pack = KeyPack(path, tuple((name, type_) for name, type_ in header["key"]), files, first)
    return pack if header["form"] == _FORM else None


def write_pack(folder: Path, key: Key, files: Files, hashes: Hashes) -> None:
    """Write a pack of at least one hash into a folder, in ascending order; raises ``OSError`` if the disk fails.

    It is not flushed: if a power cut tears it, its checksum is wrong.
    """
    text = json.dumps({"form": _FORM, "key": list(key), "files": files}).encode()
    header = text.ljust(-(-len(text) // _HASH.itemsize) * _HASH.itemsize)
    content = np.ascontiguousarray(hashes, _HASH)
    folder.mkdir(exist_ok=True)
    draft = folder / f".{uuid4().hex}"
    try:
        with draft.open("wb") as file:
            file.write(_PREFIX.pack(len(header), zlib.crc32(content.data, zlib.crc32(header))))
            file.write(header)
            file.write(content.data)
        draft.rename(folder / f"{uuid4().hex}{SUFFIX}")
    finally:
        draft.unlink(missing_ok=True)
