"""One part of a file → batches of records. Runs in a worker, and on the driver to show the records of a file."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakehouse.decoding.files.contents import CHUNK, decompress, open_file, read_chunks
from lakehouse.decoding.files.elements import split_elements
from lakehouse.decoding.files.lines import MAX_LINE, PIECE, FileFault, PlacedValues, lines_of, split_lines
from lakehouse.decoding.files.table_rows import avro_rows, parquet_rows

_READ = 64 * 1024  # bytes beyond the end of a part that are searched at once for the end of its last line
_BATCH = 100_000  # records that are sent to Spark at once
MAX_WHOLE = 1024 * 1024 * 1024
"""Bytes of contents of a file that is read as a whole; a larger one is a rejected record."""


class FilePart(NamedTuple):
    """A part of a numbered file: the chunks from ``first`` on, or the whole file if ``chunks`` is ``None``."""

    folder: str
    path: str
    hashes: list[str]
    first: int = 0
    chunks: int | None = None


class FileForm(NamedTuple):
    """How files become records: what ``each`` record is, how lines of CSV are read, and how many places a file has.

    ``encoding`` is that of the lines, and so of the ``header``. So many ``title_lines`` in front of it, and
    ``total_lines`` at the end of the file, are left out.
    """

    each: str = "line"
    header: str = ""
    in_quotes: bool = False
    places: int = 2**36
    encoding: str = "utf-8"
    title_lines: int = 0
    total_lines: int = 0


class FileRecords(NamedTuple):
    """Records of a file: their places and values; if the file cannot be read further, ``fault`` says why."""

    places: Any
    values: pa.Array
    fault: str | None = None


def read_part(part: FilePart, form: FileForm) -> Iterator[FileRecords]:
    """Read the records of a part of a file, in order.

    If the file cannot be read to its end, the last one has no value, and a fault. Raises ``FileChangedError`` if the
    file is not the one that was numbered: then nothing that was yielded counts.
    """
    try:
        for places, values in _placed_values(part, form):
            if len(places) and places[-1] >= form.places - 1:
                raise FileFault(form.places - 1, f"the file has more than {form.places:,} places")
            for first in range(0, len(values), _BATCH):
                yield FileRecords(places[first : first + _BATCH], values[first : first + _BATCH])
    except FileFault as fault:
        yield FileRecords(np.array([fault.place]), pa.nulls(1, pa.binary()), fault.detail)


def _placed_values(part: FilePart, form: FileForm) -> Iterator[PlacedValues]:
    if form.each == "line":
        lines = _lines_of_part(part) if part.chunks else _lines_of_file(part, form)
        yield from lines if part.first else _without_others(lines, form)
        return
    data = _whole(part)
    if form.each == "element":
        yield from split_elements(data)
    elif part.path.endswith(".avro"):
        yield from avro_rows(data)
    else:
        yield from parquet_rows(data)


def _whole(part: FilePart) -> bytes:
    """Return the contents of a file that is small enough."""
    pieces, size = [], 0
    with open_file(part.folder, part.path) as file:
        for piece in decompress(read_chunks(file, part.hashes), part.path):
            size += len(piece)
            if size > MAX_WHOLE:
                raise FileFault(0, f"the file has more than {MAX_WHOLE:,} bytes: too large to be read as a whole")
            pieces.append(piece)
    return b"".join(pieces)


def _lines_of_file(part: FilePart, form: FileForm) -> Iterator[PlacedValues]:
    with open_file(part.folder, part.path) as file:
        yield from split_lines(decompress(read_chunks(file, part.hashes), part.path), in_quotes=form.in_quotes)


def _lines_of_part(part: FilePart) -> Iterator[PlacedValues]:
    """Yield the lines that begin in these chunks, after their first byte, or right after them.

    So no other byte decides where lines begin, and every byte of a line is in a chunk that was numbered.
    """
    with open_file(part.folder, part.path) as file:
        position = part.first * CHUNK
        file.seek(position)
        chunks = read_chunks(file, part.hashes, part.first)
        rest, rest_begin = b"", position
        is_begun = part.first == 0
        for data in islice(chunks, part.chunks):
            if not is_begun:
                skipped = data.find(b"\n") + 1
                position += skipped or len(data)
                data, is_begun = (data[skipped:], True) if skipped else (b"", False)  # noqa: PLW2901
                rest_begin = position
            for first in range(0, len(data), PIECE):
                piece = rest + data[first : first + PIECE]
                end = piece.rfind(b"\n") + 1
                if end:
                    yield lines_of(piece[:end], rest_begin)
                rest, rest_begin = piece[end:], rest_begin + end
        if is_begun and (line := _until_line_end(chunks, rest, rest_begin)):
            yield lines_of(line, rest_begin)


def _until_line_end(chunks: Iterator[bytes], rest: bytes, begin: int) -> bytes:
    line = bytearray(rest)
    for data in chunks:
        for first in range(0, len(data), _READ):
            piece = data[first : first + _READ]
            end = piece.find(b"\n") + 1
            line += piece[:end] if end else piece
            if end:
                return bytes(line)
            if len(line) > MAX_LINE:
                raise FileFault(begin, f"the line that begins at byte {begin:,} has more than {len(line):,} bytes")
    return bytes(line)


def _without_others(lines: Iterator[PlacedValues], form: FileForm) -> Iterator[PlacedValues]:
    """Return the lines from the first one of a file on, without those that are left out."""
    lines = _without_titles(lines, form) if form.title_lines else lines
    lines = _without_header(lines, form) if form.header else lines
    return _without_totals(lines, form.total_lines) if form.total_lines else lines


def _without_titles(lines: Iterator[PlacedValues], form: FileForm) -> Iterator[PlacedValues]:
    """Yield the lines after the titles; a file that has lines must have these, and the header if one is declared."""
    seen, place = 0, 0
    for places, values in lines:
        left = max(0, form.title_lines - seen)
        if len(values) > left:
            yield places[left:], values[left:]
        seen, place = seen + len(values), int(places[-1]) if len(places) else place
    if seen and seen < form.title_lines + bool(form.header):
        follows = ", and the header" if form.header else ""
        raise FileFault(place, f"the file ends before its {form.title_lines:,} title lines{follows}")


def _without_totals(lines: Iterator[PlacedValues], count: int) -> Iterator[PlacedValues]:
    """Yield all lines but the last ones; if the file cannot be read to its end, it is not known which these are."""
    held_places, held_values = np.array([], np.int64), pa.array([], pa.binary())
    try:
        for places, values in lines:
            held_places, held_values = np.append(held_places, places), pa.concat_arrays([held_values, values])
            if len(held_values) > count:
                yield held_places[:-count], held_values[:-count]
            held_places, held_values = held_places[-count:], held_values[-count:]
    except FileFault:
        yield held_places, held_values
        raise


def _without_header(lines: Iterator[PlacedValues], form: FileForm) -> Iterator[PlacedValues]:
    """Yield the lines after the first one, which must be the header."""
    header, encoding = form.header, form.encoding
    for places, values in lines:
        line = values[0].as_py().removeprefix(b"\xef\xbb\xbf") if len(values) else None
        if line is not None and line != header.encode(encoding):
            text = line[:200].decode(encoding, "replace")
            raise FileFault(int(places[0]), f"the first line is {text!r}, expected the header {header!r}")
        yield places[1:], values[1:]
        if line is not None:
            break
    yield from lines
