"""A database table with columns of every common type, random transactions on it, and its declaration."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.declaration import Column, Debezium, Measure, Rollup, StreamTable, Time
from lakehouse_tests.helpers.databases.postgres import Postgres

TEXT_NUMBERS = Debezium(decimal_handling_mode="string")
LARGE = 3_000  # characters that the database stores outside of the row, and does not send again with an update


class DatabaseColumn(NamedTuple):
    """A column of the database, that of the table, how to read it for a comparison, and a random literal."""

    sql: str
    column: Column
    read: str
    literal: Callable[[random.Random], str]


def _column(name: str, type_: str, **options: Any) -> Column:
    return Column(name, type_, f"The value of {name}.", **options)


def _text(length: int) -> Callable[[random.Random], str]:
    alphabet = "abcäöü€𝄞 xyz0123456789\"\\,'"

    def literal(rng: random.Random) -> str:
        text = "".join(rng.choices(alphabet, k=rng.randint(0, length)))
        return "'" + text.replace("'", "''") + "'"

    return literal


def _large(rng: random.Random) -> str:
    return "'" + "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=LARGE + rng.randint(0, 99))) + "'"


def _one_of(*literals: str) -> Callable[[random.Random], str]:
    return lambda rng: rng.choice(literals)


def _time(precision: int) -> Callable[[random.Random], str]:
    def literal(rng: random.Random) -> str:
        seconds = rng.randint(-(10**9), 2 * 10**9)
        return f"(timestamp '1970-01-01' + interval '{seconds} seconds' + interval '{rng.randint(0, 999_999)} us')"

    return lambda rng: f"{literal(rng)}::timestamp({precision})"


COLUMNS = (
    DatabaseColumn("n16 smallint", _column("n16", "INT"), "n16", lambda rng: str(rng.randint(-32768, 32767))),
    DatabaseColumn("n32 integer", _column("n32", "INT"), "n32", lambda rng: str(rng.randint(-(2**31), 2**31 - 1))),
    DatabaseColumn("n64 bigint", _column("n64", "BIGINT"), "n64", lambda rng: str(rng.randint(-(2**63), 2**63 - 1))),
    DatabaseColumn(
        "price numeric(12,3)", _column("price", "DECIMAL(12,3)"), "price", lambda rng: f"{rng.uniform(-1e8, 1e8):.3f}"
    ),
    DatabaseColumn(
        "exact numeric",
        _column("exact", "STRING"),
        "exact::text",
        lambda rng: f"{rng.getrandbits(93)}.{rng.getrandbits(33)}",
    ),
    DatabaseColumn("f32 real", _column("f32", "DOUBLE"), "f32::text::float8", lambda rng: f"{rng.uniform(-9, 9):.4f}"),
    DatabaseColumn("f64 double precision", _column("f64", "DOUBLE"), "f64", lambda rng: repr(rng.uniform(-1e9, 1e9))),
    DatabaseColumn("flag boolean", _column("flag", "BOOLEAN"), "flag", _one_of("true", "false")),
    DatabaseColumn("code char(5)", _column("code", "STRING"), "rpad(code, 5)", _one_of("'ab'", "'abcde'", "''")),
    DatabaseColumn("name varchar(40)", _column("name", "STRING"), "name", _text(40)),
    DatabaseColumn("note text", _column("note", "STRING"), "note", _text(90)),
    DatabaseColumn(
        "data bytea", _column("data", "STRING"), "encode(data, 'base64')", lambda rng: f"'\\x{rng.randbytes(9).hex()}'"
    ),
    DatabaseColumn(
        "photo bytea",
        _column("photo", "BINARY", written="base64"),
        "photo",
        lambda rng: f"'\\x{rng.randbytes(rng.randint(0, 99)).hex()}'",
    ),
    DatabaseColumn(
        "day date",
        _column("day", "DATE", written=Time(epoch="days")),
        "day",
        lambda rng: f"date '1970-01-01' + {rng.randint(-20000, 40000)}",
    ),
    DatabaseColumn(
        "at_time time",
        _column("at_time", "BIGINT"),
        "(extract(epoch from at_time) * 1000000)::bigint",
        lambda rng: f"time '00:00' + interval '{rng.randint(0, 86_399)} seconds {rng.randint(0, 999_999)} us'",
    ),
    DatabaseColumn(
        "micros timestamp", _column("micros", "TIMESTAMP", written=Time(epoch="microseconds")), "micros", _time(6)
    ),
    DatabaseColumn(
        "millis timestamp(3)", _column("millis", "TIMESTAMP", written=Time(epoch="milliseconds")), "millis", _time(3)
    ),
    DatabaseColumn(
        "zoned timestamptz DEFAULT '1970-01-01'", _column("zoned", "TIMESTAMP"), "zoned at time zone 'UTC'", _time(6)
    ),
    DatabaseColumn("zoned0 timestamptz(0)", _column("zoned0", "TIMESTAMP"), "zoned0 at time zone 'UTC'", _time(0)),
    DatabaseColumn(
        "span interval",
        _column("span", "BIGINT"),
        "(extract(epoch from span) * 1000000)::bigint",
        lambda rng: f"interval '{rng.randint(0, 99)} days {rng.randint(0, 10**6)} seconds'",
    ),
    DatabaseColumn("id128 uuid", _column("id128", "STRING"), "id128::text", lambda _: "gen_random_uuid()"),
    DatabaseColumn("doc json", _column("doc", "STRING"), "doc::text", _one_of("""'{"a": 1}'""", "'[]'", "'null'")),
    DatabaseColumn("docb jsonb", _column("docb", "STRING"), "docb::text", _one_of("""'{"a": [1, "x"]}'""", "'7'")),
    DatabaseColumn("tree xml", _column("tree", "STRING"), "tree::text", _one_of("'<a>1</a>'", "'<b/>'")),
    DatabaseColumn("host inet", _column("host", "STRING"), "abbrev(host)", _one_of("'10.0.0.1'", "'::1'")),
    DatabaseColumn("mac macaddr", _column("mac", "STRING"), "mac::text", _one_of("'08:00:2b:01:02:03'")),
    DatabaseColumn("numbers int[]", _column("numbers", "ARRAY<INT>"), "numbers", _one_of("'{}'", "'{1,NULL,3}'")),
    DatabaseColumn("words text[]", _column("words", "ARRAY<STRING>"), "words", _one_of("'{}'", "'{a,\"b c\"}'")),
    DatabaseColumn("mood mood", _column("mood", "STRING"), "mood::text", _one_of("'glad'", "'sad'")),
    DatabaseColumn("extent int4range", _column("extent", "STRING"), "extent::text", _one_of("'[1,9)'", "'empty'")),
    DatabaseColumn("large text", _column("large", "STRING", keep=True, null_erases=True), "large", _large),
)


def _with_schema(column: DatabaseColumn) -> DatabaseColumn:
    """The column for records with their schema, which gives units and scales."""
    if column.column.name == "exact":
        return column._replace(column=_column("exact", "DECIMAL(38,10)"), read="exact")
    return column._replace(column=replace(column.column, written=column.column.form))


TYPED_COLUMNS = tuple(map(_with_schema, COLUMNS))
KEY = (_column("shop", "STRING", required=True), _column("id", "BIGINT", required=True))
MEASURES = {
    "items": Measure("count(*)", "BIGINT", "Number of items."),
    "total": Measure("sum(price)", "DECIMAL(22,3)", "Sum of their prices."),
    "highest": Measure("max(n32)", "INT", "Their greatest n32."),
}


def create_table(server: Postgres, database: str, *, has_full_identity: bool) -> None:
    server.run(f"CREATE DATABASE {database}")
    columns = ", ".join(column.sql for column in COLUMNS)
    server.run(
        "CREATE TYPE mood AS ENUM ('glad', 'sad')",
        f"CREATE TABLE items (shop varchar(20), id bigint, {columns}, PRIMARY KEY (shop, id))",
        "ALTER TABLE items ALTER COLUMN large SET STORAGE EXTERNAL",
        f"ALTER TABLE items REPLICA IDENTITY {'FULL' if has_full_identity else 'DEFAULT'}",
        database=database,
    )


def declaration(
    database: str,
    form: Debezium = TEXT_NUMBERS,
    columns: Sequence[DatabaseColumn] = COLUMNS,
) -> StreamTable:
    topic = f"{database}.public.items"
    return StreamTable(
        name=database,
        topic=topic,
        doc="Items of shops.",
        columns=[*KEY, *(column.column for column in columns)],
        key=["shop", "id"],
        format=form,
        rollups=[Rollup(f"{database}_by_shop", ["shop"], MEASURES, "Items of each shop.")],
    )


def rows_of_database(
    server: Postgres, database: str, columns: Sequence[DatabaseColumn] = COLUMNS
) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the rows by key, each value in the form in which the table has it."""
    expressions = {"shop": "shop", "id": "id"} | {column.column.name: column.read for column in columns}
    query = f"SELECT {', '.join(expressions.values())} FROM items"
    rows = [dict(zip(expressions, row, strict=True)) for row in server.rows(query, database)]
    return {(row["shop"], row["id"]): {name: comparable(value) for name, value in row.items()} for row in rows}


