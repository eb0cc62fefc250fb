"""What may not be said of how times are written. Each rule yields what is wrong, and what to do."""

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import pairwise

from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import is_text
from lakehouse.decoding.nested_types import plain_types
from lakehouse.decoding.record_parts import VALUE
from lakehouse.decoding.times import DAYS, EPOCHS, TIME_SHAPES

_OR_TEXT = "of a time that is written otherwise, declare a STRING without a pattern."
_WITHIN_A_DAY = ("%H", "%M", "%S", "%f")
_OFFSET = re.compile(r"%[HMSf].*?([+-](?=[\d:]*[1-9])\d{1,2}(:?\d\d)?)(?![\d:])", re.DOTALL)
_WITH_HOURS = "Declare TIMESTAMP in place of DATE, or STRING where it is written in another way."
_OF_A_PLACE = re.compile(r"(?<![A-Za-z])([AP]M|[ap]m|[ACEMP][SD]T|[CEW]ES?T|BST|[IJK]ST|MSK|\w+/\w+)(?![A-Za-z])")


def time_problems(column: Column, typed_by: str) -> Iterator[Problem]:
    """What is wrong with how the times of a column are written; those that a format types may be what they are."""
    timed = sorted(plain_types(column.type) & {"TIMESTAMP", "DATE"})
    if timed and not column.pattern and not column.epoch and not (typed_by and column.field.part == VALUE):
        yield "a time needs a pattern", f"Declare how it is written, as {_example_of(timed)}."
    for way in ("pattern", "epoch"):
        if not timed and getattr(column, way) is not None:
            such = "a DATE" if _is_of_days(column) else "a TIMESTAMP"
            yield f"{way} is for a TIMESTAMP or DATE", f"Declare {such}, or leave {way} out."
    if column.pattern is not None and column.epoch is not None:
        yield "pattern or epoch, not both", "A time is a text or a number: leave one out."
    if len(timed) > 1 and column.epoch is not None:
        yield "no epoch is one of days and of moments", _apart(column.epoch, typed_by)
    for type_ in timed:
        yield from _written_problems(column, type_)


def _example_of(timed: Sequence[str]) -> str:
    """How times of these types may be declared to be written."""
    if len(timed) > 1:
        apart = "STRING in place of DATE with pattern='%Y-%m-%dT%H:%M', or INT with epoch='seconds'"
        return f"pattern='%Y-%m-%d' where both are written so, {apart}"
    written, unit = ("%Y-%m-%d", DAYS) if timed == ["DATE"] else ("%Y-%m-%dT%H:%M", "seconds")
    return f"pattern={written!r}, or epoch={unit!r} where it is a number"


def _is_of_days(column: Column) -> bool:
    """Whether what says how its times are written fits days."""
    return column.epoch == DAYS or not (column.epoch or any(each in (column.pattern or "") for each in _WITHIN_A_DAY))


def _apart(epoch: str, typed_by: str) -> str:
    """What to do where one column has days and moments, and one epoch."""
    if typed_by:
        return f"{typed_by} tells which is which: leave epoch out, and declare BIGINT for what is a plain number."
    if epoch == DAYS:
        return "Declare BIGINT in place of TIMESTAMP: it stays the number that it is."
    return "Declare INT in place of DATE: it stays a number of days since 1970."


def _written_problems(column: Column, type_: str) -> Iterator[Problem]:
    """What is wrong with how times of a type are written in it."""
    units = (DAYS, "a TIMESTAMP") if type_ == "DATE" else (*EPOCHS, "a DATE")
    if column.epoch is not None and column.epoch not in units:
        yield f"its epoch is {column.epoch}, and it is a {column.type}", f"Declare {' or '.join(units)}."
    if column.pattern:
        yield from _pattern_problems(column.pattern, type_)


def _pattern_problems(pattern: str, type_: str) -> Iterator[Problem]:
    known = ", ".join(TIME_SHAPES)
    directives = Counter(re.findall("%.?", pattern, re.DOTALL))
    for directive, times in directives.items():
        if directive not in TIME_SHAPES:
            yield f"its pattern has {directive}, which no time matches", f"Write it with {known}; {_OR_TEXT}"
        elif times > 1:
            yield f"its pattern has {directive} twice", "A part of a time stands once."
        elif type_ == "DATE" and directive in _WITHIN_A_DAY:
            yield f"its pattern has {directive}, and a DATE drops it", _WITH_HOURS
    if not is_text(pattern):
        yield "its pattern is no text in UTF-8", "Write one that a record can have."
    if "%Y" not in directives:
        yield "its pattern has no %Y", f"Without its year a time would lie in 1900: add it; {_OR_TEXT}"
    yield from _gap_problems(directives)
    yield from _offset_problems(pattern)


def _gap_problems(directives: Container[str]) -> Iterator[Problem]:
    for coarser, finer in pairwise(TIME_SHAPES):
        if finer in directives and coarser not in directives:
            yield (
                f"its pattern has {finer} and no {coarser}",
                f"A part of a time needs the one it is a part of: add {coarser}.",
            )


def _offset_problems(pattern: str) -> Iterator[Problem]:
    offset = _OFFSET.search(pattern)
    place = _OF_A_PLACE.search(re.sub("%.", "%", pattern.partition("%H")[2]))
    if offset:
        yield f"its pattern has the offset {offset[1]}", f"Times are read as UTC: have them written so; {_OR_TEXT}"
    elif place:
        fact = f"its pattern has {place[1]}, which says that a time is another one in UTC, or on a clock of 24 hours"
        yield fact, f"Times are read as UTC, by such a clock: have them written so; {_OR_TEXT}"
