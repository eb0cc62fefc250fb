"""A record for each line of a file that is not blank; its place is the byte at which it begins in the contents."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

MAX_LINE = 64 * 1024 * 1024
"""Bytes of a line at most; a longer one is a rejected record, and what follows it in the file is not read."""
PIECE = 4 * 1024 * 1024
"""Bytes whose lines are separated at once."""
_NEWLINE, _CARRIAGE_RETURN, _QUOTE = b'\n\r"'
_BLANKS = np.frombuffer(b" \t\r", np.uint8)

Places = np.ndarray[tuple[int], np.dtype[np.int64]]
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
PlacedValues = tuple[Places, pa.Array]
"""The places of records in a file, and their values."""


class FileFault(Exception):  # noqa: N818 - not an error: it becomes a rejected record
    """A file cannot be read beyond a place; ``detail`` says why."""

    def __init__(self, place: int, detail: str) -> None:
        super().__init__(detail)
        self.place, self.detail = place, detail


class FileChangedError(Exception):
    """The bytes of a file are not those that were numbered, or the file is gone."""


class FileUnreadableError(Exception):
    """A file that exists cannot be opened, or a disk cannot read it."""


class DataFileError(Exception):
    """A data file cannot be written: ``errno`` and its number."""


def split_lines(parts: Iterator[bytes], *, in_quotes: bool = False) -> Iterator[PlacedValues]:
    """Yield the lines of contents that come in parts; with ``in_quotes``, a line break within quotes ends no line.

    A last line without a line break is a line, too. Raises ``FileFault`` for a line that is too long for a record,
    after the lines before it.
    """
    begin, rest = 0, b""
    for part in parts:
        for first in range(0, len(part), PIECE):
            data = rest + part[first : first + PIECE]
            ends = _line_ends(data, in_quotes=in_quotes)
            end = int(ends[-1]) + 1 if len(ends) else 0
            if end:
                yield lines_of(data[:end], begin, in_quotes=in_quotes)
            begin, rest = begin + end, data[end:]
            if len(rest) > MAX_LINE:
                raise FileFault(begin, f"the line that begins at byte {begin:,} has more than {len(rest):,} bytes")
    if rest:
        yield lines_of(rest, begin, in_quotes=in_quotes)


def _line_ends(data: bytes, *, in_quotes: bool) -> Places:
    """Return the places of the line breaks that end a line."""
    octets = np.frombuffer(data, np.uint8)
    ends: Places = np.flatnonzero(octets == _NEWLINE)
    if not in_quotes:
        return ends
    is_outside: Mask = np.searchsorted(np.flatnonzero(octets == _QUOTE), ends) % 2 == 0
    closed_ends: Places = ends[is_outside]
    return closed_ends


def lines_of(data: bytes, begin: int, *, in_quotes: bool = False) -> PlacedValues:
    """Return the lines in whole lines of a file, of which the first begins at the byte ``begin``."""
    octets, ends = np.frombuffer(data, np.uint8), _line_ends(data, in_quotes=in_quotes)
    is_closed = len(ends) > 0 and ends[-1] == len(data) - 1
    ends = ends if is_closed else np.append(ends, len(data))
    starts = np.append(0, ends[:-1] + 1)
    # a line ends before its carriage return, if it has one
    returns = ends[(ends > starts) & (octets[np.maximum(ends, 1) - 1] == _CARRIAGE_RETURN)] - 1
    is_text = np.ones(len(octets), bool)
    is_text[returns] = False
    is_text[ends if is_closed else ends[:-1]] = False
    lengths = ends - starts
    lengths[np.searchsorted(starts, returns, "right") - 1] -= 1
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    texts = pa.py_buffer(octets[is_text].tobytes())
    values = pa.BinaryArray.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets), texts])
    is_record = _have_ink(data, starts, lengths)
    if not is_record.all():
        starts, values = starts[is_record], values.filter(pa.array(is_record))
    return starts + begin, values


def _have_ink(data: bytes, starts: Places, lengths: Places) -> Mask:
    """Which lines have more than white space."""
    is_record = lengths > 0
    begins = np.frombuffer(data, np.uint8)[np.where(is_record, starts, 0)]
    for line in np.flatnonzero(is_record & np.isin(begins, _BLANKS)):
        is_record[line] = bool(data[starts[line] : starts[line] + lengths[line]].strip(b" \t\r"))
    return is_record
