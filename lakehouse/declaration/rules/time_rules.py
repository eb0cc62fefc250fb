"""The rules of patterns and epochs of times. Each rule yields what is wrong, and what to do."""

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from functools import cache
from itertools import pairwise
from zoneinfo import available_timezones

from lakehouse.declaration.columns import Column, Time
from lakehouse.declaration.names import spelling_hint
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import is_text
from lakehouse.decoding.nested_types import plain_types
from lakehouse.decoding.record_parts import PARSED_KEY, VALUE
from lakehouse.decoding.time_texts import ISO8601, MONTH_NAME, TIME_SHAPES, UTC_OFFSET
from lakehouse.decoding.times import DAYS, EPOCHS
from lakehouse.decoding.written_forms import REQUIRED, Zone, zone_of

_OFFSET_FORMS = "It reads Z, +02:00, +0200 and +02."
_STRING = "Declare STRING without a pattern."
_OF_ONE_MACHINE = {"localtime", "Factory"}  # names whose meaning is not that of the tz database
_OFFSET_BEFORE_DIGITS = re.compile(rf"{UTC_OFFSET}(%[YmdHMSf]|\d)")
_FIXED_OFFSET = re.compile(r"%[HMSf].*?([+-](?=[\d:]*[1-9])\d{1,2}(:?\d\d)?)(?![\d:])", re.DOTALL)
_UTC = re.compile(r"(?<![A-Za-z])(Z|UTC|GMT)(?![A-Za-z])|[+-]00(:?00)?(?![\d:])")
_HALF_DAY = re.compile(r"(?<![A-Za-z])([AP]M|[ap]m)(?![A-Za-z])")
_SUMMER_OR_WINTER = re.compile(r"(?<![A-Za-z])([ACEMP][SD]T|[CEW]ES?T|BST)(?![A-Za-z])")
_ZONE_NAME = re.compile(r"(?<![A-Za-z])([IJK]ST|MSK|\w+/\w+)(?![A-Za-z])")
_OR_STRING = "For times in another format, declare STRING without a pattern."
_WITHIN_A_DAY = ("%H", "%M", "%S", "%f", UTC_OFFSET)
_KEEP_HOURS = "Declare TIMESTAMP in place of DATE, or STRING if it has another format."


def zone_problems(column: Column) -> Iterator[Problem]:
    """What is wrong with the time zone of a column."""
    zone, pattern = zone_of(column.time.zone), column.time.pattern
    if zone is None:
        return
    if "TIMESTAMP" not in plain_types(column.type):
        message = f"zone is only allowed for a TIMESTAMP, but the column is {column.type}"
        yield message, "Declare TIMESTAMP, or remove zone."
    if column.time.epoch is not None:
        yield "zone and epoch cannot be combined", "A number counts from 1970 in UTC. Remove zone."
    if zone.name == REQUIRED:
        if pattern != ISO8601 and UTC_OFFSET not in (pattern or ""):
            message = f"zone is {REQUIRED!r}, but no text that the column reads has an offset"
            yield (
                message,
                f"Declare Time({ISO8601!r}, zone={REQUIRED!r}), or a pattern with {UTC_OFFSET} and no zone.",
            )
    elif zone.name not in _zone_names():
        advice = "Write a name of the tz database, for example Europe/Berlin. UTC+2 without summer time is Etc/GMT-2."
        yield f"unknown zone {zone.name!r}", f"{spelling_hint(zone.name, _zone_names())}{advice}"
    if pattern:
        yield from _combined_problems(pattern, zone)


def _combined_problems(pattern: str, zone: Zone) -> Iterator[Problem]:
    """Patterns of which every text says its offset itself."""
    if UTC_OFFSET in pattern:
        yield f"zone and {UTC_OFFSET} cannot be combined", f"With {UTC_OFFSET}, every text has its offset. Remove zone."
    utc = _UTC.search(_after_hour(pattern))
    if utc:
        yield f"the pattern contains {utc[0]}, which is UTC, but zone is {zone.name}", "Remove zone."


def offset_problems(pattern: str, *, has_zone: bool) -> Iterator[Problem]:
    """Reject literal offsets, zone names and AM or PM in a pattern."""
    fixed_offset = _FIXED_OFFSET.search(pattern)
    clock = _after_hour(pattern)
    half_day, season, zone_name = (regex.search(clock) for regex in (_HALF_DAY, _SUMMER_OR_WINTER, _ZONE_NAME))
    if fixed_offset:
        yield f"the pattern contains the offset {fixed_offset[1]}", f"Write {UTC_OFFSET} in its place. {_OFFSET_FORMS}"
    elif half_day:
        message = f"the pattern contains {half_day[1]}, so the time is not on a 24-hour clock"
        yield message, f"Hours are read from 00 to 23. {_STRING}"
    elif season and UTC_OFFSET not in pattern:
        message = f"the pattern contains {season[1]}, which is the time of a part of the year"
        yield message, f"If the texts also have an offset, add {UTC_OFFSET}. {_STRING}"
    elif zone_name and UTC_OFFSET not in pattern and not has_zone:
        message = f"the pattern contains {zone_name[1]}, so the time is not in UTC"
        yield message, "Declare the time zone too, for example zone='Asia/Tokyo' of Time for JST."
    if _OFFSET_BEFORE_DIGITS.search(pattern):
        message = f"the pattern contains digits right after {UTC_OFFSET}, so its end is not certain"
        yield message, f"Write {UTC_OFFSET} at the end, or before another character. {_STRING}"


