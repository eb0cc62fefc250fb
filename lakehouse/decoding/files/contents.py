"""The bytes of a file: hashed in chunks of a fixed size, and decompressed."""

import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from lakehouse.decoding.files.lines import FileChangedError, FileFault

CHUNK = 32 * 1024 * 1024
"""Bytes of a file that are hashed, and read, at once."""
_READ = {"gzip": 64 * 1024, "zstd": 2 * 1024}
"""Bytes that are decompressed at once: they become up to a thousand times as many, with zstd 32,000 times."""
_CHANGED = "its bytes are not those that were numbered"


def connect_to_store(uri: str) -> tuple[Any, str]:
    """Return the file system of a store, and the path of the folder in it; ``OSError`` if its kind is not known."""
    from pyarrow.fs import FileSystem  # noqa: PLC0415 - only files in a store need it

    try:
        file_system, root = FileSystem.from_uri(f"s3:{uri[4:]}" if uri.startswith("s3a:") else uri)  # Spark's name
    except ValueError as error:
        raise OSError(str(error)) from None
    return file_system, root


def open_file(folder: str, path: str) -> Any:
    """Open a file in a folder: an absolute path on a disk, or a URI; ``FileChangedError`` if there is no such file."""
    try:
        if Path(folder).is_absolute():
            return Path(folder, path).open("rb")
        file_system, root = connect_to_store(folder)  # a path may have any character, a URI may not
        return file_system.open_input_file(f"{root}/{path}")
    except FileNotFoundError:
        raise FileChangedError("the file is gone") from None


def chunk_hash(data: bytes) -> str:
    """Return the hash of one chunk of a file."""
    return hashlib.sha256(data).hexdigest()[:32]


def chunk_hashes(folder: str, path: str) -> list[str]:
    """Read a file, and return the hash of each of its chunks; of an empty file, none."""
    with open_file(folder, path) as file:
        return [chunk_hash(data) for data in iter(lambda: file.read(CHUNK), b"")]


def require_chunk(data: bytes, hashes: Sequence[str], index: int) -> bytes:
    """Return the data if it is the chunk that was numbered; raise ``FileChangedError`` if it is not."""
    if (chunk_hash(data) if data else None) != (hashes[index] if index < len(hashes) else None):
        raise FileChangedError(_CHANGED)
    return data


def read_chunks(file: BinaryIO, hashes: Sequence[str], first: int = 0) -> Iterator[bytes]:
    """Yield the chunks of a file from the first one on, at which it is; each is the one that was numbered.

    After the last one, the file must end.
    """
    for index in range(first, len(hashes) + 1):
        data = require_chunk(file.read(CHUNK), hashes, index)
        if data:
            yield data


def decompress(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Yield the contents of a file, decompressed as the end of its name says.

    Raises ``FileFault``, after the contents before it, if the compressed data is damaged or ends early.
    """
    if name.endswith(".gz"):
        return _decompressed(chunks, "gzip", lambda: zlib.decompressobj(wbits=31), zlib.error)
    if not name.endswith((".zst", ".zstd")):
        return chunks
    import zstandard  # noqa: PLC0415 - only files with zstd need it

    return _decompressed(chunks, "zstd", zstandard.ZstdDecompressor().decompressobj, zstandard.ZstdError)


def _decompressed(
    chunks: Iterator[bytes], form: str, make_decoder: Callable[[], Any], failure: type[Exception]
) -> Iterator[bytes]:
    """Yield the contents of compressed parts that follow one another."""
    size, decoder = 0, None
    for chunk in chunks:
        for begin in range(0, len(chunk), _READ[form]):
            data = chunk[begin : begin + _READ[form]]
            while data:
                decoder = make_decoder() if decoder is None or decoder.eof else decoder
                try:
                    part = decoder.decompress(data)
                except failure as error:
                    fact = f"the {form} data is damaged after {size:,} bytes of contents: {error}"
                    raise FileFault(size, fact) from None
                size += len(part)
                if part:
                    yield part
                data = decoder.unused_data if decoder.eof else b""
    if decoder is not None and not decoder.eof:
        raise FileFault(size, f"the {form} data ends early, after {size:,} bytes of contents")
