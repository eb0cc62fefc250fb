"""Deletion vectors: the indexes of the rows of a data file that the table does not have, by Delta's protocol.

A vector is a Roaring bitmap in its portable form. The vectors of a commit share one file. A data file has at most one
vector, which replaces the one before. Spark writes the same ones.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from deltalake.exceptions import CommitFailedError
from pyroaring import BitMap64

from lakehouse.ledger.vectors import IN_LOG, IN_OWN_FOLDER, Vector, decode_z85, encode_z85, vector_file, vector_path
from lakehouse.storage.row_changes import open_file

_MAGIC = (1_681_511_377).to_bytes(4, "little")
_FORM = b"\x01"  # the first byte of a file
_SIZE = 4  # bytes of the length in front of a vector, and of the checksum after it


def read_vector(uri: str, vector: Vector) -> BitMap64:
    """Return the indexes in a vector of a table; none if the file has no vector.

    Raises ``CommitFailedError`` if it cannot be read here, and ``OSError`` if its file is gone.
    """
    path = vector_path(vector)
    if not vector:
        return BitMap64()
    data = _read_file(uri, path, vector) if path else decode_z85(vector["pathOrInlineDv"])[: vector["sizeInBytes"]]
    if not (path or vector["storageType"] == IN_LOG) or not data.startswith(_MAGIC):
        raise CommitFailedError(f"The deletion vector {vector} cannot be read")
    return BitMap64.deserialize(data[len(_MAGIC) :])


def _read_file(uri: str, path: str, vector: Vector) -> bytes:
    """Return a vector from its file; empty if its length or its checksum is another."""
    source, size = open_file(uri, path), int(vector["sizeInBytes"])
    with source.open("rb") if isinstance(source, Path) else source as file:
        file.seek(int(vector["offset"]))
        content = bytes(file.read(size + 2 * _SIZE))
    data = content[_SIZE:-_SIZE]
    return data if content == _frame(data) and len(data) == size else b""


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(_SIZE, "big") + data + zlib.crc32(data).to_bytes(_SIZE, "big")


def write_vectors(folder: Path, vectors: Mapping[str, BitMap64]) -> dict[str, dict[str, Any]]:
    """Write the vectors of files into one new file; return what the log says of each."""
    number, content, entries = uuid4(), _FORM, {}
    for path, indexes in vectors.items():
        data = _MAGIC + indexes.serialize()
        place = {"storageType": IN_OWN_FOLDER, "pathOrInlineDv": encode_z85(number.bytes), "offset": len(content)}
        entries[path] = {**place, "sizeInBytes": len(data), "cardinality": len(indexes)}
        content += _frame(data)
    (folder / vector_file(number)).write_bytes(content)
    return entries