def _after_hour(pattern: str) -> str:
    """What follows the hour in a pattern, without the letters of directives."""
    return re.sub("%.", "%", pattern.partition("%H")[2])


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones() - _OF_ONE_MACHINE)


def time_problems(column: Column, typed_by: str) -> Iterator[Problem]:
    """What is wrong with the format of a column's times; ``typed_by`` names the format of records if it types them."""
    time_types = sorted(plain_types(column.type) & {"TIMESTAMP", "DATE"})
    pattern, epoch = column.time.pattern, column.time.epoch
    is_typed = typed_by and column.field.place.part in (VALUE, PARSED_KEY)
    if time_types and not pattern and not epoch and not is_typed:
        yield "a time requires a pattern or an epoch", f"Declare its format, for example {_example_for(time_types)}."
    if isinstance(column.written, Time) and not time_types:
        suggested_type = "a DATE" if _fits_dates(column.time) else "a TIMESTAMP"
        yield "Time is only allowed for a TIMESTAMP or DATE", f"Declare {suggested_type}, or remove written."
    if pattern is not None and epoch is not None:
        yield "pattern and epoch cannot be combined", "A time is either text or a number. Remove one of the two."
    if len(time_types) > 1 and epoch is not None:
        yield "one epoch cannot serve both DATE and TIMESTAMP", _separate_types(epoch, typed_by)
    for type_ in time_types:
        yield from _format_problems(column, type_)
    if pattern and pattern != ISO8601:
        yield from offset_problems(pattern, has_zone=column.time.zone is not None)
    yield from zone_problems(column)


def _example_for(time_types: Sequence[str]) -> str:
    """How to declare the format of times of these types."""
    if len(time_types) > 1:
        return f"written=Time({ISO8601!r}). For numbers, declare INT in place of DATE with Time(epoch='seconds')"
    unit = DAYS if time_types == ["DATE"] else "seconds"
    return f"written=Time({ISO8601!r}), or written=Time(epoch={unit!r}) if it is a number"


def _fits_dates(time: Time) -> bool:
    """Whether a time without an offset has no parts that a DATE drops."""
    has_time = any(directive in (time.pattern or "") for directive in _WITHIN_A_DAY)
    return time.epoch == DAYS or not (time.epoch or time.zone or has_time)


def _separate_types(epoch: str, typed_by: str) -> str:
    """What to do if one column has both dates and timestamps, but one epoch."""
    if typed_by:
        return f"{typed_by} distinguishes them by itself. Remove epoch, and declare BIGINT for plain numbers."
    if epoch == DAYS:
        return "Declare BIGINT in place of TIMESTAMP, which keeps the number."
    return "Declare INT in place of DATE, which keeps the number of days since 1970."


def _format_problems(column: Column, type_: str) -> Iterator[Problem]:
    alternatives = (DAYS, "a TIMESTAMP") if type_ == "DATE" else (*EPOCHS, "a DATE")
    epoch, pattern = column.time.epoch, column.time.pattern
    if epoch is not None and epoch not in alternatives:
        message = f"epoch is {epoch}, but the column is a {column.type}"
        yield message, f"Declare {', '.join(alternatives[:-1])} or {alternatives[-1]}."
    if pattern and pattern != ISO8601:
        yield from _pattern_problems(pattern, type_)


def _pattern_problems(pattern: str, type_: str) -> Iterator[Problem]:
    supported = ", ".join(TIME_SHAPES)
    directives = Counter(re.findall("%.?", pattern, re.DOTALL))
    for directive, count in directives.items():
        if directive not in TIME_SHAPES:
            action = f"Use only {supported}, or Time({ISO8601!r}) for all forms of ISO 8601. {_OR_STRING}"
            yield f"the pattern contains {directive}, which is not supported", action
        elif count > 1:
            yield f"the pattern contains {directive} twice", "Write each part of a time once."
        elif type_ == "DATE" and directive in _WITHIN_A_DAY:
            yield f"the pattern contains {directive}, which a DATE drops", _KEEP_HOURS
    if "%m" in directives and MONTH_NAME in directives:
        yield f"the pattern contains %m and {MONTH_NAME}", "Write the month once: as a number, or as its name."
    if not is_text(pattern):
        yield "the pattern is not valid UTF-8", "Write a pattern that a record can match."
    if "%Y" not in directives:
        action = f"Without a year, every time would be in 1900. Add %Y, or declare Time({ISO8601!r}). {_OR_STRING}"
        yield "the pattern contains no %Y", action
    yield from _gap_problems({*directives, *(["%m"] if MONTH_NAME in directives else [])})


def _gap_problems(directives: Container[str]) -> Iterator[Problem]:
    for coarser, finer in pairwise(directive for directive in TIME_SHAPES if directive not in (MONTH_NAME, UTC_OFFSET)):
        if finer in directives and coarser not in directives:
            yield (
                f"the pattern contains {finer} but no {coarser}",
                f"Each part of a time requires the next larger one. Add {coarser}.",
            )
