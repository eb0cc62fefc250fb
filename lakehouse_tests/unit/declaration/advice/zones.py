"""Offsets, time zones and halves of a day in patterns, and declared time zones."""

from datetime import UTC, datetime

from lakehouse.declaration import Time, Zone
from lakehouse_tests.unit.declaration.advice.example import Example, of_column, reads
from lakehouse_tests.unit.declaration.ratings import with_column

SECOND = datetime(1970, 1, 2, tzinfo=UTC)
"""The second day of 1970."""
DECLARE_STRING = "Declare STRING without a pattern."
EXAMPLES = [
    Example(
        "column n: zone is 'required', but no text that the column reads has an offset",
        "Declare Time('iso8601', zone='required'), or a pattern with %z and no zone.",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M", zone="required")),
        reads("1970-01-02T01:00+01:00", SECOND, type_="TIMESTAMP", written=Time("iso8601", zone="required")),
        reads("1970-01-02 01:00+01:00", SECOND, type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M%z")),
    ),
    Example(
        "column n: the pattern contains the offset +02:00",
        "Write %z in its place. It reads Z, +02:00, +0200 and +02.",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%dT%H:%M+02:00")),
        reads("1970-01-02T02:00+02:00", SECOND, type_="TIMESTAMP", written=Time("%Y-%m-%dT%H:%M%z")),
    ),
    Example(
        "column n: the pattern contains PM, so the time is not on a 24-hour clock",
        f"Hours are read from 00 to 23. {DECLARE_STRING}",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M PM")),
        reads("1970-01-02 11:00 PM", "1970-01-02 11:00 PM", type_="STRING"),
    ),
    Example(
        "column n: the pattern contains CET, which is the time of a part of the year",
        f"If the texts also have an offset, add %z. {DECLARE_STRING}",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M CET", zone="Europe/Berlin")),
        reads("1970-01-02 01:00 +0100 CET", SECOND, type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M %z CET")),
        reads("1970-01-02 01:00 CET", "1970-01-02 01:00 CET", type_="STRING"),
    ),
    Example(
        "column n: the pattern contains JST, so the time is not in UTC",
        "Declare the time zone too, for example zone='Asia/Tokyo' of Time for JST.",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M JST")),
        reads("1970-01-02 09:00 JST", SECOND, type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M JST", zone="Asia/Tokyo")),
    ),
    of_column(
        "the pattern contains digits right after %z, so its end is not certain",
        f"Write %z at the end, or before another character. {DECLARE_STRING}",
        reads("1970-01-02 +0100", "1970-01-02 +0100", type_="STRING"),
        type_="TIMESTAMP",
        written=[Time("%Y-%m-%d %z%H"), Time("%Y-%m-%d %H%z"), Time("%Y-%m-%d %z %H")],
    ),
    of_column(
        "zone is only allowed for a TIMESTAMP, but the column is DATE",
        "Declare TIMESTAMP, or remove zone.",
        with_column(type_="DATE", written=Time("iso8601")),
        written=Time("iso8601", zone="Europe/Berlin"),
        type_=["DATE", "TIMESTAMP"],
    ),
    of_column(
        "zone and epoch cannot be combined",
        "A number counts from 1970 in UTC. Remove zone.",
        type_="TIMESTAMP",
        written=[Time(epoch="seconds", zone="Europe/Berlin"), Time(epoch="seconds")],
    ),
    Example(
        "column n: unknown zone 'Europe/Berln'",
        "Did you mean Europe/Berlin? Write a name of the tz database, for example Europe/Berlin. UTC+2 without "
        "summer time is Etc/GMT-2.",
        with_column(type_="TIMESTAMP", written=Time("iso8601", zone=Zone("Europe/Berln"))),
        reads("1970-01-02T01:00", SECOND, type_="TIMESTAMP", written=Time("iso8601", zone=Zone("Europe/Berlin"))),
        reads("1970-01-02T02:00", SECOND, type_="TIMESTAMP", written=Time("iso8601", zone="Etc/GMT-2")),
    ),
    of_column(
        "zone and %z cannot be combined",
        "With %z, every text has its offset. Remove zone.",
        type_="TIMESTAMP",
        written=[Time("%Y-%m-%d %H:%M%z", zone="Europe/Berlin"), Time("%Y-%m-%d %H:%M%z")],
    ),
    of_column(
        "the pattern contains Z, which is UTC, but zone is Europe/Berlin",
        "Remove zone.",
        type_="TIMESTAMP",
        written=[Time("%Y-%m-%dT%H:%M:%SZ", zone="Europe/Berlin"), Time("%Y-%m-%dT%H:%M:%SZ")],
    ),
]
