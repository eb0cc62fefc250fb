"""SQL of checks and rollups."""

from lakehouse.declaration import Measure
from lakehouse_tests.unit.declaration.advice.example import Example
from lakehouse_tests.unit.declaration.ratings import (
    DOUBLES,
    SPOT,
    TAGS,
    column,
    computed,
    measures,
    with_check,
    with_measure,
    with_rollup,
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
    Example(
        "check c: sql is empty",
        "Write a condition on a row, for example price > 0.",
        with_check(" "),
        with_check("stars > 0"),
    ),
    Example(
        "rollup by_movie: by is empty",
        "Name at least one column.",
        with_rollup(by=[]),
        with_rollup(by=["id"]),
    ),
    Example(
        "rollup by_movie: unknown column in by: genre",
        "The columns of the table are id, rated_at, rated_month, stars.",
        with_rollup(by=["genre"]),
        with_rollup(by=["id"]),
        with_rollup(by=["rated_month"]),
    ),
    Example(
        "rollup by_movie: id is listed twice in by",
        "List it once.",
        with_rollup(by=["id", "id"]),
        with_rollup(by=["id"]),
    ),
    Example(
        "rollup by_movie: measures is empty",
        "Declare at least one, for example Measure('count(*)', 'BIGINT', 'Rows.').",
        with_rollup(measures={}),
        with_rollup(measures={"ratings": Measure("count(*)", "BIGINT", "Rows.")}),
    ),
    Example(
        (
            "rollup by_movie: measure 'Ratings': a name has at most 200 lower-case letters, digits and _, and starts "
            "with a letter"
        ),
        "Choose another name.",
        with_rollup(measures=measures("Ratings")),
        with_rollup(measures=measures("ratings")),
    ),
    Example(
        "rollup by_movie: measure id has the same name as a column in by",
        "Choose another name.",
        with_rollup(measures=measures("id")),
        with_rollup(measures=measures("ratings")),
    ),
    Example(
        "rollup r: measure m: sql is empty",
        "Write an aggregate, for example count(*).",
        with_measure(" "),
        with_measure("count(*)"),
    ),
    Example(
        "rollup by_movie: measure n: unknown type NUMBER",
        "Declare STRING, BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP or DECIMAL(precision,scale).",
        with_rollup(measures=measures("n", type_="NUMBER")),
        with_rollup(measures=measures("n", type_="BIGINT")),
        with_rollup(measures=measures("n", type_="DECIMAL(9,2)")),
    ),
    Example(
        "check c: 'stars >' is not a SQL expression",
        "Write one Spark SQL expression. Put a name that is a SQL keyword in backticks.",
        with_check("stars >"),
        with_check("stars > 0"),
    ),
    Example(
        "check c: 'case > 0' is not a SQL expression",
        "Write one Spark SQL expression. Put a name that is a SQL keyword in backticks.",
        with_check("case > 0", column("case")),
        with_check("`case` > 0", column("case")),
    ),
    Example(
        "check c: 'stars > (SELECT 1)' reads other rows",
        "Use only columns of the table, without SELECT or OVER.",
        with_check("stars > (SELECT 1)"),
        with_check("stars > 1"),
    ),
    Example(
        "check c: 'stars > :least' has a parameter without a value",
        "Write the value.",
        with_check("stars > :least"),
        with_check("stars > 1"),
    ),
    Example(
        "check c: 'cost > 0' uses an unknown column: cost",
        "The columns of the table are _record, id, rated_at, stars.",
        with_check("cost > 0"),
        with_check("stars > 0"),
    ),
    Example(
        "rollup r: measure m: 'count_if(rated_at < now())' depends on the clock: now()",
        "Remove it. The result must be the same each time.",
        with_measure("count_if(rated_at < now())"),
        with_measure("count_if(rated_at < TIMESTAMP '2026-01-01 00:00:00')"),
    ),
    Example(
        "rollup r: measure m: 'max_by(stars, rated_at)' depends on the order of rows: max_by()",
        "It picks any of equal rows. Write max(struct(by, value)).value.",
        with_measure("max_by(stars, rated_at)"),
        with_measure("max(struct(rated_at, stars)).stars"),
    ),
    Example(
        "rollup r: measure m: 'min_by(stars, rated_at)' depends on the order of rows: min_by()",
        "It picks any of equal rows. Write min(struct(by, value)).value.",
        with_measure("min_by(stars, rated_at)"),
        with_measure("min(struct(rated_at, stars)).stars"),
    ),
    Example(
        "check c: 'max(stars) > 1' is not a condition on one row",
        "Use the columns of one row, without aggregates.",
        with_check("max(stars) > 1"),
        with_check("stars > 1"),
    ),
    Example(
        "rollup r: measure m: 'stars' is not an aggregate",
        "Write one, for example count(*) or max(price).",
        with_measure("stars"),
        with_measure("count(*)"),
        with_measure("max(stars)"),
    ),
    Example(
        "rollup r: measure m: a sum or mean of DOUBLE n depends on the order of its rows",
        "Add decimals, which are exact: write try_cast(... AS DECIMAL(18,6)) around what is added.",
        with_measure("sum(n)", column("n", "DOUBLE")),
        with_measure("sum(try_cast(n AS DECIMAL(18,6)))", column("n", "DOUBLE")),
    ),
    Example(
        (
            "rollup r: measure m: a sum or mean of the quotient stars / 2, which is a double, depends on the order of "
            "its rows"
        ),
        "Add decimals, which are exact: write try_cast(... AS DECIMAL(18,6)) around what is added.",
        with_measure("avg(stars / 2)"),
        with_measure("avg(try_cast(stars / 2 AS DECIMAL(18,6)))"),
    ),
    Example(
        "rollup r: measure m: a sum or mean of DOUBLE doubles depends on the order of its rows",
        "Add decimals, which are exact: write try_cast(... AS DECIMAL(18,6)) around what is added.",
        with_measure("sum(CAST(doubles AS ARRAY<DOUBLE>)[0])", DOUBLES),
        with_measure("sum(try_cast(CAST(doubles AS ARRAY<DOUBLE>)[0] AS DECIMAL(18,6)))", DOUBLES),
    ),
    Example(
        "rollup r: measure m: a sum or mean of DOUBLE spot depends on the order of its rows",
        "Add decimals, which are exact: write try_cast(... AS DECIMAL(18,6)) around what is added.",
        with_measure("sum(spot.x)", SPOT),
        with_measure("sum(try_cast(spot.x AS DECIMAL(18,6)))", SPOT),
    ),
    Example(
        "rollup r: measure m: a sum or mean of STRING n, which is added as a double, depends on the order of its rows",
        (
            "Declare a computed column with sql='CAST(... AS DECIMAL(18,6))', and use that. If no column can be "
            "computed from it, write try_cast(try_cast(... AS DOUBLE) AS DECIMAL(18,6))."
        ),
        with_measure("sum(n)", NAME),
        with_measure("sum(m)", NAME, OF_NAME),
        with_measure("sum(try_cast(try_cast(n AS DOUBLE) AS DECIMAL(18,6)))", NAME),
    ),
    Example(
        "rollup r: measure m: CAST(n AS DECIMAL(9, 2)) fails, or does not end, for a string such as 1e-999999999",
        (
            "Declare a computed column with sql='CAST(... AS DECIMAL(18,6))', and use that. If no column can be "
            "computed from it, write try_cast(try_cast(... AS DOUBLE) AS DECIMAL(18,6))."
        ),
        with_measure("max(CAST(n AS DECIMAL(9,2)))", NAME),
        with_measure("max(m)", NAME, OF_NAME),
        with_measure("max(try_cast(try_cast(n AS DOUBLE) AS DECIMAL(18,6)))", NAME),
    ),
    Example(
        "check c: CAST(tags[0] AS DECIMAL(9, 2)) fails, or does not end, for a string such as 1e-999999999",
        (
            "Declare a computed column with sql='CAST(... AS DECIMAL(18,6))', and use that. If no column can be "
            "computed from it, write try_cast(try_cast(... AS DOUBLE) AS DECIMAL(18,6))."
        ),
        with_check("CAST(tags[0] AS DECIMAL(9,2)) > 0", TAGS),
        with_check("try_cast(try_cast(tags[0] AS DOUBLE) AS DECIMAL(18,6)) > 0", TAGS),
    ),
]
