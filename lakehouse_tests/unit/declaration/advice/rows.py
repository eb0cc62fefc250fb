"""Rows of a table: which one is newer, where it lies, and what its columns were before."""

from dataclasses import replace

from lakehouse.declaration import Day, Month, RecordKey, Value
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.unit.declaration.advice.example import Example, read
from lakehouse_tests.unit.declaration.ratings import SPOT, TAGS, column, more

BY_DAY = column("day", "DATE", sql="CAST(rated_at AS DATE)")
DAY = column("day", "DATE", pattern="%Y-%m-%d")
SEEN_AT = column("seen_at", "TIMESTAMP", pattern="%Y", keep=True)
KEPT = column("m", keep=True)
WIDE = column("n", "BIGINT", widened_from="INT")
PLACES = column("n", "DECIMAL(12,9)", widened_from="DECIMAL(9,6)", required=True)
EXAMPLES = [
    Example(
        "version is no column: revision",
        "Declare the column.",
        more(version="revision"),
        more(column("revision"), version="revision"),
    ),
    Example(
        "version day is computed: where it cannot be, the record would be the oldest of all",
        "Name a column that records tell.",
        more(BY_DAY, version="day"),
        more(BY_DAY, version="rated_at"),
    ),
    Example(
        "version n is kept",
        "It has to come from the same record as the row: leave keep out.",
        more(column(keep=True), version="n"),
        more(column(), version="n"),
    ),
    Example(
        "version n is BOOLEAN",
        "Two values order nothing: name a number, a time or a text.",
        more(column("n", "BOOLEAN"), version="n"),
        more(version="stars"),
        more(version="rated_at"),
        more(column("n", "STRING"), version="n"),
    ),
    Example(
        "version spot is STRUCT<x: DOUBLE>",
        "Name another column; a field within an object can be a column, by its path as source.",
        more(SPOT, version="spot"),
        more(SPOT, version="stars"),
        read(more(SPOT, column("x", "DOUBLE", source=("spot", "x")), version="x"), {"spot": {"x": 0.5}}, x=0.5),
    ),
    Example(
        "partition_by: Day needs a column of TIMESTAMP",
        "stars is none: name one.",
        more(partition_by=Day("stars")),
        more(partition_by=Day("rated_at")),
    ),
    Example(
        "partition_by: Day needs a column of TIMESTAMP",
        "Write Value('day'): a DATE is a day already.",
        more(DAY, partition_by=Day("day")),
        more(DAY, partition_by=Value("day")),
    ),
    Example(
        "partition_by id is the whole key",
        "Each row would lie in a folder of its own: part by a period, or not at all.",
        more(partition_by=Value("id")),
        more(partition_by=Month("rated_at")),
        more(),
    ),
    Example(
        "partition_by seen_at is kept",
        "A row lies in the partition of its newest record: leave keep out.",
        more(SEEN_AT, partition_by=Month("seen_at")),
        more(replace(SEEN_AT, keep=False), partition_by=Month("seen_at")),
    ),
    Example(
        "partition_by or cluster_by, not both",
        "Rows lie by their partition already: leave one out.",
        more(partition_by=Month("rated_at"), cluster_by=["id"]),
        more(partition_by=Month("rated_at")),
        more(cluster_by=["id"]),
    ),
    Example(
        "cluster_by has 5 columns",
        "More than 4 order nothing.",
        more(column("a"), column("b"), cluster_by=["id", "rated_at", "stars", "a", "b"]),
        more(column("a"), column("b"), cluster_by=["id", "rated_at", "stars", "a"]),
    ),
    Example(
        "cluster_by is no column: n",
        "Declare the column.",
        more(cluster_by=["n"]),
        more(column("n"), cluster_by=["n"]),
    ),
    Example(
        "cluster_by n is DOUBLE",
        "Name a number that is exact, a time or a text.",
        more(column("n", "DOUBLE"), cluster_by=["n"]),
        more(cluster_by=["stars"]),
        more(cluster_by=["rated_at"]),
        more(column("n", "STRING"), cluster_by=["n"]),
    ),
    Example(
        "cluster_by id stands twice",
        "Name it once.",
        more(cluster_by=["id", "id"]),
        more(cluster_by=["id"]),
    ),
    Example(
        "column n: widened_from, and rows are partitioned by it",
        "Leave widened_from out; then have every row written: lakehouse rewrite ratings",
        more(WIDE, partition_by=Value("n")),
        more(column("n", "BIGINT"), partition_by=Value("n")),
    ),
    Example(
        "column n: widened_from, and it is the version, which kept columns came with",
        "Leave widened_from out: here it stays INT, or declare another table.",
        more(WIDE, KEPT, version="n"),
        more(column("n"), KEPT, version="n"),
        more(column("n", "BIGINT"), KEPT, version="n", name="other"),
    ),
    Example(
        (
            "column n: widened_from DECIMAL(9,6) to more places, and of a key, values that were rounded would be "
            "others in a replay"
        ),
        "Widen it by digits before its places, or leave widened_from out, in a table of another name.",
        more(PLACES, key=["n"]),
        read(more(replace(PLACES, type="DECIMAL(12,6)"), key=["n"]), {"n": 3}, n=3),
        read(more(replace(PLACES, widened_from=None), key=["n"], name="other"), {"n": 3}, n=3),
    ),
    Example(
        "column n: formerly m, and m takes it now",
        "A field has one meaning: leave formerly out, and have old records sent again.",
        more(column("n", formerly="m"), column("m")),
        read(more(column("n"), column("m")), {"n": 1, "m": 2}, n=1, m=2),
    ),
    Example(
        "column tags is ARRAY<STRING>, and base files have plain values",
        "Leave base out, or the column.",
        more(TAGS, base=temperatures.base),
        more(TAGS),
        more(base=temperatures.base),
    ),
    Example(
        "column n is no field of its own in a record, and base files have nothing else",
        "Leave base out, or have the records tell it by one name.",
        more(column(source=RecordKey()), base=temperatures.base),
        more(column(source=RecordKey())),
        read(more(column(), base=temperatures.base), {"n": 3}, n=3),
    ),
    Example(
        "column n is no field of its own in a record, and base files have nothing else",
        "Leave base out, or have the records tell it by one name.",
        more(column(source=("a", "b")), base=temperatures.base),
        more(column(source=("a", "b"))),
        more(column(source="b"), base=temperatures.base),
    ),
]
