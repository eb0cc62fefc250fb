"""Offsets, time zones and halves of a day in patterns, and declared time zones."""

from datetime import UTC, datetime

from lakehouse.declaration import Time, Zone
from lakehouse_tests.unit.declaration.advice.example import Example, accept
from lakehouse_tests.unit.declaration.ratings import with_column

SECOND = datetime(1970, 1, 2, tzinfo=UTC)
"""The second day of 1970."""
DECLARE_STRING = "Declare STRING without a pattern."
EXAMPLES = [
    Example(
        "column n: zone is 'required', but no text that the column reads has an offset",
        "Declare Time('iso8601', zone='required'), or a pattern with %z and no zone.",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M", zone="required")),
        accept(
            with_column(type_="TIMESTAMP", written=Time("iso8601", zone="required")),
            {"n": "1970-01-02T01:00+01:00"},
            n=SECOND,
        ),
        accept(
            with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M%z")),
            {"n": "1970-01-02 01:00+01:00"},
            n=SECOND,
        ),
    ),
    Example(
        "column n: the pattern contains the offset +02:00",
        "Write %z in its place. It reads Z, +02:00, +0200 and +02.",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%dT%H:%M+02:00")),
        accept(
            with_column(type_="TIMESTAMP", written=Time("%Y-%m-%dT%H:%M%z")),
            {"n": "1970-01-02T02:00+02:00"},
            n=SECOND,
        ),
    ),
    Example(
        "column n: the pattern contains PM, so the time is not on a 24-hour clock",
        f"Hours are read from 00 to 23. {DECLARE_STRING}",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M PM")),
        accept(with_column(type_="STRING"), {"n": "1970-01-02 11:00 PM"}, n="1970-01-02 11:00 PM"),
    ),
    Example(
        "column n: the pattern contains CET, which is the time of a part of the year",
        f"If the texts also have an offset, add %z. {DECLARE_STRING}",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M CET", zone="Europe/Berlin")),
        accept(
            with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M %z CET")),
            {"n": "1970-01-02 01:00 +0100 CET"},
            n=SECOND,
        ),
        accept(with_column(type_="STRING"), {"n": "1970-01-02 01:00 CET"}, n="1970-01-02 01:00 CET"),
    ),
    Example(
        "column n: the pattern contains JST, so the time is not in UTC",
        "Declare the time zone too, for example zone='Asia/Tokyo' of Time for JST.",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M JST")),
        accept(
            with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M JST", zone="Asia/Tokyo")),
            {"n": "1970-01-02 09:00 JST"},
            n=SECOND,
        ),
    ),
    Example(
        "column n: the pattern contains digits right after %z, so its end is not certain",
        f"Write %z at the end, or before another character. {DECLARE_STRING}",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %z%H")),
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H%z")),
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %z %H")),
        accept(with_column(type_="STRING"), {"n": "1970-01-02 +0100"}, n="1970-01-02 +0100"),
    ),
    Example(
        "column n: zone is only allowed for a TIMESTAMP, but the column is DATE",
        "Declare TIMESTAMP, or remove zone.",
        with_column(type_="DATE", written=Time("iso8601", zone="Europe/Berlin")),
        with_column(type_="TIMESTAMP", written=Time("iso8601", zone="Europe/Berlin")),
        with_column(type_="DATE", written=Time("iso8601")),
    ),
    Example(
        "column n: zone and epoch cannot be combined",
        "A number counts from 1970 in UTC. Remove zone.",
        with_column(type_="TIMESTAMP", written=Time(epoch="seconds", zone="Europe/Berlin")),
        with_column(type_="TIMESTAMP", written=Time(epoch="seconds")),
    ),
    Example(
        "column n: unknown zone 'Europe/Berln'",
        (
            "Did you mean Europe/Berlin? Write a name of the tz database, for example Europe/Berlin. UTC+2 without "
            "summer time is Etc/GMT-2."
        ),
        with_column(type_="TIMESTAMP", written=Time("iso8601", zone=Zone("Europe/Berln"))),
        accept(
            with_column(type_="TIMESTAMP", written=Time("iso8601", zone=Zone("Europe/Berlin"))),
            {"n": "1970-01-02T01:00"},
            n=SECOND,
        ),
        accept(
            with_column(type_="TIMESTAMP", written=Time("iso8601", zone="Etc/GMT-2")),
            {"n": "1970-01-02T02:00"},
            n=SECOND,
        ),
    ),
    Example(
        "column n: zone and %z cannot be combined",
        "With %z, every text has its offset. Remove zone.",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M%z", zone="Europe/Berlin")),
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M%z")),
    ),
    Example(
        "column n: the pattern contains Z, which is UTC, but zone is Europe/Berlin",
        "Remove zone.",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%dT%H:%M:%SZ", zone="Europe/Berlin")),
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%dT%H:%M:%SZ")),
    ),
]
