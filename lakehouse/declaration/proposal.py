"""A declaration proposed from records: what they tell of their fields, and what a person has to decide."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import combinations
from reprlib import repr as shortened
from typing import Any

from lakehouse.declaration.fields import Epoch, Rejection
from lakehouse.declaration.names import IN_FEED, is_name
from lakehouse.declaration.partitions import Month
from lakehouse.declaration.proposed_types import are_keys, fits, kind_of, left_out, type_of
from lakehouse.declaration.records import parse
from lakehouse.declaration.times import EPOCHS
from lakehouse.declaration.vocabulary import Column

_ID = re.compile(r"(.*_)?(id|key|uuid|guid)")
_SINCE_1970 = re.compile(r"(.*_)?(time|timestamp|ts|at|date|ms|millis|epoch)")
_LIKE_A_TIME = re.compile(
    r"\d{4}[-/.]?\d\d[-/.]?\d\d([T ].*)?|\d\d?[-/.]\d\d?[-/.]\d{4}( .*)?|\w{3}, \d\d? \w{3} \d{4}.*"
    r"|1\d{9}(\d{3}|\d{6}|\d{9})?"
)
_RANK = {"STRING": 2, "DATE": 3, "TIMESTAMP": 3, "BIGINT": 4, "DECIMAL": 5, "DOUBLE": 6}
_MOST_IN_KEY, _MOST_TRIED = 3, 12  # columns of a key, and of those that may be one
_MOST_FIELDS = 1_000  # more are keys of a map, written as fields
_MOST_LEVELS = 5  # of objects within objects
_OUR_DAYS = 10**9, 4 * 10**9  # seconds since 1970: from 2001 to 2096
_MOST_DIGITS, _SPARE = 38, 2

Path = tuple[str, ...]


@dataclass(frozen=True)
class Proposal:
    """Columns and a key that fit every record that can be read, and what records cannot tell; no key: a log table.

    ``month_of`` is a time in the key by whose month the table may be parted. ``unread`` are records that are no JSON
    objects, among ``records``.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    month_of: str | None
    doubts: tuple[str, ...]
    records: int
    unread: int


def propose(values: Iterable[bytes | None]) -> Proposal:
    """Propose a declaration for the values of some records; pure, and the same for the same records."""
    held = list(values)
    objects = [parsed for parsed in map(_parsed, held) if parsed is not None]
    doubts: list[str] = []
    paths = _paths(objects)
    if len(paths) == _MOST_FIELDS:
        doubts.append(f"Only the first {_MOST_FIELDS:,} fields were looked at.")
    columns = [each for path in paths if (each := _column(path, objects, doubts))]
    for name, often in Counter(column.name for column in columns).items():
        if often > 1:
            sources = ", ".join(repr(column.field.source) for column in columns if column.name == name)
            doubts.append(f"Fields {sources} would each be column {name}: only the first is declared, name the others.")
    columns = list({column.name: column for column in reversed(columns)}.values())[::-1]
    key = _key(columns, objects, doubts)
    if any(column.required for column in columns) and objects:
        doubts.append("Required is what every one of these records has: drop required=True where one may come without.")
    whole = [column.name for column in columns if column.type == "BIGINT" and not _ID.fullmatch(column.name)]
    if whole:
        doubts.append(f"{', '.join(whole)}: whole numbers so far, and one with a fraction would be rejected.")
    columns = [_exact(column, objects) if column.name in key else column for column in columns]
    taken = {column.name for column in columns}
    times = [column.name for column in columns if column.name in key and column.type == "TIMESTAMP"]
    times = [name for name in times if Month(name).name not in taken]
    unread = len(held) - len(objects)
    return Proposal(tuple(columns), key, times[0] if times else None, tuple(doubts), len(held), unread)


def _parsed(value: bytes | None) -> dict[str, Any] | None:
    try:
        return parse(value)
    except Rejection:
        return None


def _paths(objects: Sequence[dict[str, Any]]) -> list[Path]:
    """The fields of all records, in the order in which they are first met; of very many, the first.

    What holds nothing but objects is told by the fields in these.
    """
    found: dict[Path, None] = dict.fromkeys((name,) for each in objects for name in each)
    for _ in range(_MOST_LEVELS - 1):
        found = dict.fromkeys(each for path in list(found)[:_MOST_FIELDS] for each in _within(path, objects))
    return list(found)[:_MOST_FIELDS]


def _within(path: Path, objects: Sequence[dict[str, Any]]) -> list[Path]:
    held = [value for each in objects if (value := _at(each, path)) is not None]
    names = dict.fromkeys(name for value in held if isinstance(value, dict) for name in value)
    if not names or not all(isinstance(value, dict) for value in held):
        return [path]
    return [path] if are_keys(names, held) else [(*path, name) for name in names]


