"""A record for each element of the JSON array in a file; its place is its number in the array, from 0.

The scan only finds where elements end. Whether an element is valid is decided when it is decoded, so a bad one rejects
itself. A file whose contents are one object is one record.
"""

import re
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pyarrow as pa

from lakehouse.decoding.files.lines import MAX_LINE, FileFault, PlacedValues

_SLICE = 20_000  # elements in one array of values
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_FLAT = re.compile(rb'\{(?:[^{}\[\]"]++|' + _STRING + rb")*+\}", re.DOTALL)
_TOKEN = re.compile(_STRING + rb'|[\[\]{}"]', re.DOTALL)
_SCALAR = re.compile(rb"(?:" + _STRING + rb'|[^\s,\[\]{}"]++)', re.DOTALL)
_WHITE = re.compile(rb"[ \t\r\n]*+")
_HINTS = {"object": ": if each line is an object, declare each='line'"}
_MARK = b"\xef\xbb\xbf"


def split_elements(data: bytes) -> Iterator[PlacedValues]:
    """Yield the elements of the array in the contents of a file.

    Raises ``FileFault``, after the elements before it, if the contents are neither an array nor an object, or do not
    end where they should.
    """
    elements, fault, first = _scan(data), None, 0
    while fault is None:
        values: list[bytes] = []
        try:
            values.extend(islice(elements, _SLICE))  # keeps what came before a fault
        except FileFault as error:
            fault = error
        if values:
            yield np.arange(first, first + len(values)), pa.array(values, pa.binary())
        elif fault is None:
            return
        first += len(values)
    raise fault


def _scan(data: bytes) -> Iterator[bytes]:
    position = _skip_white(data, len(_MARK) if data.startswith(_MARK) else 0)
    if position == len(data):
        return
    if data[position : position + 1] == b"[":
        yield from _scan_array(data, _skip_white(data, position + 1))
    elif data[position : position + 1] == b"{":
        end = _end_of_element(data, position, 0)
        yield data[position:end]
        _require_end(data, end, 1, "object")
    else:
        raise FileFault(0, "the file is neither a JSON array nor an object")


def _scan_array(data: bytes, position: int) -> Iterator[bytes]:
    """Yield the elements of an array of which the first one, or its end, is at the position."""
    place, separator = 0, b"]"
    if data[position : position + 1] != separator:
        separator = b","
    while separator == b",":
        end = _end_of_element(data, position, place)
        if end - position > MAX_LINE:
            raise FileFault(place, f"element {place:,}, at byte {position:,}, has {end - position:,} bytes")
        yield data[position:end]
        place += 1
        end = _skip_white(data, end)
        separator = data[end : end + 1]
        position = _skip_white(data, end + 1)
        if separator not in (b",", b"]"):
            fact = f"byte {end:,} begins something else" if separator else "the file ends"
            raise FileFault(place, f"after element {place - 1:,}, {fact}: expected , or ]")
    if place == 0:
        position += 1
    _require_end(data, position, place, "array")


def _end_of_element(data: bytes, position: int, place: int) -> int:
    """Return where the element at a position ends: where its brackets are closed, or its text or number ends."""
    match = _FLAT.match(data, position)
    if match:
        return match.end()
    if data[position : position + 1] not in (b"{", b"["):
        match = _SCALAR.match(data, position)
        if match:
            return match.end()
        raise FileFault(place, f"element {place:,}, at byte {position:,}, is missing")
    depth = 0
    for token in _TOKEN.finditer(data, position):
        letter = token[0]
        if letter == b'"':
            break  # a text that does not end
        depth += (letter in (b"{", b"[")) - (letter in (b"}", b"]"))
        if depth == 0:
            return token.end()
    raise FileFault(place, f"element {place:,}, which begins at byte {position:,}, does not end")


def _require_end(data: bytes, position: int, place: int, kind: str) -> None:
    end = _skip_white(data, position)
    if end != len(data):
        raise FileFault(place, f"the {kind} ends before byte {end:,}, and the file does not{_HINTS.get(kind, '')}")


def _skip_white(data: bytes, position: int) -> int:
    match = _WHITE.match(data, position)
    return match.end() if match else position
