"""SQL of computed columns: what is taken, what it becomes, and what is refused because a record could make it fail."""

from typing import Any

import pytest

from lakehouse.declaration import Column, StreamTable
from lakehouse.declaration.sql import NotComputable, computed_sql
from lakehouse.declaration.sql.functions import FUNCTIONS
from lakehouse.errors import DeclarationError

TYPES = {
    "name": "STRING",
    "paid": "BOOLEAN",
    "pieces": "INT",
    "total": "BIGINT",
    "weight": "DOUBLE",
    "price": "DECIMAL(12,2)",
    "day": "DATE",
    "sold_at": "TIMESTAMP",
}


def made(sql: str, type_: str) -> str:
    return computed_sql(sql, type_, TYPES)


@pytest.mark.parametrize(
    ("sql", "type_", "becomes"),
    [
        ("weight >= 7", "BOOLEAN", "(`weight` >= 7)"),
        ("NOT paid OR name IS NULL", "BOOLEAN", "((NOT `paid`) OR (`name` IS NULL))"),
        ("CAST(sold_at AS DATE)", "DATE", "try_cast(`sold_at` AS DATE)"),
        ("to_date(sold_at)", "DATE", "CAST(`sold_at` AS DATE)"),
        ("year(sold_at)", "INT", "year(CAST(`sold_at` AS DATE))"),
        ("price * pieces", "DECIMAL(20,2)", "try_multiply(`price`, `pieces`)"),
        ("pieces / 0", "DECIMAL(9,2)", "try_divide(`pieces`, 0)"),
        (
            "-pieces % 7",
            "BIGINT",
            "try_mod(CAST(try_subtract(0, CAST(`pieces` AS BIGINT)) AS BIGINT), CAST(7 AS BIGINT))",
        ),
        ("pieces * pieces", "BIGINT", "try_multiply(CAST(`pieces` AS BIGINT), CAST(`pieces` AS BIGINT))"),
        ("abs(total)", "BIGINT", "try_cast(abs(try_cast(`total` AS DECIMAL(20,0))) AS BIGINT)"),
        ("CASE WHEN paid THEN 'a' ELSE name END", "STRING", "CASE  WHEN `paid` THEN 'a' ELSE `name` END"),
        ("CASE name WHEN 'a' THEN 1 END", "INT", "CASE `name` WHEN 'a' THEN 1 END"),
        ("upper(trim(name)) || '!'", "STRING", "concat(upper(trim(`name`)), '!')"),
        ("name LIKE 'a%'", "BOOLEAN", "(`name` LIKE 'a%')"),
        ("name LIKE '%a_%%'", "BOOLEAN", "(`name` LIKE '%a_%%')"),
        ("name NOT IN ('b', 'c')", "BOOLEAN", "(NOT (`name` IN ('b', 'c')))"),
        ("coalesce(pieces, price) BETWEEN 1 AND 2.5", "BOOLEAN", "(coalesce(`pieces`, `price`) BETWEEN 1 AND 2.5)"),
        ("sold_at > TIMESTAMP '2026-01-31 12:00:00'", "BOOLEAN", "(`sold_at` > TIMESTAMP '2026-01-31 12:00:00')"),
        ("trunc(day, 'MONTH')", "DATE", "trunc(`day`, 'MONTH')"),
        ("if(paid, 1, NULL)", "INT", "IF(`paid`, 1, CAST(NULL AS INT))"),
        ("split_part(name, '-', 1)", "STRING", "split_part(`name`, '-', 1)"),
        ("NULL", "STRING", "NULL"),
        (".5 < weight", "BOOLEAN", "(0.5 < `weight`)"),
        ("replace(name, 'ae', 'oe')", "STRING", "replace(`name`, 'ae', 'oe')"),
        ("try_cast(name AS INT)", "INT", "try_cast(`name` AS INT)"),
        ("last_day(sold_at)", "DATE", "last_day(CAST(`sold_at` AS DATE))"),
        ("if(paid, price, NULL)", "DECIMAL(12,2)", "IF(`paid`, `price`, CAST(NULL AS DECIMAL(1,0)))"),
        ("1.5e3 = weight AND paid AND NOT paid", "BOOLEAN", "((1500.0D = `weight`) AND `paid` AND (NOT `paid`))"),
        ("name || 'a' || 'b'", "STRING", "concat(`name`, 'a', 'b')"),
        ("CAST(floor(price) AS INT)", "INT", "try_cast(floor(`price`) AS INT)"),
    ],
)
def test_what_can_fail_becomes_what_gives_null(sql: str, type_: str, becomes: str) -> None:
    assert made(sql, type_) == f"try_cast({becomes} AS {type_})"