def comparable(value: Any) -> Any:
    """Return a value in the form in which rows are compared: times in UTC without a zone, numbers by their digits."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, float):
        return float(repr(value))
    if isinstance(value, Decimal | date | list) or value is None:
        return value
    return value.replace("\n", "") if isinstance(value, str) and value.endswith("=\n") else value


def transactions(rng: random.Random, count: int, *, changes_large_keys: bool) -> Iterator[list[str]]:
    """Yield the statements of random transactions on few keys, so that most rows change often."""
    for _ in range(count):
        yield [_statement(rng, changes_large_keys=changes_large_keys) for _ in range(rng.randint(1, 4))]


def truncate(rng: random.Random) -> list[str]:
    """Return the statements of a transaction that truncates the table, and then fills it again."""
    return ["TRUNCATE items", *(_statement(rng, changes_large_keys=False) for _ in range(5))]


def _statement(rng: random.Random, *, changes_large_keys: bool) -> str:
    shop, number = rng.choice("ab"), rng.randint(1, 12)
    where = f"WHERE shop = '{shop}' AND id = {number}"
    kind = rng.choices(("insert", "update", "delete", "key"), (4, 5, 2, 1))[0]
    if kind == "insert":
        values = ", ".join(_value(column, rng) for column in COLUMNS)
        names = ", ".join(column.column.name for column in COLUMNS)
        row = f"INSERT INTO items (shop, id, {names}) VALUES ('{shop}', {number}, {values})"
        return f"{row} ON CONFLICT DO NOTHING"
    if kind == "delete":
        return f"DELETE FROM items {where}"
    if kind == "key":
        has_no_large = "" if changes_large_keys else " AND large IS NULL"
        free = f"NOT EXISTS (SELECT FROM items WHERE shop = '{shop}' AND id = {number + 12})"
        return f"UPDATE items SET id = id + 12 {where} AND {free}{has_no_large}"
    changed_columns = rng.sample(COLUMNS, rng.randint(1, 4))
    values = ", ".join(f"{column.column.name} = {_value(column, rng)}" for column in changed_columns)
    return f"UPDATE items SET {values} {where}"


def _value(column: DatabaseColumn, rng: random.Random) -> str:
    return "NULL" if rng.random() < 0.2 else column.literal(rng)


def differences(expected: dict[Any, dict[str, Any]], actual: dict[Any, dict[str, Any]]) -> str:
    """Describe how two tables differ; empty if they are equal."""
    keys = [*sorted(expected.keys() ^ actual.keys())]
    problems = [f"only in {'the database' if key in expected else 'the table'}: {key}" for key in keys[:5]]
    for key in expected.keys() & actual.keys():
        for name, value in expected[key].items():
            if actual[key][name] != value:
                problems.append(f"{key} {name}: {json.dumps([str(value)[:80], str(actual[key][name])[:80]])}")
    return "\n".join(problems[:20])
