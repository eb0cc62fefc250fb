"""Tables: names, topics, owners, limits and keys."""

from datetime import date, datetime, timedelta

from lakehouse.declaration import Avro, FieldIs, HeaderIs, SchemaIs, Topic, Upkeep
from lakehouse.declaration.table import require_distinct_names
from lakehouse_tests.unit.declaration.advice.example import (
    Accepted,
    Example,
    accept,
    of_promise,
    of_table,
    of_topic,
    of_upkeep,
)
from lakehouse_tests.unit.declaration.ratings import (
    ID,
    column,
    computed,
    declare,
    log_table,
    oldest,
    with_columns,
    with_rollup,
)

BY_DAY = computed("CAST(rated_at AS DATE)", "day", "DATE")
BY_HEADER = Accepted(
    with_columns(where=HeaderIs("event-type", ["order"])), {}, {}, other_parts={"headers": {"event-type": b"order"}}
)
EXAMPLES = [
    of_table(
        "where: SchemaIs needs the name of a schema",
        'Write, for example: where=SchemaIs(["com.shop.OrderPlaced"])',
        format=Avro(),
        where=[SchemaIs([]), SchemaIs(["com.shop.OrderPlaced"])],
    ),
    Example(
        "where: schemas of format Json have no names",
        "Choose records by a field or a header: where=FieldIs(...) or where=HeaderIs(...).",
        with_columns(where=SchemaIs(["Order"])),
        Accepted(with_columns(where=FieldIs("type", ["order"])), {"type": "order"}, {}),
        BY_HEADER,
    ),
    Example(
        "where is an empty list",
        'Remove it, or write, for example: where=FieldIs("type", ["order"])',
        with_columns(where=[]),
        accept(with_columns(where=[FieldIs("type", ["order"])]), {"type": "order"}),
    ),
    Example(
        "where: FieldIs needs the name of a field, and at least one value",
        'Write, for example: where=FieldIs("type", ["order"])',
        with_columns(where=FieldIs("type", [])),
        accept(with_columns(where=FieldIs("type", ["order"])), {"type": "order"}),
    ),
    Example(
        "where: HeaderIs needs the name of a header, and at least one value",
        'Write, for example: where=HeaderIs("event-type", ["order"])',
        with_columns(where=HeaderIs("", ["order"])),
        BY_HEADER,
    ),
    Example(
        "where: a name or a value is not valid UTF-8",
        "No record can have it. Correct it.",
        with_columns(where=HeaderIs("event-type", ["\ud800"])),
        BY_HEADER,
    ),
    of_table(
        "the name is not allowed: a name has at most 200 lower-case letters, digits and _, and starts with a letter",
        "Choose another name.",
        name=["Ratings", "movie_ratings"],
    ),
    of_table("the name is reserved by Dagster", "Choose another name.", name=["type", "ratings_type"]),
    of_table(
        "the name is reserved: DuckDB lists tables with duckdb_* functions of its own",
        "Choose another name.",
        name=["duckdb_tables", "tables"],
    ),
    Example(
        "two parts of the declaration have the name ratings_base",
        "Rename one of them. Each is the folder of a table, or a name in Dagster.",
        with_rollup(name="ratings_base"),
        with_rollup(name="by_movie"),
    ),
    Example(
        "another declaration also uses the name ratings",
        "Rename one of the two.",
        lambda: require_distinct_names(declare(), declare(topic="other"))[0],
        lambda: require_distinct_names(declare(), declare(name="other", topic="other"))[0],
    ),
    of_table(
        "topic 'a/b' is not a valid name in Kafka",
        "Use up to 249 letters, digits, '.', '_' and '-', but neither '.' nor '..' alone.",
        topic=["a/b", "a.b"],
    ),
    of_table(
        "topic '..' is not a valid name in Kafka",
        "Use up to 249 letters, digits, '.', '_' and '-', but neither '.' nor '..' alone.",
        topic=["..", "a.."],
    ),
    of_table(
        "owner 'somebody' is neither a team nor an e-mail address",
        "Write team:NAME, or an e-mail address with 2 to 7 letters after the last dot.",
        owner=["somebody", "team:movies", "somebody@example.org"],
    ),
    of_table(
        "owner 'somebody@example.technology' is neither a team nor an e-mail address",
        "Write team:NAME, or an e-mail address with 2 to 7 letters after the last dot.",
        owner=["somebody@example.technology", "team:somebody", "somebody@example.org"],
    ),
    of_table("max_records is 0, but the minimum is 1", "Declare 1 or more.", max_records=[0, 1]),
    of_topic(
        "partitions is 1000000000, but must be between 1 and 10000",
        "Kafka creates no more partitions of a topic at once. Declare a number between them.",
        partitions=[10**9, 10_000],
    ),
    of_promise(
        "fresh is 0:00:01, but the minimum is 30 seconds",
        "The sensor looks every five seconds. Declare more.",
        fresh=[timedelta(seconds=1), timedelta(seconds=30)],
    ),
    of_promise("max_lag is -1, but the minimum is 0", "Declare the number of offsets that may wait.", max_lag=[-1, 0]),
    of_upkeep(
        "retention is 0:59:00, but the minimum is one hour",
        "VACUUM would remove files of a running batch. Declare at least one hour.",
        retention=[timedelta(minutes=59), timedelta(hours=1)],
    ),
    of_upkeep(
        "every of upkeep is 0:04:00, but must be between 5 minutes and one day",
        "Declare, for example: Upkeep(every=timedelta(hours=1))",
        every=[timedelta(minutes=4), timedelta(hours=1)],
    ),
    of_upkeep(
        "every of upkeep is 1:30:00, which divides neither an hour nor a day into equal parts",
        "Declare minutes that divide an hour, or hours that divide a day.",
        every=[timedelta(minutes=90), timedelta(minutes=20), timedelta(hours=2)],
    ),
    of_upkeep(
        "every of upkeep is 0:07:30, but must be whole minutes",
        "Declare whole minutes.",
        every=[timedelta(minutes=7.5), timedelta(minutes=6)],
    ),
    of_upkeep(
        "retention is more than 100 years",
        "Delta subtracts it from the current time. Declare less.",
        retention=[timedelta.max, timedelta(days=36_500)],
    ),
    of_topic(
        "replay_from is 1969-12-31, but must be between 1970-01-01 and 9999-12-30",
        "Declare the first day of which the topic has records.",
        replay_from=[date(1969, 12, 31), date(1970, 1, 1)],
    ),
    of_topic(
        "replay_from is 9999-12-31, but must be between 1970-01-01 and 9999-12-30",
        "Declare the first day of which the topic has records.",
        replay_from=[date.max, date(9999, 12, 30)],
    ),
    of_topic(
        "start is 'newest', which is neither \"latest\" nor a time in ISO 8601",
        'Write, for example: start="2026-11-01T00:00:00Z"',
        start=["newest", "2026-11-01T00:00:00Z"],
    ),
    of_topic(
        "start 2026-11-01 00:00:00 has no time zone",
        'It may mean several times. Write, for example: start="2026-11-01T00:00:00Z"',
        start=[datetime(2026, 11, 1), "2026-11-01T00:00:00Z"],
    ),
    Example(
        "start 1969-12-31 00:00:00+00:00 is before 1970",
        "Remove start: a new table begins at the first record of the topic.",
        with_columns(source=Topic("ratings", start="1969-12-31T00:00:00Z")),
        with_columns(),
    ),
    of_topic("start names no partition", "Write, for example: start={0: 1200, 1: 900}", start=[{}, {0: 1200, 1: 900}]),
    of_topic(
        "start names partition -1, but the first one is 0",
        "Write, for example: start={0: 1200, 1: 900}",
        start=[{-1: 5}, {0: 1200, 1: 900}],
    ),
    of_topic(
        "start: offset -2 of partition 0 is negative",
        'Name the first offset to merge. To begin at the end of the topic, write start="latest".',
        start=[{0: -2}, {0: 0}, "latest"],
    ),
    Example(
        "key column stars is not required",
        "Declare it with required=True, without default and keep.",
        with_columns(key=["stars"]),
        accept(with_columns(column("n", required=True), key=["n"]), {"n": 3}, n=3),
    ),
    of_table(
        "unknown column in key: star",
        "Did you mean stars? The columns are id, rated_at, stars.",
        key=[["star"], ["id"]],
    ),
    Example(
        "key column n is not required",
        "Declare it with required=True, without default and keep.",
        with_columns(column(default=1), key=["n"]),
        accept(with_columns(column(required=True), key=["n"]), {"n": 3}, n=3),
    ),
    of_table("key column id is listed twice", "List it once.", key=[["id", "id"], ["id"]]),
    Example(
        "column day: a computed column cannot be part of the key",
        "The key must come from records. Name the columns that it is computed from.",
        with_columns(BY_DAY, key=["id", "day"]),
        with_columns(BY_DAY, key=["id", "rated_at"]),
    ),
    Example(
        "key column number: the name is used by a column of the change feed",
        "Choose another name, and set source= to the name of the field.",
        with_columns(column("number", required=True), key=["number"]),
        accept(with_columns(column("n", source="number", required=True), key=["n"]), {"number": 3}, n=3),
    ),
    Example("columns is empty", "Declare the columns of its rows.", log_table(columns=[]), log_table(columns=[ID])),
    Example(
        "version requires a key, but this is a log table, in which each record is a row",
        "Remove it, or name the columns that identify a row as the key.",
        log_table(version=oldest("stars")),
        with_columns(version=oldest("stars")),
    ),
    Example(
        "deletion_vectors in a log table, whose rows replace none",
        "Remove deletion_vectors.",
        log_table(upkeep=Upkeep(deletion_vectors=True)),
        with_columns(upkeep=Upkeep(deletion_vectors=True)),
    ),
    Example(
        "column n: keep requires a key, but this is a log table, in which each record is a row",
        "Remove it, or name the columns that identify a row as the key.",
        log_table(column(keep=True)),
        log_table(column()),
        with_columns(column(keep=True)),
    ),
]
