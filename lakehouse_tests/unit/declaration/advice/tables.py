"""Tables as a whole: their names, their topics and their keys."""

from datetime import timedelta

from lakehouse.declaration import declared_together
from lakehouse_tests.unit.declaration.advice.example import Example, read
from lakehouse_tests.unit.declaration.ratings import ID, column, declare, grouped, log, more

BY_DAY = column("day", "DATE", sql="CAST(rated_at AS DATE)")
EXAMPLES = [
    Example(
        (
            "table 'Ratings': names are lower case letters, digits and _, begin with a letter and have at most 200 "
            "characters"
        ),
        "Choose another name.",
        more(name="Ratings"),
        more(name="movie_ratings"),
    ),
    Example(
        "no table can be named type: Dagster keeps that word",
        "Choose another name.",
        more(name="type"),
        more(name="ratings_type"),
    ),
    Example(
        "no table can be named duckdb_tables: DuckDB asks its own duckdb_* for tables",
        "Choose another name.",
        more(name="duckdb_tables"),
        more(name="tables"),
    ),
    Example(
        "two parts of the declaration are named ratings_base",
        "Choose another name for one: each is a folder of a table, or a name in Dagster.",
        grouped(name="ratings_base"),
        grouped(name="by_movie"),
    ),
    Example(
        "ratings is also a name of the declaration of 'ratings'",
        "Give one of the two another name.",
        lambda: declared_together(declare(), declare(topic="other"))[0],
        lambda: declared_together(declare(), declare(name="other", topic="other"))[0],
    ),
    Example(
        "topic 'a/b' is no name that Kafka takes",
        "Up to 249 letters, digits, '.', '_' and '-', but neither '.' nor '..' alone.",
        more(topic="a/b"),
        more(topic="a.b"),
    ),
    Example(
        "topic '..' is no name that Kafka takes",
        "Up to 249 letters, digits, '.', '_' and '-', but neither '.' nor '..' alone.",
        more(topic=".."),
        more(topic="a.."),
    ),
    Example(
        "owner 'somebody' is neither a team nor an address",
        "Write team:NAME, or an e-mail address, of which 2 to 7 letters follow the last dot.",
        more(owner="somebody"),
        more(owner="team:movies"),
        more(owner="somebody@example.org"),
    ),
    Example(
        "owner 'somebody@example.technology' is neither a team nor an address",
        "Write team:NAME, or an e-mail address, of which 2 to 7 letters follow the last dot.",
        more(owner="somebody@example.technology"),
        more(owner="team:somebody"),
        more(owner="somebody@example.org"),
    ),
    Example(
        "partitions is at least 1",
        "Correct 0: one is the least.",
        more(partitions=0),
        more(partitions=1),
    ),
    Example(
        "partitions is at most 10000",
        "Kafka makes no more of one topic at once: declare fewer.",
        more(partitions=10**9),
        more(partitions=10_000),
    ),
    Example(
        "retention is less than an hour: 0:59:00",
        "VACUUM would remove files of a batch that runs: declare at least an hour.",
        more(retention=timedelta(minutes=59)),
        more(retention=timedelta(hours=1)),
    ),
    Example(
        "retention is more than a hundred years",
        "Declare less: Delta counts back from now.",
        more(retention=timedelta.max),
        more(retention=timedelta(days=36_500)),
    ),
    Example(
        "key column stars must be declared and required",
        "Declare it with required=True, and neither default nor keep.",
        more(key=["stars"]),
        read(more(column("n", required=True), key=["n"]), {"n": 3}, n=3),
    ),
    Example(
        "key column n must be declared and required",
        "Declare it with required=True, and neither default nor keep.",
        more(column(default=1), key=["n"]),
        read(more(column(required=True), key=["n"]), {"n": 3}, n=3),
    ),
    Example(
        "key column id stands twice",
        "Name it once.",
        more(key=["id", "id"]),
        more(key=["id"]),
    ),
    Example(
        "column day: it is computed, and of the key",
        "A key is what records tell: name the columns that it follows from.",
        more(BY_DAY, key=["id", "day"]),
        more(BY_DAY, key=["id", "rated_at"]),
    ),
    Example(
        "key column number: the name is taken in the key, by a column of the change feed",
        "Choose another, and name the field in its source.",
        more(column("number", required=True), key=["number"]),
        read(more(column("n", source="number", required=True), key=["n"]), {"number": 3}, n=3),
    ),
    Example(
        "a table needs columns",
        "Name what its rows hold.",
        log(columns=[]),
        log(columns=[ID]),
    ),
    Example(
        "version is for tables with a key, and this is a log table: each record is a row",
        "Leave it out, or name the columns that tell one row from another as the key.",
        log(version="stars"),
        log(),
        more(version="stars"),
    ),
    Example(
        "column n: keep is for tables with a key, and this is a log table: each record is a row",
        "Leave it out, or name the columns that tell one row from another as the key.",
        log(column(keep=True)),
        log(column()),
        more(column(keep=True)),
    ),
]