def test_a_double_is_none_that_no_record_may_hold() -> None:
    assert made("weight * 2", "DOUBLE") == (
        "IF(abs(try_cast(try_multiply(`weight`, 2) AS DOUBLE)) < double('Infinity'),"
        " try_cast(try_multiply(`weight`, 2) AS DOUBLE) + 0.0D, NULL)"
    )


@pytest.mark.parametrize(
    ("sql", "type_", "why"),
    [
        ("coalesce(name, 1)", "STRING", "do not go together"),
        ("CASE name WHEN 1 THEN 2 END", "INT", "do not go together"),
        ("paid AND pieces", "BOOLEAN", "pieces is a whole number, where"),
        ("floor(weight)", "BIGINT", "weight is a double, where"),
        (f"left(name, {'9' * 5000})", "STRING", "no whole number that is written out"),
        ("left(name, 99999999999)", "STRING", "no whole number that is written out"),
        ("name RLIKE '(a+)+$'", "BOOLEAN", "is not known there"),
        ("name LIKE concat('%', name)", "BOOLEAN", "is not known there"),
        (r"name LIKE '\\'", "BOOLEAN", "is not known there"),
        ("name ILIKE 'x%a%b%'", "BOOLEAN", "two % before its last word"),
        (r"concat(name, '\\u0041')", "STRING", "has a backslash"),
        ("rand() > 0.5", "BOOLEAN", "is not known there"),
        ("sold_at > now()", "BOOLEAN", "is not known there"),
        ("max(pieces)", "INT", "is not known there"),
        ("(SELECT 1)", "INT", "is not known there"),
        ("row_number() OVER (ORDER BY name)", "INT", "is not known there"),
        ("CAST(name AS DATE)", "DATE", "name is a text, where"),
        ("CAST(total AS TIMESTAMP)", "TIMESTAMP", "total is a whole number, where"),
        ("CAST(weight AS BOOLEAN)", "BOOLEAN", "weight is a double, where"),
        ("CAST(name AS DECIMAL(99,2))", "DECIMAL(9,2)", "casts to no type of a column"),
        ("TIMESTAMP '2026-01-01T00:00:00+02:00'", "TIMESTAMP", "names a zone"),
        ("day + INTERVAL 1 DAY", "DATE", "day is a day, where"),
        ("t.pieces", "INT", "names no column that records tell: t.pieces"),
        ("1" * 39, "DECIMAL(38,0)", "has 39 digits"),
        ("1e999", "DOUBLE", "beyond any number"),
        ("replace(name, name, '')", "STRING", "larger than any text"),
        ("replace(name, 'a', '12345')", "STRING", "larger than any text"),
        ("replace(" * 4 + "name" + ", 'a', 'aaaa')" * 4, "STRING", "more than 64 times as long"),
        ("TIMESTAMP '2026-01-01'", "TIMESTAMP", "is no TIMESTAMP"),
        ("paid BETWEEN paid AND paid = paid", "BOOLEAN", "stands beside a comparison"),
        ("pieces IN (1) = paid", "BOOLEAN", "stands beside a comparison"),
        ("split_part(name, ',', 00)", "STRING", "counts from 1"),
        ("substring(name)", "STRING", "not what substring() takes"),
        ("greatest(name)", "STRING", "is given one"),
        ("left(name, \u0663)", "STRING", "no whole number that is written out"),
        ("name || '\ud800'", "STRING", "no text in UTF-8"),
        ("name || '\x00'", "STRING", "no text in UTF-8"),
        ("date_trunc('DAY', sold_at, 'Europe/Berlin')", "TIMESTAMP", "this part of it is not supported"),
        ("date_trunc(pieces, sold_at)", "TIMESTAMP", "this part of it is not supported"),
        ("initcap(name, 'x')", "STRING", "not what initcap() takes"),
        ("CAST(name AS STRING FORMAT 'x')", "STRING", "is not known there"),
        ("trim(BOTH 'x' FROM name)", "STRING", "this part of it is not supported"),
        ("DATE '2020-W01-1'", "DATE", "is no DATE"),
        ("DATE '20200101'", "DATE", "is no DATE"),
        ("abs(" * 8 + "price" + ")" * 8, "DECIMAL(9,2)", "a part of it becomes"),
        ("abs(" * 20 + "price" + ")" * 20, "DECIMAL(9,2)", "a part of it becomes 4"),
        ("floor(price)", "BIGINT", "it gives a decimal"),
        ("pieces; DROP TABLE t", "INT", "no SQL expression"),
    ],
)
def test_what_a_record_could_make_fail_is_refused_with_what_to_do(sql: str, type_: str, why: str) -> None:
    with pytest.raises(NotComputable) as refused:
        made(sql, type_)
    fact, action = refused.value.problem
    assert why in fact
    assert action.endswith(".")


