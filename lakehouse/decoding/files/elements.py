"""A record for each element of the JSON array in a file, or for each of its objects; its place is its number, from 0.

The scan only finds where elements end. Whether an element is valid is decided when it is decoded, so a bad one rejects
itself. Objects follow one another, with white space or nothing between them.
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
_SOUND = re.compile(rb'(?:[^"]++|' + _STRING + rb"[ \t\r\n]*+(?=[,:\]}]))*+", re.DOTALL)
"""An object in which something of JSON follows each text: in no other is it certain where texts begin."""
_MARK = b"\xef\xbb\xbf"
_BETWEEN = re.compile(rb"(?:[ \t\r\n]|" + _MARK + rb")*+")  # a mark, too, if files were joined
_INSIDE = b",:]}"  # what follows only within an object or an array


def split_elements(data: bytes) -> Iterator[PlacedValues]:
    """Yield the elements of the array in the contents of a file, or its objects.

    Raises ``FileFault``, after the elements before it, if the contents are neither an array nor objects, or if it is
    not certain where an element ends.
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
        yield from _scan_objects(data, position)
    else:
        raise FileFault(0, "the file is neither a JSON array nor an object")


def _scan_array(data: bytes, position: int) -> Iterator[bytes]:
    """Yield the elements of an array of which the first one, or its end, is at the position."""
    place, separator = 0, b"]"
    if data[position : position + 1] != separator:
        separator = b","
    while separator == b",":
        end = _end_of_element(data, position, place)
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
    end = _skip_white(data, position)
    if end != len(data):
        raise FileFault(place, f"the array ends before byte {end:,}, and the file does not")


def _scan_objects(data: bytes, position: int) -> Iterator[bytes]:
    """Yield objects, of which the first one is at the position, while it is certain where the next one begins."""
    place = 0
    while position < len(data):
        end = _end_of_element(data, position, place)
        following = match.end() if (match := _BETWEEN.match(data, end)) else end
        letter, fact = data[following : following + 1], f"element {place:,}, which begins at byte {position:,}"
        if letter and not _SOUND.fullmatch(data, position, end):
            raise FileFault(place, f"{fact}, has a text that does not end: what follows is not certain")
        if letter and letter in _INSIDE:
            raise FileFault(place, f"{fact}, ends before {letter.decode()!r} at byte {following:,}")
        yield data[position:end]
        place, position = place + 1, following
        if letter not in (b"", b"{"):
            raise FileFault(
                place, f"after element {place - 1:,}, byte {following:,} begins {letter!r}: expected an object"
            )


def _end_of_element(data: bytes, position: int, place: int) -> int:
    """Return where the element at a position ends."""
    end = _find_end(data, position, place)
    if end - position > MAX_LINE:
        raise FileFault(place, f"element {place:,}, at byte {position:,}, has {end - position:,} bytes")
    return end


def _find_end(data: bytes, position: int, place: int) -> int:
    """Return where the brackets of an element are closed, or its text or number ends."""
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


def _skip_white(data: bytes, position: int) -> int:
    match = _WHITE.match(data, position)
    return match.end() if match else position
