"""Times: patterns and epochs, columns with both DATE and TIMESTAMP, and lateness."""

from datetime import UTC, datetime, timedelta

from lakehouse.declaration import Avro, BrokerTime, Late, Time
from lakehouse_tests.unit.declaration.advice.example import Example, of_column, of_table, reads
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
        reads("1970-01-02T01:00+01:00", SECOND, type_="TIMESTAMP", written=Time("iso8601")),
        reads(86400, SECOND, type_="TIMESTAMP", written=Time(epoch="seconds")),
    ),
    Example(
        "column n: a time requires a pattern or an epoch",
        "Declare its format, for example written=Time('iso8601'), or written=Time(epoch='days') if it is a number.",
        with_column(type_="DATE"),
        reads("1970-01-02", SECOND.date(), type_="DATE", written=Time("iso8601")),
        reads(1, SECOND.date(), type_="DATE", written=Time(epoch="days")),
    ),
    Example(
        "column n: a time requires a pattern or an epoch",
        "Declare its format, for example written=Time('iso8601'). For numbers, declare INT in place of DATE"
        " with Time(epoch='seconds').",
        with_column(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>"),
        reads(
            [{"d": "1970-01-02", "t": "1970-01-02T00:00Z"}],
            [{"d": SECOND.date(), "t": SECOND}],
            type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>",
            written=Time("iso8601"),
        ),
        reads(
            [{"d": 1, "t": 86400}],
            [{"d": 1, "t": SECOND}],
            type_="ARRAY<STRUCT<d: INT, t: TIMESTAMP>>",
            written=Time(epoch="seconds"),
        ),
    ),
    Example(
        "column n: one epoch cannot serve both DATE and TIMESTAMP",
        "Declare INT in place of DATE, which keeps the number of days since 1970.",
        with_column(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>", written=Time(epoch="seconds")),
        reads(
            [{"d": 1, "t": 86400}],
            [{"d": 1, "t": SECOND}],
            type_="ARRAY<STRUCT<d: INT, t: TIMESTAMP>>",
            written=Time(epoch="seconds"),
        ),
    ),
    Example(
        "column n: one epoch cannot serve both DATE and TIMESTAMP",
        "Declare BIGINT in place of TIMESTAMP, which keeps the number.",
        with_column(type_="ARRAY<STRUCT<d: DATE, t: TIMESTAMP>>", written=Time(epoch="days")),
        reads(
            [{"d": 1, "t": 86400}],
            [{"d": SECOND.date(), "t": 86400}],
            type_="ARRAY<STRUCT<d: DATE, t: BIGINT>>",
            written=Time(epoch="days"),
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
    ),
    Example(
        "column n: Time is only allowed for a TIMESTAMP or DATE",
        "Declare a TIMESTAMP, or remove written.",
        with_column(written=Time(epoch="seconds")),
        with_column(type_="TIMESTAMP", written=Time(epoch="seconds")),
    ),
    Example(
        "column n: Time is only allowed for a TIMESTAMP or DATE",
        "Declare a DATE, or remove written.",
        with_column(written=Time(epoch="days")),
        with_column(type_="DATE", written=Time(epoch="days")),
    ),
    of_column(
        "pattern and epoch cannot be combined",
        "A time is either text or a number. Remove one of the two.",
        type_="TIMESTAMP",
        written=[Time("%Y", epoch="seconds"), Time("%Y"), Time(epoch="seconds")],
    ),
    of_column(
        "epoch is days, but the column is a TIMESTAMP",
        "Declare seconds, milliseconds, microseconds, nanoseconds or a DATE.",
        reads(86400, SECOND, type_="TIMESTAMP", written=Time(epoch="seconds")),
        reads(86400 * 10**9, SECOND, type_="TIMESTAMP", written=Time(epoch="nanoseconds")),
        reads(1, SECOND.date(), type_="DATE", written=Time(epoch="days")),
        type_="TIMESTAMP",
        written=[Time(epoch="days"), Time(epoch="milliseconds"), Time(epoch="microseconds")],
    ),
    Example(
        "column n: epoch is seconds, but the column is a DATE",
        "Declare days or a TIMESTAMP.",
        with_column(type_="DATE", written=Time(epoch="seconds")),
        reads(1, SECOND.date(), type_="DATE", written=Time(epoch="days")),
        reads(86400, SECOND, type_="TIMESTAMP", written=Time(epoch="seconds")),
    ),
    of_column(
        "the pattern contains %Z, which is not supported",
        "Use only %Y, %m, %b, %d, %H, %M, %S, %f, %z, or Time('iso8601') for all forms of ISO 8601. For "
        "times in another format, declare STRING without a pattern.",
        reads("1970-01-02T01:00+0100", SECOND, type_="TIMESTAMP", written=Time("iso8601")),
        reads("1970-01-02T00:00 CET", "1970-01-02T00:00 CET", type_="STRING"),
        type_="TIMESTAMP",
        written=[Time("%Y-%m-%dT%H:%M%Z"), Time("%Y-%m-%dT%H:%M")],
    ),
    Example(
        "column n: the pattern contains %m and %b",
        "Write the month once: as a number, or as its name.",
        with_column(type_="DATE", written=Time("%d %b %Y %m")),
        reads("02 Jan 1970", SECOND.date(), type_="DATE", written=Time("%d %b %Y")),
        reads("02 01 1970", SECOND.date(), type_="DATE", written=Time("%d %m %Y")),
    ),
    of_column(
        "the pattern contains %Y twice",
        "Write each part of a time once.",
        type_="TIMESTAMP",
        written=[Time("%Y %Y"), Time("%Y")],
    ),
    Example(
        "column n: the pattern contains %H, which a DATE drops",
        "Declare TIMESTAMP in place of DATE, or STRING if it has another format.",
        with_column(type_="DATE", written=Time("%Y-%m-%d %H")),
        reads("1970-01-02 00", SECOND, type_="TIMESTAMP", written=Time("%Y-%m-%d %H")),
    ),
    of_column(
        "the pattern contains %H, which a DATE drops",
        "Declare TIMESTAMP in place of DATE, or STRING if it has another format.",
        reads(
            {"d": "1970-01-02", "t": "1970-01-02 00"},
            {"d": "1970-01-02", "t": SECOND},
            type_="STRUCT<d: STRING, t: TIMESTAMP>",
            written=Time("%Y-%m-%d %H"),
        ),
        written=Time("%Y-%m-%d %H"),
        type_=["STRUCT<d: DATE, t: TIMESTAMP>", "STRUCT<d: TIMESTAMP, t: TIMESTAMP>"],
    ),
    of_column(
        "the pattern is not valid UTF-8",
        "Write a pattern that a record can match.",
        type_="TIMESTAMP",
        written=[Time("%Y\ud800"), Time("%Y")],
    ),
    of_column(
        "the pattern contains no %Y",
        "Without a year, every time would be in 1900. Add %Y, or declare Time('iso8601'). For times in "
        "another format, declare STRING without a pattern.",
        reads("01-02", "01-02", type_="STRING"),
        type_="DATE",
        written=[Time("%m-%d"), Time("%Y-%m-%d"), Time("iso8601")],
    ),
    of_column(
        "the pattern contains %M but no %H",
        "Each part of a time requires the next larger one. Add %H.",
        type_="TIMESTAMP",
        written=[Time("%Y-%m-%d %M"), Time("%Y-%m-%d %H:%M")],
    ),
    of_table(
        "late requires a TIMESTAMP or DATE column",
        "Replace stars with such a column.",
        late=[Late("stars", timedelta(1)), Late("rated_at", timedelta(1))],
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
    of_table(
        "late: after is negative",
        "Declare how long after its event a record may arrive.",
        late=[Late("rated_at", timedelta(-1)), Late("rated_at", timedelta(1))],
    ),
]