def test_what_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(NotComputable, match="nested too deeply|no SQL expression"):
        made("(" * 5_000 + "pieces" + ")" * 5_000, "INT")


def test_a_name_that_a_field_had_is_none_that_another_column_takes() -> None:
    town = Column("town", "STRING", formerly="city", doc="Town.")
    with pytest.raises(DeclarationError, match="formerly city, and city takes it now"):
        table(town, Column("city", "STRING", doc="Another thing."))
    with pytest.raises(DeclarationError, match="formerly city, and zip takes it now"):
        table(town, Column("zip", "STRING", source=("city", "zip"), doc="Another thing."))
    assert table(town, Column("city", "STRING", source="place", doc="Another name.")).decode(b'{"id":1,"city":"X"}')


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_one_that_the_parser_knows(name: str) -> None:
    from sqlglot import exp

    assert issubclass(getattr(exp, name), exp.Expr)
    assert {*FUNCTIONS[name].given} <= getattr(exp, name).arg_types.keys()


ID = Column("id", "INT", required=True, doc="Number.")
SOLD = Column("sold_at", "TIMESTAMP", epoch="seconds", doc="When.")


def table(*columns: Column, **changes: Any) -> StreamTable:
    return StreamTable("orders", "orders", "Orders.", [ID, SOLD, *columns], **({"key": ["id"]} | changes))


def test_a_computed_column_is_no_field_of_a_record() -> None:
    declared = table(Column("twice", "INT", sql="id * 2", doc="Twice."))
    assert [field.name for field in declared.fields] == ["id", "sold_at"]
    assert declared.decode(b'{"id": 1, "twice": "three"}') == {"id": 1, "sold_at": None}
    assert declared.computed.keys() == {"twice"}


def test_what_a_column_is_computed_by_is_part_of_the_declaration() -> None:
    prints = {table(Column("n", "INT", sql=sql, doc="N.")).fingerprint for sql in ("id", "id + 1")}
    assert len({*prints, table(Column("n", "INT", doc="N.")).fingerprint}) == 3


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"required": True}, "sql or required, not both"),
        ({"source": "other"}, "sql or source, not both"),
        ({"default": 1}, "sql or default, not both"),
        ({"keep": True}, "sql or keep, not both"),
        ({"between": (0, 1)}, "sql or between, not both"),
        ({"epoch": "seconds"}, "sql or epoch, not both"),
        ({"sql": ""}, "has no SQL"),
        ({"sql": "n + 1"}, "names no column that records tell: n"),
        ({"sql": "kept + 1"}, "names no column that records tell: kept"),
        ({"sql": 7}, "sql is text"),
    ],
)
def test_a_computed_column_says_nothing_of_records(said: dict[str, Any], why: str) -> None:
    kept = Column("kept", "INT", keep=True, doc="Kept.")
    with pytest.raises(DeclarationError, match=why.replace("+", r"\+")):
        table(kept, Column("n", "INT", doc="N.", **({"sql": "id + 1"} | said)))