def _at(parsed: Any, path: Path) -> Any:
    """The value to which the names lead; ``None`` where there is none."""
    for name in path:
        parsed = parsed.get(name) if isinstance(parsed, dict) else None
    return parsed


def _path(column: Column) -> Path:
    return column.field.names


def _column(path: Path, objects: Sequence[dict[str, Any]], doubts: list[str]) -> Column | None:
    held = [value for each in objects if (value := _at(each, path)) is not None]
    source = ".".join(path)
    name = _named("_".join(path))
    if name is None or not held:
        doubts.append(f"Field {source!r} is left out: {'no column can be named so' if held else 'it is always null'}.")
        return None
    found = type_of(held)
    if found and not fits(held, *found):
        doubts.append(f"Field {source!r} is left out: it holds values beyond {found[0]}.")
        return None
    if found is None:
        kinds = sorted({kind_of(value) for value in held})
        doubts.append(f"Field {source!r} is left out: it holds {' and '.join(kinds)}.")
        return None
    type_, pattern = found
    unit = _unit(held) if type_ in ("BIGINT", "DOUBLE") and _SINCE_1970.fullmatch(name) else None
    if unit:
        doubts.append(f"{name} is taken for a time, in {unit} since 1970: declare BIGINT if it is a number.")
        type_ = "TIMESTAMP"
    if type_ == "DOUBLE":
        doubts.append(f"{name} is a DOUBLE: where it is added up or is money, declare DECIMAL(precision,scale).")
    required = len(held) == len(objects)
    where = None if path == (name,) else path[0] if len(path) == 1 else path
    column = Column(name, type_, "", required=required, source=where, pattern=pattern, epoch=unit)
    if type_ == "STRING" and all(_LIKE_A_TIME.fullmatch(each) for each in held):
        doubts.append(f"{name} looks like a time, and no one pattern reads it: declare how it is written, in UTC.")
    missed = sorted(set().union(*(left_out(value, column.field) for value in held)))
    if missed:
        doubts.append(f"Fields within {source!r} are left out, for no type or by their names: {shortened(missed)}.")
    return column


def _unit(held: Sequence[Decimal]) -> Epoch | None:
    """The unit in which numbers would be times of our days, exactly to the microsecond; ``None`` where in none."""
    for unit, places in EPOCHS.items():
        first, last = (day * 10 ** (6 - places) for day in _OUR_DAYS)
        if first <= min(held) and max(held) <= last:
            exact = all(value.scaleb(places) % 1 == 0 for value in held)  # else two that differ might be one time
            return unit if exact else None
    return None


def _named(source: str) -> str | None:
    """The name of a column for a field; ``None`` where none follows from it."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", source)
    name = source if is_name(source) else re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    name = f"{name}_" if name in IN_FEED else name  # it may be of the key, whose columns stand in the feed
    return name if is_name(name) else None


def _key(columns: Sequence[Column], objects: Sequence[dict[str, Any]], doubts: list[str]) -> tuple[str, ...]:
    """The fewest required columns that tell all records apart, an id among them; else those that tell most of them."""
    able = (column for column in columns if column.required and _can_be_key(column, objects))
    fit = sorted(able, key=_rank)[:_MOST_TRIED]
    different = {repr(each): each for each in objects}.values()
    ids = [column for column in fit if _rank(column) < min(_RANK.values())]
    tried = [some for count in range(1, _MOST_IN_KEY + 1) for some in combinations(fit, count)]
    if len(ids) == 1:  # without it, a time or a state might tell records apart by chance
        tried = [some for some in tried if ids[0] in some]
    if not tried:
        doubts.append("No field is in every record, so none can be the key: each record is a row, in a log table.")
        return ()
    told = {some: len({tuple(_at(each, _path(c)) for c in some) for each in different}) for some in tried}
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


def _rank(column: Column) -> int:
    if _ID.fullmatch(column.name):
        return 0 if column.name == "id" else 1
    return _RANK[column.type.partition("(")[0]]


def _can_be_key(column: Column, objects: Sequence[dict[str, Any]]) -> bool:
    return (
        column.type != "BOOLEAN"
        and not column.is_nested
        and (column.type != "DOUBLE" or sum(_digits(column, objects)) <= _MOST_DIGITS)
    )


def _exact(column: Column, objects: Sequence[dict[str, Any]]) -> Column:
    """A number with a fraction, exact as a key has to be."""
    if column.type != "DOUBLE":
        return column
    whole, scale = _digits(column, objects)
    return replace(column, type=f"DECIMAL({min(whole + scale + _SPARE, _MOST_DIGITS)},{scale})")


def _digits(column: Column, objects: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """How many digits its numbers have before and behind the point."""
    numbers = [_at(each, _path(column)).as_tuple() for each in objects]
    scale = max(0, *(-int(number.exponent) for number in numbers))
    return max(1, *(len(number.digits) + int(number.exponent) for number in numbers)), scale
