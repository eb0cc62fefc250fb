"""Times: patterns and epochs, columns with both DATE and TIMESTAMP, and lateness."""

from datetime import UTC, datetime, timedelta

from lakehouse.declaration import Avro, BrokerTime, Late, Time
from lakehouse_tests.unit.declaration.advice.example import Example, accept
from lakehouse_tests.unit.declaration.ratings import column, computed, with_column, with_columns

SECOND = datetime(1970, 1, 2, tzinfo=UTC)
"""The second day of 1970."""
BY_DAY = computed("CAST(rated_at AS DATE)", "day", "DATE")
SENT_AT = column("sent_at", "TIMESTAMP", source=BrokerTime())
EXAMPLES = [
    Example(
        "column n: written is not allowed for a broker time",
        "Remove written: its values are as they are.",
        with_column(type_="TIMESTAMP", source=BrokerTime(), written=Time(epoch="seconds")),
        with_column(type_="TIMESTAMP", source=BrokerTime()),
    ),
    Example(
        "column n: a broker time cannot be INT",
        "Declare TIMESTAMP.",
        with_column(source=BrokerTime()),
        with_column(type_="TIMESTAMP", source=BrokerTime()),
    ),
    Example(
        "column n: a time requires a pattern or an epoch",
        "Declare its format, for example written=Time('iso8601'), or written=Time(epoch='seconds') if it is a number.",
        with_column(type_="TIMESTAMP"),
        accept(with_column(type_="TIMESTAMP", written=Time("iso8601")), {"n": "1970-01-02T01:00+01:00"}, n=SECOND),
        accept(with_column(type_="TIMESTAMP", written=Time(epoch="seconds")), {"n": 86400}, n=SECOND),
    ),
    Example(
        "column n: a time requires a pattern or an epoch",
        "Declare its format, for example written=Time('iso8601'), or written=Time(epoch='days') if it is a number.",
        with_column(type_="DATE"),
        accept(with_column(type_="DATE", written=Time("iso8601")), {"n": "1970-01-02"}, n=SECOND.date()),
        accept(with_column(type_="DATE", written=Time(epoch="days")), {"n": 1}, n=SECOND.date()),
    ),
    Example(
        "column n: a time requires a pattern or an epoch",
        (
            "Declare its format, for example written=Time('iso8601'). For numbers, declare INT in place of DATE"
            " with Time(epoch='seconds')."
        ),
        with_column(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>"),
        accept(
            with_column(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>", written=Time("iso8601")),
            {"n": [{"d": "1970-01-02", "t": "1970-01-02T00:00Z"}]},
            n=[{"d": SECOND.date(), "t": SECOND}],
        ),
        accept(
            with_column(type_="ARRAY<STRUCT<d: INT, t: TIMESTAMP>>", written=Time(epoch="seconds")),
            {"n": [{"d": 1, "t": 86400}]},
            n=[{"d": 1, "t": SECOND}],
        ),
    ),
    Example(
        "column n: one epoch cannot serve both DATE and TIMESTAMP",
        "Declare INT in place of DATE, which keeps the number of days since 1970.",
        with_column(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>", written=Time(epoch="seconds")),
        accept(
            with_column(type_="ARRAY<STRUCT<d: INT, t: TIMESTAMP>>", written=Time(epoch="seconds")),
            {"n": [{"d": 1, "t": 86400}]},
            n=[{"d": 1, "t": SECOND}],
        ),
    ),
    Example(
        "column n: one epoch cannot serve both DATE and TIMESTAMP",
        "Declare BIGINT in place of TIMESTAMP, which keeps the number.",
        with_column(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>", written=Time(epoch="days")),
        accept(
            with_column(type_="ARRAY<STRUCT<d: DATE, t: BIGINT>>", written=Time(epoch="days")),
            {"n": [{"d": 1, "t": 86400}]},
            n=[{"d": SECOND.date(), "t": 86400}],
        ),
    ),
    Example(
        "column n: one epoch cannot serve both DATE and TIMESTAMP",
        "Avro distinguishes them by itself. Remove epoch, and declare BIGINT for plain numbers.",
        with_columns(
            column(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>", written=Time(epoch="seconds")), format=Avro()
        ),
        with_columns(column(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>"), format=Avro()),
        with_columns(column(type_="ARRAY<STRUCT<d: DATE, t: BIGINT>>"), format=Avro()),
    ),
    Example(
        "column n: Time is only allowed for a TIMESTAMP or DATE",
        "Declare a DATE, or remove written.",
        with_column(written=Time("%Y-%m-%d")),
        with_column(type_="DATE", written=Time("%Y-%m-%d")),
        with_column(),
    ),
    Example(
        "column n: Time is only allowed for a TIMESTAMP or DATE",
        "Declare a TIMESTAMP, or remove written.",
        with_column(written=Time(epoch="seconds")),
        with_column(type_="TIMESTAMP", written=Time(epoch="seconds")),
        with_column(),
    ),
    Example(
        "column n: Time is only allowed for a TIMESTAMP or DATE",
        "Declare a DATE, or remove written.",
        with_column(written=Time(epoch="days")),
        with_column(type_="DATE", written=Time(epoch="days")),
        with_column(),
    ),
    Example(
        "column n: pattern and epoch cannot be combined",
        "A time is either text or a number. Remove one of the two.",
        with_column(type_="TIMESTAMP", written=Time("%Y", epoch="seconds")),
        with_column(type_="TIMESTAMP", written=Time("%Y")),
        with_column(type_="TIMESTAMP", written=Time(epoch="seconds")),
    ),
    Example(
        "column n: epoch is days, but the column is a TIMESTAMP",
        "Declare seconds, milliseconds, microseconds, nanoseconds or a DATE.",
        with_column(type_="TIMESTAMP", written=Time(epoch="days")),
        accept(with_column(type_="TIMESTAMP", written=Time(epoch="seconds")), {"n": 86400}, n=SECOND),
        with_column(type_="TIMESTAMP", written=Time(epoch="milliseconds")),
        with_column(type_="TIMESTAMP", written=Time(epoch="microseconds")),
        accept(with_column(type_="TIMESTAMP", written=Time(epoch="nanoseconds")), {"n": 86400 * 10**9}, n=SECOND),
        accept(with_column(type_="DATE", written=Time(epoch="days")), {"n": 1}, n=SECOND.date()),
    ),
    Example(
        "column n: epoch is seconds, but the column is a DATE",
        "Declare days or a TIMESTAMP.",
        with_column(type_="DATE", written=Time(epoch="seconds")),
        accept(with_column(type_="DATE", written=Time(epoch="days")), {"n": 1}, n=SECOND.date()),
        accept(with_column(type_="TIMESTAMP", written=Time(epoch="seconds")), {"n": 86400}, n=SECOND),
    ),
    Example(
        "column n: the pattern contains %Z, which is not supported",
        (
            "Use only %Y, %m, %b, %d, %H, %M, %S, %f, %z, or Time('iso8601') for all forms of ISO 8601. For "
            "times in another format, declare STRING without a pattern."
        ),
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%dT%H:%M%Z")),
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%dT%H:%M")),
        accept(with_column(type_="TIMESTAMP", written=Time("iso8601")), {"n": "1970-01-02T01:00+0100"}, n=SECOND),
        accept(with_column(type_="STRING"), {"n": "1970-01-02T00:00 CET"}, n="1970-01-02T00:00 CET"),
    ),
    Example(
        "column n: the pattern contains %m and %b",
        "Write the month once: as a number, or as its name.",
        with_column(type_="DATE", written=Time("%d %b %Y %m")),
        accept(with_column(type_="DATE", written=Time("%d %b %Y")), {"n": "02 Jan 1970"}, n=SECOND.date()),
        accept(with_column(type_="DATE", written=Time("%d %m %Y")), {"n": "02 01 1970"}, n=SECOND.date()),
    ),
    Example(
        "column n: the pattern contains %Y twice",
        "Write each part of a time once.",
        with_column(type_="TIMESTAMP", written=Time("%Y %Y")),
        with_column(type_="TIMESTAMP", written=Time("%Y")),
    ),
    Example(
        "column n: the pattern contains %H, which a DATE drops",
        "Declare TIMESTAMP in place of DATE, or STRING if it has another format.",
        with_column(type_="DATE", written=Time("%Y-%m-%d %H")),
        accept(with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H")), {"n": "1970-01-02 00"}, n=SECOND),
    ),
    Example(
        "column n: the pattern contains %H, which a DATE drops",
        "Declare TIMESTAMP in place of DATE, or STRING if it has another format.",
        with_column(type_="STRUCT<d: DATE, t: TIMESTAMP>", written=Time("%Y-%m-%d %H")),
        with_column(type_="STRUCT<d: TIMESTAMP, t: TIMESTAMP>", written=Time("%Y-%m-%d %H")),
        accept(
            with_column(type_="STRUCT<d: STRING, t: TIMESTAMP>", written=Time("%Y-%m-%d %H")),
            {"n": {"d": "1970-01-02", "t": "1970-01-02 00"}},
            n={"d": "1970-01-02", "t": SECOND},
        ),
    ),
    Example(
        "column n: the pattern is not valid UTF-8",
        "Write a pattern that a record can match.",
        with_column(type_="TIMESTAMP", written=Time("%Y\ud800")),
        with_column(type_="TIMESTAMP", written=Time("%Y")),
    ),
    Example(
        "column n: the pattern contains no %Y",
        (
            "Without a year, every time would be in 1900. Add %Y, or declare Time('iso8601'). For times in "
            "another format, declare STRING without a pattern."
        ),
        with_column(type_="DATE", written=Time("%m-%d")),
        with_column(type_="DATE", written=Time("%Y-%m-%d")),
        with_column(type_="DATE", written=Time("iso8601")),
        accept(with_column(type_="STRING"), {"n": "01-02"}, n="01-02"),
    ),
    Example(
        "column n: the pattern contains %M but no %H",
        "Each part of a time requires the next larger one. Add %H.",
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %M")),
        with_column(type_="TIMESTAMP", written=Time("%Y-%m-%d %H:%M")),
    ),
    Example(
        "late requires a TIMESTAMP or DATE column",
        "Replace stars with such a column.",
        with_columns(late=Late("stars", timedelta(1))),
        with_columns(late=Late("rated_at", timedelta(1))),
    ),
    Example(
        "late: column day is computed, but lateness is decided before that",
        "Name the column that contains the event time.",
        with_columns(BY_DAY, late=Late("day", timedelta(1))),
        with_columns(BY_DAY, late=Late("rated_at", timedelta(1))),
    ),
    Example(
        "late: column sent_at is the broker's own time, by which no record is late",
        "Name the column that contains the event time.",
        with_columns(SENT_AT, late=Late("sent_at", timedelta(1))),
        with_columns(SENT_AT, late=Late("rated_at", timedelta(1))),
    ),
    Example(
        "late: after is negative",
        "Declare how long after its event a record may arrive.",
        with_columns(late=Late("rated_at", timedelta(-1))),
        with_columns(late=Late("rated_at", timedelta(1))),
    ),
]
