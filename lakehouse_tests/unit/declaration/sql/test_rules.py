"""SQL of checks and measures: invalid expressions, unknown columns, and results that vary."""

import pytest

from lakehouse.declaration.sql import condition_problems, measure_problems

COLUMNS = {"price": "DECIMAL(9,2)", "sold_at": "TIMESTAMP", "comment": "STRING"}
DOUBLES = {**COLUMNS, "price": "DOUBLE"}
MIXED = {"id": "BIGINT", "few": "INT", "price": "DECIMAL(9,2)", "name": "STRING"}


def first_problem(sql: str, *, measure: bool = False) -> str:
    """The message of the first problem; empty if there is none."""
    problems = (measure_problems if measure else condition_problems)(sql, COLUMNS)
    return next((message for message, action in problems if action), "")


@pytest.mark.parametrize(
    "sql",
    [
        "price > 0 AND sold_at <= now()",
        "PRICE BETWEEN 0 AND 10 -- in euros",
        "comment IS NULL OR comment RLIKE '^[a-z]+$'",
        "`comment` <> ''",
        "sold_at > DATE'2020-01-01' - INTERVAL 1 DAY",
        "CASE WHEN price > 1 THEN comment = 'dear' ELSE true END",
        "exists(split(comment, ' '), word -> word <> '') AND size(filter(array(price), item -> item > 1)) = 1",
        "if(price > 1, 1, 0) <=> 1",
    ],
)
def test_a_condition_on_the_columns_of_a_row_is_accepted(sql: str) -> None:
    assert first_problem(sql) == ""


@pytest.mark.parametrize(
    "sql",
    [
        "count(*)",
        "sum(CAST(price AS DECIMAL(18,6)))",
        "count(*) FILTER (WHERE price > 1)",
        "max(struct(sold_at, comment)).comment",
        "percentile(price, 0.5)",
        "count(DISTINCT comment) - count_if(price > 1)",
        "size(collect_set(comment))",
        "array_join(sort_array(collect_list(comment)), ',')",
        "listagg(comment, ',') WITHIN GROUP (ORDER BY comment)",
    ],
)
def test_an_aggregate_that_does_not_depend_on_the_order_is_accepted(sql: str) -> None:
    assert first_problem(sql, measure=True) == ""


@pytest.mark.parametrize(
    "sql",
    [
        *("price) AND (price", "price >", "price > 1; DROP TABLE t", "SELECT price", "price FROM t", "price AS p", "*"),
        *("price > 'a", "price > 1 /* never", "show tables", "price, sold_at", "price > 0;"),
    ],
)
def test_a_text_that_is_not_one_expression_is_refused(sql: str) -> None:
    assert "is not a SQL expression" in first_problem(sql)
    assert "is not a SQL expression" in first_problem(sql, measure=True)


@pytest.mark.parametrize(
    "sql", ["price > (SELECT max(price) FROM t)", "sum(price) OVER () > 1", "(SELECT 1)", "price IN (VALUES 1)"]
)
def test_sql_that_reads_other_rows_is_refused(sql: str) -> None:
    assert "reads other rows" in first_problem(sql)


@pytest.mark.parametrize(("sql", "name"), [("cost > 0", "cost"), ("t.price > 0", "t"), ("max(x -> y)", "y")])
def test_the_error_names_an_unknown_column(sql: str, name: str) -> None:
    assert f"uses an unknown column: {name}" in first_problem(sql)


@pytest.mark.parametrize(
    "call",
    [
        *("rand()", "randn()", "random()", "uuid()", "shuffle(array(1))", "monotonically_increasing_id()"),
        *("spark_partition_id()", "input_file_name()", "reflect('a', 'b')", "java_method('a', 'b')"),
    ],
)
def test_random_functions_are_refused(call: str) -> None:
    assert "depends on chance" in first_problem(f"{call} IS NOT NULL")
    assert "depends on chance" in first_problem(f"max({call})", measure=True)


@pytest.mark.parametrize("call", ["now()", "current_date", "current_date()", "current_timestamp", "curdate()"])
def test_a_measure_cannot_depend_on_the_clock(call: str) -> None:
    assert "depends on the clock" in first_problem(f"count_if(sold_at < {call})", measure=True)


@pytest.mark.parametrize(
    "name",
    ["first", "first_value", "last", "last_value", "any_value", "array_agg", "collect_list", "collect_set", "listagg"],
)
def test_a_measure_cannot_depend_on_the_order_of_rows(name: str) -> None:
    assert "depends on the order of rows" in first_problem(f"{name}(price)", measure=True)
    assert f": {name}()" in first_problem(f"{name}(price)", measure=True) or name == "array_agg"


@pytest.mark.parametrize("sql", ["price > ?", ":least < price", "price > {{ least }}"])
def test_a_parameter_is_refused(sql: str) -> None:
    assert first_problem(sql)


def test_sql_that_is_nested_too_deeply_is_left_to_spark() -> None:
    assert first_problem("abs(" * 2_000 + "price" + ")" * 2_000) == ""


