"""SQL of checks and rollups."""

from lakehouse.declaration import Measure
from lakehouse_tests.unit.declaration.advice.example import Example, of_check, of_measure, of_rollup
from lakehouse_tests.unit.declaration.ratings import (
    DOUBLES,
    SPOT,
    TAGS,
    column,
    computed,
    measures,
    with_check,
    with_measure,
)

NAME = column("n", "STRING")
OF_NAME = computed("CAST(n AS DECIMAL(18,6))", "m", "DECIMAL(18,6)")
EXAMPLES = [
    Example(
        "check 'a b': a name has at most 200 lower-case letters, digits and _, and starts with a letter",
        "Choose another name.",
        with_check("stars > 0", name="a b"),
        with_check("stars > 0", name="a_b"),
    ),
    Example(
        "check totals_match: the name is already used",
        "Choose another name. Every merged table has checks of its own.",
        with_check("stars > 0", name="totals_match"),
        with_check("stars > 0", name="stars_are_positive"),
    ),
    of_check("sql is empty", "Write a condition on a row, for example price > 0.", [" ", "stars > 0"]),
    of_rollup("by is empty", "Name at least one column.", by=[[], ["id"]]),
    of_rollup(
        "unknown column in by: genre",
        "The columns of the table are id, rated_at, rated_month, stars.",
        by=[["genre"], ["id"], ["rated_month"]],
    ),
    of_rollup("id is listed twice in by", "List it once.", by=[["id", "id"], ["id"]]),
    of_rollup(
        "measures is empty",
        "Declare at least one, for example Measure('count(*)', 'BIGINT', 'Rows.').",
        measures=[{}, {"ratings": Measure("count(*)", "BIGINT", "Rows.")}],
    ),
    of_rollup(
        "measure 'Ratings': a name has at most 200 lower-case letters, digits and _, and starts with a letter",
        "Choose another name.",
        measures=[measures("Ratings"), measures("ratings")],
    ),
    of_rollup(
        "measure id has the same name as a column in by",
        "Choose another name.",
        measures=[measures("id"), measures("ratings")],
    ),
    of_measure("sql is empty", "Write an aggregate, for example count(*).", [" ", "count(*)"]),
    of_rollup(
        "measure n: unknown type NUMBER",
        "Declare STRING, BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP or DECIMAL(precision,scale).",
        measures=[measures("n", type_="NUMBER"), measures("n", type_="BIGINT"), measures("n", type_="DECIMAL(9,2)")],
    ),
    of_check(
        "{} is not a SQL expression",
        "Write one Spark SQL expression. Put a name that is a SQL keyword in backticks.",
        ["stars >", "stars > 0"],
    ),
    of_check(
        "{} is not a SQL expression",
        "Write one Spark SQL expression. Put a name that is a SQL keyword in backticks.",
        ["case > 0", "`case` > 0"],
        column("case"),
    ),
    of_check(
        "{} reads other rows",
        "Use only columns of the table, without SELECT or OVER.",
        ["stars > (SELECT 1)", "stars > 1"],
    ),
    of_check("{} has a parameter without a value", "Write the value.", ["stars > :least", "stars > 1"]),
    of_check(
        "{} uses an unknown column: cost",
        "The columns of the table are _record, id, rated_at, stars.",
        ["cost > 0", "stars > 0"],
    ),
    of_measure(
        "{} depends on the clock: now()",
        "Remove it. The result must be the same each time.",
        ["count_if(rated_at < now())", "count_if(rated_at < TIMESTAMP '2026-01-01 00:00:00')"],
    ),
    of_measure(
        "{} depends on the order of rows: max_by()",
        "It picks any of equal rows. Write max(struct(by, value)).value.",
        ["max_by(stars, rated_at)", "max(struct(rated_at, stars)).stars"],
    ),
    of_measure(
        "{} depends on the order of rows: min_by()",
        "It picks any of equal rows. Write min(struct(by, value)).value.",
        ["min_by(stars, rated_at)", "min(struct(rated_at, stars)).stars"],
    ),
    of_check(
        "{} is not a condition on one row",
        "Use the columns of one row, without aggregates.",
        ["max(stars) > 1", "stars > 1"],
    ),
    of_measure(
        "{} is not an aggregate", "Write one, for example count(*) or max(price).", ["stars", "count(*)", "max(stars)"]
    ),
    of_measure(
        "a sum or mean of DOUBLE n depends on the order of its rows",
        "Add decimals, which are exact: write try_cast(... AS DECIMAL(18,6)) around what is added.",
        ["sum(n)", "sum(try_cast(n AS DECIMAL(18,6)))"],
        column("n", "DOUBLE"),
    ),
    of_measure(
        "a sum or mean of the quotient stars / 2, which is a double, depends on the order of its rows",
        "Add decimals, which are exact: write try_cast(... AS DECIMAL(18,6)) around what is added.",
        ["avg(stars / 2)", "avg(try_cast(stars / 2 AS DECIMAL(18,6)))"],
    ),
    of_measure(
        "a sum or mean of DOUBLE doubles depends on the order of its rows",
        "Add decimals, which are exact: write try_cast(... AS DECIMAL(18,6)) around what is added.",
        ["sum(CAST(doubles AS ARRAY<DOUBLE>)[0])", "sum(try_cast(CAST(doubles AS ARRAY<DOUBLE>)[0] AS DECIMAL(18,6)))"],
        DOUBLES,
    ),
    of_measure(
        "a sum or mean of DOUBLE spot depends on the order of its rows",
        "Add decimals, which are exact: write try_cast(... AS DECIMAL(18,6)) around what is added.",
        ["sum(spot.x)", "sum(try_cast(spot.x AS DECIMAL(18,6)))"],
        SPOT,
    ),
    Example(
        "rollup r: measure m: a sum or mean of STRING n, which is added as a double, depends on the order of its rows",
        "Declare a computed column with sql='CAST(... AS DECIMAL(18,6))', and use that. If no column can be "
        "computed from it, write try_cast(try_cast(... AS DOUBLE) AS DECIMAL(18,6)).",
        with_measure("sum(n)", NAME),
        with_measure("sum(m)", NAME, OF_NAME),
        with_measure("sum(try_cast(try_cast(n AS DOUBLE) AS DECIMAL(18,6)))", NAME),
    ),
    Example(
        "rollup r: measure m: CAST(n AS DECIMAL(9, 2)) fails, or does not end, for a string such as 1e-999999999",
        "Declare a computed column with sql='CAST(... AS DECIMAL(18,6))', and use that. If no column can be "
        "computed from it, write try_cast(try_cast(... AS DOUBLE) AS DECIMAL(18,6)).",
        with_measure("max(CAST(n AS DECIMAL(9,2)))", NAME),
        with_measure("max(m)", NAME, OF_NAME),
        with_measure("max(try_cast(try_cast(n AS DOUBLE) AS DECIMAL(18,6)))", NAME),
    ),
    of_check(
        "CAST(tags[0] AS DECIMAL(9, 2)) fails, or does not end, for a string such as 1e-999999999",
        "Declare a computed column with sql='CAST(... AS DECIMAL(18,6))', and use that. If no column can be "
        "computed from it, write try_cast(try_cast(... AS DOUBLE) AS DECIMAL(18,6)).",
        ["CAST(tags[0] AS DECIMAL(9,2)) > 0", "try_cast(try_cast(tags[0] AS DOUBLE) AS DECIMAL(18,6)) > 0"],
        TAGS,
    ),
]
