"""Times: how they are written, and where one column has times of two kinds."""

from datetime import UTC, datetime, timedelta

from lakehouse.declaration import Avro, BrokerTime, Late
from lakehouse_tests.unit.declaration.advice.example import Example, read
from lakehouse_tests.unit.declaration.ratings import column, more, one

SECOND = datetime(1970, 1, 2, tzinfo=UTC)
"""The second day of 1970."""
BY_DAY = column("day", "DATE", sql="CAST(rated_at AS DATE)")
TOLD_AT = column("told_at", "TIMESTAMP", source=BrokerTime())
EXAMPLES = [
    Example(
        "column n: a broker time is a TIMESTAMP as it is",
        "Declare that type, and neither pattern, epoch nor null_values.",
        one(type_="TIMESTAMP", source=BrokerTime(), epoch="seconds"),
        one(type_="TIMESTAMP", source=BrokerTime()),
    ),
    Example(
        "column n: a broker time is a TIMESTAMP as it is",
        "Declare that type, and neither pattern, epoch nor null_values.",
        one(source=BrokerTime()),
        one(type_="TIMESTAMP", source=BrokerTime()),
    ),
    Example(
        "column n: a time needs a pattern",
        "Declare how it is written, as pattern='%Y-%m-%dT%H:%M', or epoch='seconds' where it is a number.",
        one(type_="TIMESTAMP"),
        read(one(type_="TIMESTAMP", pattern="%Y-%m-%dT%H:%M"), {"n": "1970-01-02T00:00"}, n=SECOND),
        read(one(type_="TIMESTAMP", epoch="seconds"), {"n": 86400}, n=SECOND),
    ),
    Example(
        "column n: a time needs a pattern",
        "Declare how it is written, as pattern='%Y-%m-%d', or epoch='days' where it is a number.",
        one(type_="DATE"),
        read(one(type_="DATE", pattern="%Y-%m-%d"), {"n": "1970-01-02"}, n=SECOND.date()),
        read(one(type_="DATE", epoch="days"), {"n": 1}, n=SECOND.date()),
    ),
    Example(
        "column n: a time needs a pattern",
        (
            "Declare how it is written, as pattern='%Y-%m-%d' where both are written so, STRING in place of DATE "
            "with pattern='%Y-%m-%dT%H:%M', or INT with epoch='seconds'."
        ),
        one(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>"),
        read(
            one(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>", pattern="%Y-%m-%d"),
            {"n": [{"d": "1970-01-02", "t": "1970-01-02"}]},
            n=[{"d": SECOND.date(), "t": SECOND}],
        ),
        read(
            one(type_="ARRAY<STRUCT<d: STRING, t: TIMESTAMP>>", pattern="%Y-%m-%dT%H:%M"),
            {"n": [{"d": "1970-01-02", "t": "1970-01-02T00:00"}]},
            n=[{"d": "1970-01-02", "t": SECOND}],
        ),
        read(
            one(type_="ARRAY<STRUCT<d: INT, t: TIMESTAMP>>", epoch="seconds"),
            {"n": [{"d": 1, "t": 86400}]},
            n=[{"d": 1, "t": SECOND}],
        ),
    ),
    Example(
        "column n: no epoch is one of days and of moments",
        "Declare INT in place of DATE: it stays a number of days since 1970.",
        one(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>", epoch="seconds"),
        read(
            one(type_="ARRAY<STRUCT<d: INT, t: TIMESTAMP>>", epoch="seconds"),
            {"n": [{"d": 1, "t": 86400}]},
            n=[{"d": 1, "t": SECOND}],
        ),
    ),
    Example(
        "column n: no epoch is one of days and of moments",
        "Declare BIGINT in place of TIMESTAMP: it stays the number that it is.",
        one(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>", epoch="days"),
        read(
            one(type_="ARRAY<STRUCT<d: DATE, t: BIGINT>>", epoch="days"),
            {"n": [{"d": 1, "t": 86400}]},
            n=[{"d": SECOND.date(), "t": 86400}],
        ),
    ),
    Example(
        "column n: no epoch is one of days and of moments",
        "Avro tells which is which: leave epoch out, and declare BIGINT for what is a plain number.",
        more(column(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>", epoch="seconds"), format=Avro()),
        more(column(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>"), format=Avro()),
        more(column(type_="ARRAY<STRUCT<d: DATE, t: BIGINT>>"), format=Avro()),
    ),
    Example(
        "column n: pattern is for a TIMESTAMP or DATE",
        "Declare a DATE, or leave pattern out.",
        one(pattern="%Y-%m-%d"),
        one(type_="DATE", pattern="%Y-%m-%d"),
        one(),
    ),
    Example(
        "column n: epoch is for a TIMESTAMP or DATE",
        "Declare a TIMESTAMP, or leave epoch out.",
        one(epoch="seconds"),
        one(type_="TIMESTAMP", epoch="seconds"),
        one(),
    ),
    Example(
        "column n: epoch is for a TIMESTAMP or DATE",
        "Declare a DATE, or leave epoch out.",
        one(epoch="days"),
        one(type_="DATE", epoch="days"),
        one(),
    ),
    Example(
        "column n: pattern or epoch, not both",
        "A time is a text or a number: leave one out.",
        one(type_="TIMESTAMP", pattern="%Y", epoch="seconds"),
        one(type_="TIMESTAMP", pattern="%Y"),
        one(type_="TIMESTAMP", epoch="seconds"),
    ),
    Example(
        "column n: its epoch is days, and it is a TIMESTAMP",
        "Declare seconds or milliseconds or microseconds or a DATE.",
        one(type_="TIMESTAMP", epoch="days"),
        read(one(type_="TIMESTAMP", epoch="seconds"), {"n": 86400}, n=SECOND),
        one(type_="TIMESTAMP", epoch="milliseconds"),
        one(type_="TIMESTAMP", epoch="microseconds"),
        read(one(type_="DATE", epoch="days"), {"n": 1}, n=SECOND.date()),
    ),
    Example(
        "column n: its epoch is seconds, and it is a DATE",
        "Declare days or a TIMESTAMP.",
        one(type_="DATE", epoch="seconds"),
        read(one(type_="DATE", epoch="days"), {"n": 1}, n=SECOND.date()),
        read(one(type_="TIMESTAMP", epoch="seconds"), {"n": 86400}, n=SECOND),
    ),
    Example(
        "column n: its pattern has %z, which no time matches",
        (
            "Write it with %Y, %m, %d, %H, %M, %S, %f; of a time that is written otherwise, declare a STRING without "
            "a pattern."
        ),
        one(type_="TIMESTAMP", pattern="%Y-%m-%dT%H:%M%z"),
        one(type_="TIMESTAMP", pattern="%Y-%m-%dT%H:%M"),
        read(one(type_="STRING"), {"n": "1970-01-02T00:00+0100"}, n="1970-01-02T00:00+0100"),
    ),
    Example(
        "column n: its pattern has %Y twice",
        "A part of a time stands once.",
        one(type_="TIMESTAMP", pattern="%Y %Y"),
        one(type_="TIMESTAMP", pattern="%Y"),
    ),
    Example(
        "column n: its pattern has %H, and a DATE drops it",
        "Declare TIMESTAMP in place of DATE, or STRING where it is written in another way.",
        one(type_="DATE", pattern="%Y-%m-%d %H"),
        read(one(type_="TIMESTAMP", pattern="%Y-%m-%d %H"), {"n": "1970-01-02 00"}, n=SECOND),
    ),
    Example(
        "column n: its pattern has %H, and a DATE drops it",
        "Declare TIMESTAMP in place of DATE, or STRING where it is written in another way.",
        one(type_="STRUCT<d: DATE, t: TIMESTAMP>", pattern="%Y-%m-%d %H"),
        one(type_="STRUCT<d: TIMESTAMP, t: TIMESTAMP>", pattern="%Y-%m-%d %H"),
        read(
            one(type_="STRUCT<d: STRING, t: TIMESTAMP>", pattern="%Y-%m-%d %H"),
            {"n": {"d": "1970-01-02", "t": "1970-01-02 00"}},
            n={"d": "1970-01-02", "t": SECOND},
        ),
    ),
    Example(
        "column n: its pattern is no text in UTF-8",
        "Write one that a record can have.",
        one(type_="TIMESTAMP", pattern="%Y\ud800"),
        one(type_="TIMESTAMP", pattern="%Y"),
    ),
    Example(
        "column n: its pattern has no %Y",
        (
            "Without its year a time would lie in 1900: add it; of a time that is written otherwise, declare a "
            "STRING without a pattern."
        ),
        one(type_="DATE", pattern="%m-%d"),
        one(type_="DATE", pattern="%Y-%m-%d"),
        read(one(type_="STRING"), {"n": "01-02"}, n="01-02"),
    ),
    Example(
        "column n: its pattern has %M and no %H",
        "A part of a time needs the one it is a part of: add %H.",
        one(type_="TIMESTAMP", pattern="%Y-%m-%d %M"),
        one(type_="TIMESTAMP", pattern="%Y-%m-%d %H:%M"),
    ),
    Example(
        "column n: its pattern has the offset +02:00",
        (
            "Times are read as UTC: have them written so; of a time that is written otherwise, declare a STRING "
            "without a pattern."
        ),
        one(type_="TIMESTAMP", pattern="%Y-%m-%dT%H:%M+02:00"),
        one(type_="TIMESTAMP", pattern="%Y-%m-%dT%H:%M"),
        read(one(type_="STRING"), {"n": "1970-01-02T00:00+02:00"}, n="1970-01-02T00:00+02:00"),
    ),
    Example(
        "column n: its pattern has PM, which says that a time is another one in UTC, or on a clock of 24 hours",
        (
            "Times are read as UTC, by such a clock: have them written so; of a time that is written otherwise, "
            "declare a STRING without a pattern."
        ),
        one(type_="TIMESTAMP", pattern="%Y-%m-%d %H:%M PM"),
        one(type_="TIMESTAMP", pattern="%Y-%m-%d %H:%M"),
        read(one(type_="STRING"), {"n": "1970-01-02 11:00 PM"}, n="1970-01-02 11:00 PM"),
    ),
    Example(
        "late needs a TIMESTAMP or DATE column",
        "stars is none: name one.",
        more(late=Late("stars", timedelta(1))),
        more(late=Late("rated_at", timedelta(1))),
    ),
    Example(
        "late: day is computed, and a record is judged before that",
        "Name the column that tells when it happened.",
        more(BY_DAY, late=Late("day", timedelta(1))),
        more(BY_DAY, late=Late("rated_at", timedelta(1))),
    ),
    Example(
        "late: told_at is the broker's time itself, and no record is late by it",
        "Name the column that tells when it happened.",
        more(TOLD_AT, late=Late("told_at", timedelta(1))),
        more(TOLD_AT, late=Late("rated_at", timedelta(1))),
    ),
    Example(
        "late: after is less than nothing",
        "Declare how long after its event a record may come.",
        more(late=Late("rated_at", timedelta(-1))),
        more(late=Late("rated_at", timedelta(1))),
    ),
]
