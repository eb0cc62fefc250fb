"""The rules of time zones, and of offsets and zones in patterns. Each rule yields what is wrong, and what to do."""

import re
from collections.abc import Iterator
from functools import cache
from zoneinfo import available_timezones

from lakehouse.declaration.misspelt import spelling_hint
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.nested_types import plain_types
from lakehouse.decoding.time_texts import ISO8601, UTC_OFFSET
from lakehouse.decoding.zones import REQUIRED, Zone, zone_of

_OFFSET_FORMS = "It reads Z, +02:00, +0200 and +02."
_STRING = "Declare STRING without a pattern."
_OF_ONE_MACHINE = {"localtime", "Factory"}  # names whose meaning is not that of the tz database
_OFFSET_BEFORE_DIGITS = re.compile(rf"{UTC_OFFSET}(%[YmdHMSf]|\d)")
_FIXED_OFFSET = re.compile(r"%[HMSf].*?([+-](?=[\d:]*[1-9])\d{1,2}(:?\d\d)?)(?![\d:])", re.DOTALL)
_UTC = re.compile(r"(?<![A-Za-z])(Z|UTC|GMT)(?![A-Za-z])|[+-]00(:?00)?(?![\d:])")
_HALF_DAY = re.compile(r"(?<![A-Za-z])([AP]M|[ap]m)(?![A-Za-z])")
_SUMMER_OR_WINTER = re.compile(r"(?<![A-Za-z])([ACEMP][SD]T|[CEW]ES?T|BST)(?![A-Za-z])")
_ZONE_NAME = re.compile(r"(?<![A-Za-z])([IJK]ST|MSK|\w+/\w+)(?![A-Za-z])")


def zone_problems(column: Column) -> Iterator[Problem]:
    """What is wrong with the time zone of a column."""
    zone = zone_of(column.zone)
    if zone is None:
        return
    if "TIMESTAMP" not in plain_types(column.type):
        yield (
            f"zone is only allowed for a TIMESTAMP, but the column is {column.type}",
            "Declare TIMESTAMP, or remove zone.",
        )
    if column.epoch is not None:
        yield "zone and epoch cannot be combined", "A number counts from 1970 in UTC. Remove zone."
    if zone.name == REQUIRED:
        if column.pattern != ISO8601 and UTC_OFFSET not in (column.pattern or ""):
            message = f"zone is {REQUIRED!r}, but no text that the column reads has an offset"
            yield message, f"Declare pattern={ISO8601!r}, or a pattern with {UTC_OFFSET} and no zone."
    elif zone.name not in _zone_names():
        advice = "Write a name of the tz database, for example Europe/Berlin. UTC+2 without summer time is Etc/GMT-2."
        yield f"unknown zone {zone.name!r}", f"{spelling_hint(zone.name, _zone_names())}{advice}"
    if column.pattern:
        yield from _combined_problems(column.pattern, zone)


def _combined_problems(pattern: str, zone: Zone) -> Iterator[Problem]:
    """Patterns of which every text says its offset itself."""
    if UTC_OFFSET in pattern:
        yield f"zone and {UTC_OFFSET} cannot be combined", f"With {UTC_OFFSET}, every text has its offset. Remove zone."
    utc = _UTC.search(_after_hour(pattern))
    if utc:
        yield f"the pattern contains {utc[0]}, which is UTC, but zone is {zone.name}", "Remove zone."


def offset_problems(pattern: str, *, has_zone: bool) -> Iterator[Problem]:
    """Offsets, zones and halves of a day that a pattern contains as plain characters."""
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
        yield message, "Declare the time zone too, for example zone='Asia/Tokyo' for JST."
    if _OFFSET_BEFORE_DIGITS.search(pattern):
        message = f"the pattern contains digits right after {UTC_OFFSET}, so its end is not certain"
        yield message, f"Write {UTC_OFFSET} at the end, or before another character. {_STRING}"


def _after_hour(pattern: str) -> str:
    """What follows the hour in a pattern, without the letters of directives."""
    return re.sub("%.", "%", pattern.partition("%H")[2])


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones() - _OF_ONE_MACHINE)