@pytest.mark.parametrize(
    "sql",
    [
        *(
            "max_by(comment, sold_at)",
            "mode(comment)",
            "percentile_approx(price, 0.5)",
            "stddev(price)",
            "std(price)",
            "regr_avgx(price, price)",
            "var_pop(price)",
        ),
        *("corr(price, price)", "regr_slope(price, price)", "size(split(first(comment), ','))", "skewness(price)"),
        *("array_max(array(last(price)))", "min_by(price, sold_at)", "histogram_numeric(price, 5)"),
    ],
)
def test_a_measure_that_picks_any_of_equal_rows_or_adds_doubles_is_refused(sql: str) -> None:
    assert "depends on the order of rows" in first_problem(sql, measure=True)


@pytest.mark.parametrize(
    "sql", ["sum(price * 2)", "sum(DISTINCT price)", "sum( (price) )", "try_sum(Price)", "avg(price)"]
)
def test_a_sum_of_doubles_is_refused_however_it_is_written(sql: str) -> None:
    assert [message for message, _ in measure_problems(sql, DOUBLES)] == [
        "a sum or mean of DOUBLE price depends on the order of its rows"
    ]
    assert not list(measure_problems("sum(CAST(price AS DECIMAL(18,6))) + max(price)", DOUBLES))


@pytest.mark.parametrize(
    "sql",
    [
        *("sum(double(id))", "avg(CAST(id AS DOUBLE))", "sum(id * 1e0)", "sum(power(id, 2))", "sum(sqrt(id))"),
        *("try_sum(float(id))", "sum(CAST(price AS DECIMAL(9,2))::DOUBLE)", "sum(few / id)", "sum(cot(few))"),
        *("avg(try_divide(few, 2))", "sum(name)", "avg(name)", "avg(id)", "avg(id * 2 + few)"),
    ],
)
def test_a_sum_of_values_converted_to_doubles_is_refused(sql: str) -> None:
    assert "depends on the order of its rows" in "".join(message for message, _ in measure_problems(sql, MIXED))
    exact = sql.replace("(", "(try_cast(", 1)[:-1] + " AS DECIMAL(18,6)))"
    messages = [message for message, _ in measure_problems(exact, MIXED)]
    are_endless_casts = ["1e-999999999" in message for message in messages]
    assert are_endless_casts == [True] * ("name" in sql), "the cast of a string may not end"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "name",
            "(name)",
            "trim(name)",
            "btrim(name)",
            "replace(name, ',', '.')",
            "coalesce(name, '0')",
            "name || '0'",
        ),
        *("CASE WHEN id > 1 THEN name END", "CASE WHEN id > 1 THEN '1' ELSE name END", "if(id > 1, '1', name)"),
        *("names[0]", "get(names, 0)", "info.note", "max(name)", "substring(name, 2)"),
    ],
)
def test_a_string_from_a_column_cannot_be_cast_to_a_decimal(text: str) -> None:
    columns = MIXED | {"names": "ARRAY<STRING>", "info": "STRUCT<note: STRING>"}
    for cast in (f"try_cast({text} AS DECIMAL(18,6))", f"decimal({text})", f"CAST({text} AS DECIMAL)"):
        problems = [*measure_problems(f"max({cast})", columns)]
        problems += [] if "max(" in text else condition_problems(f"{cast} > 0", columns)
        assert ["1e-999999999" in message for message, _ in problems] == [True] * (2 - ("max(" in text)), cast


@pytest.mark.parametrize(
    "number", ["length(name)", "CASE WHEN name = 'a' THEN 1 END", "CAST(name AS BIGINT)", "id", "'1'"]
)
def test_a_number_derived_from_a_string_can_be_cast_to_a_decimal(number: str) -> None:
    assert not [*measure_problems(f"max(try_cast({number} AS DECIMAL(18,6)))", MIXED)]
    assert not [*condition_problems(f"decimal({number}) > 0", MIXED)]


@pytest.mark.parametrize(
    "sql",
    [
        *("sum(price / id)", "sum(id / 2.0)", "avg(few)", "avg(price)", "sum(id)", "sum(length(name))", "count(name)"),
        *("sum(price) / sum(id)", "avg(if(id > 3, 1, 0))", "avg(id * 1.0)"),
    ],
)
def test_a_sum_of_decimals_or_integers_is_exact(sql: str) -> None:
    assert not list(measure_problems(sql, MIXED))


@pytest.mark.parametrize("sql", ["price", "price + 1", "explode(array(price))", "stack(2, price, 1)"])
def test_a_measure_without_an_aggregate_is_refused(sql: str) -> None:
    assert "is not an aggregate" in first_problem(sql, measure=True)


@pytest.mark.parametrize("sql", ["sum(price) > 1", "explode(array(price)) > 1", "price > max(price)"])
def test_a_condition_on_many_rows_is_refused(sql: str) -> None:
    assert "is not a condition on one row" in first_problem(sql)
