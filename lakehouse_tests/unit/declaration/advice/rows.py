"""Rows: version, partitions, clustering, widened types, former fields and base files."""

from dataclasses import replace

from lakehouse.declaration import Day, Month, RecordKey, Time, Upkeep, Value, Version
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.unit.declaration.advice.example import Example, accept, of_table, of_upkeep
from lakehouse_tests.unit.declaration.ratings import SPOT, TAGS, column, computed, oldest, with_columns

BY_DAY = computed("CAST(rated_at AS DATE)", "day", "DATE")
DAY = column("day", "DATE", written=Time("%Y-%m-%d"))
SEEN_AT = column("seen_at", "TIMESTAMP", written=Time("%Y"), keep=True)
KEPT_COLUMN = column("m", keep=True)
WIDE = column("n", "BIGINT", widened_from="INT")
PLACES = column("n", "DECIMAL(12,9)", widened_from="DECIMAL(9,6)", required=True)
EXAMPLES = [
    Example(
        "unknown column in version: revision",
        "Declare the column, or correct the name.",
        with_columns(version=oldest("revision")),
        with_columns(column("revision"), version=oldest("revision")),
    ),
    Example(
        "version day is computed, and nothing says what a record without a result is",
        'Write Version(..., nulls="oldest"), or nulls="newest" if such a record replaces all others. To reject it, add'
        " a rule to rejects.",
        with_columns(BY_DAY, version="day"),
        with_columns(BY_DAY, version=oldest("day")),
        with_columns(BY_DAY, version=Version(["day", "rated_at"], nulls="newest")),
    ),
    of_table(
        "version names no column",
        "Name at least one.",
        version=[Version([]), Version(["rated_at"])],
    ),
    of_table(
        "version column rated_at is listed twice",
        "List it once.",
        version=[Version(["rated_at", "rated_at"]), Version(("rated_at", "id"))],
    ),
    Example(
        "version n is a kept column",
        "The version must come from the same record as the row. Remove keep.",
        with_columns(column(keep=True), version=oldest("n")),
        with_columns(column(), version=oldest("n")),
    ),
    Example(
        "version n has a default, so no record is without a version that could be rejected",
        'Remove default, or nulls="reject".',
        with_columns(column(default=0), version=Version("n", nulls="reject")),
        accept(with_columns(column(default=0), version="n"), {}, n=0),
        accept(with_columns(column(), version=Version("n", nulls="reject")), {"n": 3}, n=3),
    ),
    Example(
        "version n may be NULL, and nothing says what a record without a version is",
        'Write version=Version("n", nulls="oldest"), nulls="newest" if such a record replaces all others, or'
        ' nulls="reject"; or declare the column with required=True.',
        with_columns(column(), version="n"),
        accept(with_columns(column(), version=oldest("n")), {}, n=None),
        accept(with_columns(column(), version=Version("n", nulls="newest")), {}, n=None),
        accept(with_columns(column(), version=Version("n", nulls="reject")), {"n": 3}, n=3),
        accept(with_columns(column(required=True), version="n"), {"n": 3}, n=3),
        accept(with_columns(column(default=0), version="n"), {}, n=0),
    ),
    Example(
        "version n is BOOLEAN",
        "Two values cannot order records. Name a number, a time or a string.",
        with_columns(column("n", "BOOLEAN"), version=oldest("n")),
        with_columns(version=oldest("stars")),
        with_columns(version="rated_at"),
        with_columns(column("n", "STRING"), version=oldest("n")),
    ),
    Example(
        "version cannot use column spot of type STRUCT<x: DOUBLE>",
        "Name another column. A field within an object can be a column of its own, with its path as source.",
        with_columns(SPOT, version="spot"),
        with_columns(SPOT, version=oldest("stars")),
        accept(
            with_columns(SPOT, column("x", "DOUBLE", source=("spot", "x")), version=oldest("x")),
            {"spot": {"x": 0.5}},
            x=0.5,
        ),
    ),
    of_table(
        "partition_by: Day requires a column of type TIMESTAMP",
        "Did you mean rated_at? Replace ratedat with such a column.",
        partition_by=[Day("ratedat"), Day("rated_at")],
    ),
    of_table(
        "partition_by: Day requires a column of type TIMESTAMP",
        "Replace stars with such a column.",
        partition_by=[Day("stars"), Day("rated_at")],
    ),
    Example(
        "partition_by: Day requires a column of type TIMESTAMP",
        "Write Value('day'): a DATE is already a day.",
        with_columns(DAY, partition_by=Day("day")),
        with_columns(DAY, partition_by=Value("day")),
    ),
    of_table(
        "partition_by id is the entire key",
        "Each row would be in a folder of its own. Partition by a period, or remove partition_by.",
        partition_by=[Value("id"), Month("rated_at")],
    ),
    Example(
        "partition_by seen_at is a kept column",
        "A row is stored in the partition of its newest record. Remove keep.",
        with_columns(SEEN_AT, partition_by=Month("seen_at")),
        with_columns(replace(SEEN_AT, keep=False), partition_by=Month("seen_at")),
    ),
    Example(
        "partition_by and cluster_by cannot be combined",
        "Partitions already decide where rows are stored. Remove one of the two.",
        with_columns(partition_by=Month("rated_at"), upkeep=Upkeep(cluster_by=["id"])),
        with_columns(partition_by=Month("rated_at")),
        with_columns(upkeep=Upkeep(cluster_by=["id"])),
    ),
    Example(
        "cluster_by has 5 columns, but the maximum is 4",
        "Further columns have no effect. Remove them.",
        with_columns(column("a"), column("b"), upkeep=Upkeep(cluster_by=["id", "rated_at", "stars", "a", "b"])),
        with_columns(column("a"), column("b"), upkeep=Upkeep(cluster_by=["id", "rated_at", "stars", "a"])),
    ),
    Example(
        "unknown column in cluster_by: n",
        "Declare the column, or correct the name.",
        with_columns(upkeep=Upkeep(cluster_by=["n"])),
        with_columns(column("n"), upkeep=Upkeep(cluster_by=["n"])),
    ),
    Example(
        "cluster_by n is DOUBLE",
        "Name a column of exact numbers, times or strings.",
        with_columns(column("n", "DOUBLE"), upkeep=Upkeep(cluster_by=["n"])),
        with_columns(upkeep=Upkeep(cluster_by=["stars"])),
        with_columns(upkeep=Upkeep(cluster_by=["rated_at"])),
        with_columns(column("n", "STRING"), upkeep=Upkeep(cluster_by=["n"])),
    ),
    of_upkeep("id is listed twice in cluster_by", "List it once.", cluster_by=[["id", "id"], ["id"]]),
    Example(
        "column n: widened_from is not allowed, because rows are partitioned by it",
        "Remove widened_from. Then rewrite every row: lakehouse rewrite ratings",
        with_columns(WIDE, partition_by=Value("n")),
        with_columns(column("n", "BIGINT"), partition_by=Value("n")),
    ),
    Example(
        "column n: widened_from is not allowed, because it is the version that is stored for kept columns",
        "Remove widened_from. Keep the type INT, or declare another table.",
        with_columns(WIDE, KEPT_COLUMN, version=oldest("n")),
        with_columns(column("n"), KEPT_COLUMN, version=oldest("n")),
        with_columns(column("n", "BIGINT"), KEPT_COLUMN, version=oldest("n"), name="other"),
    ),
    Example(
        "column n: widened_from DECIMAL(9,6) adds decimal places to the key",
        "In a replay, values that were rounded would be different. Add digits before the point, or declare another "
        "table without widened_from.",
        with_columns(PLACES, key=["n"]),
        accept(with_columns(replace(PLACES, type="DECIMAL(12,6)"), key=["n"]), {"n": 3}, n=3),
        accept(with_columns(replace(PLACES, widened_from=None), key=["n"], name="other"), {"n": 3}, n=3),
    ),
    Example(
        "column n: formerly m, but column m reads it now",
        "A field must have one meaning. Remove formerly, and have old records sent again.",
        with_columns(column("n", formerly="m"), column("m")),
        accept(with_columns(column("n"), column("m")), {"n": 1, "m": 2}, n=1, m=2),
    ),
    Example(
        "column tags is ARRAY<STRING>, but base files have only scalar values",
        "Remove base, or the column.",
        with_columns(TAGS, base=temperatures.base),
        with_columns(TAGS),
        with_columns(base=temperatures.base),
    ),
    Example(
        "column n is not a top-level field of a record, but base files have only those",
        "Remove base, or have producers send the value as a top-level field.",
        with_columns(column(source=RecordKey()), base=temperatures.base),
        with_columns(column(source=RecordKey())),
        accept(with_columns(column(), base=temperatures.base), {"n": 3}, n=3),
    ),
    Example(
        "column n is not a top-level field of a record, but base files have only those",
        "Remove base, or have producers send the value as a top-level field.",
        with_columns(column(source=("a", "b")), base=temperatures.base),
        with_columns(column(source=("a", "b"))),
        with_columns(column(source="b"), base=temperatures.base),
    ),
]
