"""The key that is proposed for records: the fewest of their columns that tell one from another."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from lakehouse.declaration.vocabulary import Column

_ID = re.compile(r"(.*_)?(id|key|uuid|guid)")
_RANK = {"STRING": 2, "DATE": 3, "TIMESTAMP": 3, "INT": 4, "BIGINT": 4, "DECIMAL": 5, "DOUBLE": 6}
_MOST_IN_KEY, _MOST_TRIED = 3, 12  # columns of a key, and of those that may be one
_MOST_DIGITS, _SPARE = 38, 2


def proposed_key(columns: Sequence[Column], objects: Sequence[dict[str, Any]], doubts: list[str]) -> tuple[str, ...]:
    """The fewest required columns that tell all records apart, an id among them; else those that tell most of them."""
    able = (column for column in columns if column.required and _can_be_key(column, objects))
    fit = sorted(able, key=_rank)[:_MOST_TRIED]
    different = {repr(each): each for each in objects}.values()
    ids = [column for column in fit if _rank(column) < min(_RANK.values())]
    tried = [some for count in range(1, _MOST_IN_KEY + 1) for some in combinations(fit, count)]
    if ids:  # without one, a time or a state might tell records apart by chance
        tried = [some for some in tried if not {*ids}.isdisjoint(some)]
    if not tried:
        doubts.append("No field is in every record, so none can be the key: each record is a row, in a log table.")
        return ()
    told = {some: len({tuple(value_at(each, c.field.names) for c in some) for each in different}) for some in tried}
    best = next((some for some in tried if told[some] == len(different)), None)
    if best is None:
        best = max(tried, key=lambda some: (told[some], -len(some)))
        doubts.append("No three fields tell all records apart: some may be updates of others, or the key is another.")
    if len(ids) == 1 and len(best) > 1:
        doubts.append(
            f"{ids[0].name} repeats: where records of one are updates of each other, it is the key by itself."
        )
    names = tuple(column.name for column in columns if column in best)
    doubts.append(f"The key is {', '.join(names)}, as these records have it: check that it tells one row from another.")
    return names


def value_at(parsed: Any, path: Sequence[str]) -> Any:
    """The value to which the names lead; ``None`` where there is none."""
    for name in path:
        parsed = parsed.get(name) if isinstance(parsed, dict) else None
    return parsed


def is_id(name: str) -> bool:
    """Whether a column is named as what tells one thing from another."""
    return _ID.fullmatch(name) is not None


def exact(column: Column, objects: Sequence[dict[str, Any]], doubts: list[str]) -> Column:
    """A number with a fraction, exact as a key has to be, with more places than these records have."""
    if column.type != "DOUBLE":
        return column
    whole, scale = _digits(column, objects)
    places = min(scale + _SPARE, _MOST_DIGITS - whole)
    doubts.append(f"{column.name} is rounded to {places} places: numbers that differ in finer ones would be one row.")
    return replace(column, type=f"DECIMAL({min(whole + places + _SPARE, _MOST_DIGITS)},{places})")


def _rank(column: Column) -> int:
    if is_id(column.name):
        return 0 if column.name == "id" else 1
    return _RANK[column.type.partition("(")[0]]


def _can_be_key(column: Column, objects: Sequence[dict[str, Any]]) -> bool:
    return (
        column.type != "BOOLEAN"
        and not column.is_nested
        and (column.type != "DOUBLE" or sum(_digits(column, objects)) <= _MOST_DIGITS)
    )


def _digits(column: Column, objects: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """How many digits its numbers have before and behind the point."""
    numbers = [value_at(each, column.field.names).as_tuple() for each in objects]
    scale = max(0, *(-int(number.exponent) for number in numbers))
    return max(1, *(len(number.digits) + int(number.exponent) for number in numbers)), scale
