"""The layouts that texts of a certain length may have, if they are times of a pattern, and which texts have one."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fields import Field
from lakehouse.decoding.time_texts import ISO8601, MONTH_NAME, MONTHS, UTC_OFFSET

Part = str | bytes
"""A directive of a pattern, or the bytes of which a text has one at this place."""
Layout = tuple[tuple[Part, int], ...]
"""The parts of a text, each with its width."""

FRACTION = "%f"
_WIDTHS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2, MONTH_NAME: 3}
_OFFSET_WIDTHS = (1, 3, 5, 6)  # Z, +02, +0200, +02:00
_PARTS = re.compile(rb"%[YmbdHMSfz]|.", re.DOTALL)
# if digits follow, the length alone does not determine the width of a fraction or of an offset
_AMBIGUOUS = re.compile(r"%[fz](%[YmdHMSf]|\d)")


def layouts_of(field: Field, length: int) -> list[Layout]:
    """The layouts of texts of this length that the pattern of a field accepts; a text has at most one of them."""
    pattern = field.pattern or ""
    if pattern == ISO8601:
        templates = _ISO_DATES if field.type == "DATE" else _ISO_TIMES
        return [layout for template in templates for layout in _layouts(template, length, max_fraction=9)]
    return [] if _AMBIGUOUS.search(pattern) else [*_layouts(_split(pattern), length, max_fraction=6)]


def _layouts(template: tuple[Part, ...], length: int, max_fraction: int) -> Iterator[Layout]:
    """Yield the layouts of a template: the fraction has at least one digit, the offset one of few widths."""
    other_width = length - sum(_WIDTHS.get(part, 0) if isinstance(part, str) else 1 for part in template)
    for offset_width in _OFFSET_WIDTHS if UTC_OFFSET in template else (0,):
        fraction_width = other_width - offset_width
        if 1 <= fraction_width <= max_fraction if FRACTION in template else fraction_width == 0:
            widths = {**_WIDTHS, FRACTION: fraction_width, UTC_OFFSET: offset_width}
            yield tuple((part, widths[part] if isinstance(part, str) else 1) for part in template)


def _split(pattern: str) -> tuple[Part, ...]:
    return tuple(part.decode() if len(part) > 1 else part for part in _PARTS.findall(pattern.encode()))


def has_layout(characters: Any, are_digits: Any, layout: Layout) -> Mask:
    """Which texts have digits and other characters at the places of a layout; names of months are not looked up."""
    fits = np.ones(characters.shape[1], bool)
    start = 0
    for part, width in layout:
        span = slice(start, start + width)
        if isinstance(part, bytes):
            fits &= _is_one_of(characters[start], part)
        elif part == UTC_OFFSET:
            fits &= _is_offset(characters[span], are_digits[span])
        elif part != MONTH_NAME:  # a text without such a name has month 0, which does not exist
            fits &= are_digits[span].all(axis=0)
        start += width
    return fits


def _is_one_of(characters: Any, allowed: bytes) -> Mask:
    is_allowed: Mask = characters == allowed[0]
    for byte in allowed[1:]:
        is_allowed = is_allowed | (characters == byte)
    return is_allowed


def _is_offset(characters: Any, are_digits: Any) -> Mask:
    """Which texts have an offset: of one character Z, of three +02, of five +0200, of six +02:00."""
    if len(characters) == 1:
        return _is_one_of(characters[0], b"Zz")
    has_colon = len(characters) == len("+02:00")
    are_valid: Mask = _is_one_of(characters[0], b"+-") & are_digits[1:3].all(axis=0)
    are_valid &= are_digits[3 + has_colon :].all(axis=0)
    return are_valid & _is_one_of(characters[3], b":") if has_colon else are_valid


def months_in(characters: Any) -> Any:
    """The number of the month that three characters of each text name; 0 if they name none."""
    codes = (characters[0].astype(np.int32) << 16) | (characters[1].astype(np.int32) << 8) | characters[2]
    places = np.minimum(np.searchsorted(_MONTH_CODES, codes), len(_MONTH_CODES) - 1)
    return np.where(_MONTH_CODES[places] == codes, _MONTH_NUMBERS[places], 0)


_MONTH_CODES, _MONTH_NUMBERS = np.array(
    sorted((int.from_bytes(name.encode(), "big"), number) for name, number in MONTHS.items()), np.int32
).T
_ISO_DATES = (_split("%Y-%m-%d"),)
_MINUTES = (*_ISO_DATES[0], b"Tt ", *_split("%H:%M"))
_SECONDS = (*_MINUTES, *_split(":%S"))
_FRACTIONS = (*_SECONDS, b".,", FRACTION)
_ISO_TIMES = tuple((*parts, *ending) for parts in (_SECONDS, _FRACTIONS, _MINUTES) for ending in ((), (UTC_OFFSET,)))
_ISO_TIMES += _ISO_DATES
