"""SQL of computed columns: what it is converted to, and what is refused because a record could make it fail."""

from typing import Any

import pytest

from lakehouse.declaration import Column, Computed, StreamTable, Time
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


def convert(sql: str, type_: str) -> str:
    return computed_sql(sql, type_, TYPES)


@pytest.mark.parametrize(
    ("sql", "type_", "converted_sql"),
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
def test_sql_that_can_fail_is_converted_to_sql_that_returns_null(sql: str, type_: str, converted_sql: str) -> None:
    assert convert(sql, type_) == f"try_cast({converted_sql} AS {type_})"


def test_a_double_is_finite_and_never_negative_zero() -> None:
    assert convert("weight * 2", "DOUBLE") == (
        "IF(abs(try_cast(try_multiply(`weight`, 2) AS DOUBLE)) < double('Infinity'),"
        " try_cast(try_multiply(`weight`, 2) AS DOUBLE) + 0.0D, NULL)"
    )


@pytest.mark.parametrize(
    ("sql", "type_", "message_part"),
    [
        ("coalesce(name, 1)", "STRING", "these cannot be combined"),
        ("CASE name WHEN 1 THEN 2 END", "INT", "these cannot be combined"),
        ("paid AND pieces", "BOOLEAN", "pieces is an integer, but must be"),
        ("floor(weight)", "BIGINT", "weight is a double, but must be"),
        (f"left(name, {'9' * 5000})", "STRING", "is not an integer literal"),
        ("left(name, 99999999999)", "STRING", "is not an integer literal"),
        ("name RLIKE '(a+)+$'", "BOOLEAN", "is not supported"),
        ("name LIKE concat('%', name)", "BOOLEAN", "is not supported"),
        (r"name LIKE '\\'", "BOOLEAN", "is not supported"),
        ("name ILIKE 'x%a%b%'", "BOOLEAN", "two % before its last word"),
        (r"concat(name, '\\u0041')", "STRING", "contains a backslash"),
        ("rand() > 0.5", "BOOLEAN", "is not supported"),
        ("sold_at > now()", "BOOLEAN", "is not supported"),
        ("max(pieces)", "INT", "is not supported"),
        ("(SELECT 1)", "INT", "is not supported"),
        ("row_number() OVER (ORDER BY name)", "INT", "is not supported"),
        ("CAST(name AS DATE)", "DATE", "name is a string, but must be"),
        ("CAST(total AS TIMESTAMP)", "TIMESTAMP", "total is an integer, but must be"),
        ("CAST(weight AS BOOLEAN)", "BOOLEAN", "weight is a double, but must be"),
        ("CAST(name AS DECIMAL(99,2))", "DECIMAL(9,2)", "casts to an unsupported type"),
        ("TIMESTAMP '2026-01-01T00:00:00+02:00'", "TIMESTAMP", "has a time zone"),
        ("day + INTERVAL 1 DAY", "DATE", "day is a date, but must be"),
        ("t.pieces", "INT", "t.pieces is not a column that is read from records"),
        ("1" * 39, "DECIMAL(38,0)", "has 39 digits"),
        ("1e999", "DOUBLE", "exceeds the range of a double"),
        ("replace(name, name, '')", "STRING", "a string that is too large"),
        ("replace(name, 'a', '12345')", "STRING", "a string that is too large"),
        ("replace(" * 4 + "name" + ", 'a', 'aaaa')" * 4, "STRING", "more than 64 times as long"),
        ("TIMESTAMP '2026-01-01'", "TIMESTAMP", "is not a valid TIMESTAMP"),
        ("paid BETWEEN paid AND paid = paid", "BOOLEAN", "is an operand of a comparison"),
        ("pieces IN (1) = paid", "BOOLEAN", "is an operand of a comparison"),
        ("split_part(name, ',', 00)", "STRING", "counts from 1"),
        ("substring(name)", "STRING", "arguments that substring() does not support"),
        ("greatest(name)", "STRING", "has only one argument"),
        ("left(name, \u0663)", "STRING", "is not an integer literal"),
        ("name || '\ud800'", "STRING", "invalid UTF-8"),
        ("name || '\x00'", "STRING", "invalid UTF-8"),
        ("date_trunc('DAY', sold_at, 'Europe/Berlin')", "TIMESTAMP", "unsupported part: "),
        ("date_trunc(pieces, sold_at)", "TIMESTAMP", "unsupported part: "),
        ("initcap(name, 'x')", "STRING", "arguments that initcap() does not support"),
        ("CAST(name AS STRING FORMAT 'x')", "STRING", "is not supported"),
        ("trim(BOTH 'x' FROM name)", "STRING", "unsupported part: "),
        ("DATE '2020-W01-1'", "DATE", "is not a valid DATE"),
        ("DATE '20200101'", "DATE", "is not a valid DATE"),
        ("abs(" * 8 + "price" + ")" * 8, "DECIMAL(9,2)", "a part of it expands to"),
        ("abs(" * 20 + "price" + ")" * 20, "DECIMAL(9,2)", "a part of it expands to 4"),
        ("floor(price)", "BIGINT", "the expression returns a decimal"),
        ("pieces; DROP TABLE t", "INT", "not a SQL expression"),
    ],
)
def test_sql_that_a_record_could_make_fail_is_refused_with_advice(sql: str, type_: str, message_part: str) -> None:
    with pytest.raises(NotComputable) as raised:
        convert(sql, type_)
    message, action = raised.value.problem
    assert message_part in message
    assert action.endswith(".")


def test_sql_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(NotComputable, match="nested too deeply|not a SQL expression"):
        convert("(" * 5_000 + "pieces" + ")" * 5_000, "INT")


def test_the_former_name_of_a_field_cannot_be_read_by_another_column() -> None:
    town = Column("town", "STRING", formerly="city", doc="Town.")
    with pytest.raises(DeclarationError, match="formerly city, but column city reads it now"):
        table(town, Column("city", "STRING", doc="Another thing."))
    with pytest.raises(DeclarationError, match="formerly city, but column zip reads it now"):
        table(town, Column("zip", "STRING", source=("city", "zip"), doc="Another thing."))
    assert table(town, Column("city", "STRING", source="place", doc="Another name.")).decode(b'{"id":1,"city":"X"}')


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_parser_knows_every_function(name: str) -> None:
    from sqlglot import exp

    assert issubclass(getattr(exp, name), exp.Expr)
    assert {*FUNCTIONS[name].arguments} <= getattr(exp, name).arg_types.keys()


ID = Column("id", "INT", required=True, doc="Number.")
SOLD_AT = Column("sold_at", "TIMESTAMP", written=Time(epoch="seconds"), doc="When.")


def table(*columns: Column | Computed, **changes: Any) -> StreamTable:
    return StreamTable("orders", "orders", "Orders.", [ID, SOLD_AT, *columns], **({"key": ["id"]} | changes))


def test_a_computed_column_is_not_read_from_records() -> None:
    declared_table = table(Computed("twice", "INT", sql="id * 2", doc="Twice."))
    assert [field.name for field in declared_table.fields] == ["id", "sold_at"]
    assert declared_table.decode(b'{"id": 1, "twice": "three"}') == {"id": 1, "sold_at": None}
    assert declared_table.computed.keys() == {"twice"}


def test_the_sql_of_a_column_is_part_of_the_fingerprint() -> None:
    fingerprints = {table(Computed("n", "INT", sql=sql, doc="N.")).fingerprint for sql in ("id", "id + 1")}
    assert len({*fingerprints, table(Column("n", "INT", doc="N.")).fingerprint}) == 3


@pytest.mark.parametrize(
    ("sql", "message_part"),
    [
        ("", "sql is empty"),
        ("none + 1", ": none is not a column that is read from records"),
        ("n + 1", ": n is a computed column"),
        ("kept + 1", ": kept has keep: its value may be of an older record than the row"),
        ("tags + 1", ": tags is ARRAY<STRING>"),
        (7, "sql must be a string"),
    ],
)
def test_the_sql_of_a_computed_column_reads_columns_that_records_contain(sql: Any, message_part: str) -> None:
    other_columns = (Column("kept", "INT", keep=True, doc="Kept."), Column("tags", "ARRAY<STRING>", doc="Tags."))
    with pytest.raises(DeclarationError, match=message_part.replace("+", r"\+")):
        table(*other_columns, Computed("n", "INT", sql, "N."))
