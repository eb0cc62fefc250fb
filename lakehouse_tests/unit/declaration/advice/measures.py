"""SQL of checks and rollups."""

from lakehouse.declaration import Measure
from lakehouse_tests.unit.declaration.advice.example import Example
from lakehouse_tests.unit.declaration.ratings import DOUBLES, SPOT, TAGS, checking, column, grouped, measures, measuring

NAME = column("n", "STRING")
OF_NAME = column("m", "DECIMAL(18,6)", sql="CAST(n AS DECIMAL(18,6))")
EXAMPLES = [
    Example(
        "check 'a b': names are lower case letters, digits and _, begin with a letter and have at most 200 characters",
        "Choose another name.",
        checking("stars > 0", name="a b"),
        checking("stars > 0", name="a_b"),
    ),
    Example(
        "check totals: the name is taken",
        "Choose another name: every merged table has some of its own.",
        checking("stars > 0", name="totals"),
        checking("stars > 0", name="stars_are_positive"),
    ),
    Example(
        "check c: has no SQL",
        "Declare a condition of a row, as price > 0.",
        checking(" "),
        checking("stars > 0"),
    ),
    Example(
        "rollup by_movie: groups by nothing",
        "Name at least one column.",
        grouped(by=[]),
        grouped(by=["id"]),
    ),
    Example(
        "rollup by_movie: groups by unknown columns: genre",
        "The table has id, rated_at, rated_month, stars.",
        grouped(by=["genre"]),
        grouped(by=["id"]),
        grouped(by=["rated_month"]),
    ),
    Example(
        "rollup by_movie: groups by id twice",
        "Name it once.",
        grouped(by=["id", "id"]),
        grouped(by=["id"]),
    ),
    Example(
        "rollup by_movie: has no measure",
        "Declare at least one, as Measure('count(*)', 'BIGINT', 'Rows.').",
        grouped(measures={}),
        grouped(measures={"ratings": Measure("count(*)", "BIGINT", "Rows.")}),
    ),
    Example(
        (
            "rollup by_movie: measure 'Ratings': names are lower case letters, digits and _, begin with a letter and "
            "have at most 200 characters"
        ),
        "Choose another name.",
        grouped(measures=measures("Ratings")),
        grouped(measures=measures("ratings")),
    ),
    Example(
        "rollup by_movie: measure id is named like a column it groups by",
        "Choose another name.",
        grouped(measures=measures("id")),
        grouped(measures=measures("ratings")),
    ),
    Example(
        "rollup r: measure m: has no SQL",
        "Declare an aggregate, as count(*).",
        measuring(" "),
        measuring("count(*)"),
    ),
    Example(
        "rollup by_movie: measure n: unknown type NUMBER",
        "Declare STRING, BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP or DECIMAL(precision,scale).",
        grouped(measures=measures("n", type_="NUMBER")),
        grouped(measures=measures("n", type_="BIGINT")),
        grouped(measures=measures("n", type_="DECIMAL(9,2)")),
    ),
    Example(
        "check c: 'stars >' is no SQL expression",
        "Write one expression of Spark's SQL; a name that is a word of SQL stands in backticks.",
        checking("stars >"),
        checking("stars > 0"),
    ),
    Example(
        "check c: 'case > 0' is no SQL expression",
        "Write one expression of Spark's SQL; a name that is a word of SQL stands in backticks.",
        checking("case > 0", column("case")),
        checking("`case` > 0", column("case")),
    ),
    Example(
        "check c: 'stars > (SELECT 1)' looks at other rows",
        "Write it over the columns of the table alone, without SELECT or OVER.",
        checking("stars > (SELECT 1)"),
        checking("stars > 1"),
    ),
    Example(
        "check c: 'stars > :least' has a parameter, which nobody fills in",
        "Write the value.",
        checking("stars > :least"),
        checking("stars > 1"),
    ),
    Example(
        "check c: 'cost > 0' names an unknown column: cost",
        "The table has _record, id, rated_at, stars.",
        checking("cost > 0"),
        checking("stars > 0"),
    ),
    Example(
        "rollup r: measure m: 'count_if(rated_at < now())' differs by the clock: now()",
        "Leave it out: it has to give the same each time.",
        measuring("count_if(rated_at < now())"),
        measuring("count_if(rated_at < TIMESTAMP '2026-01-01 00:00:00')"),
    ),
    Example(
        "rollup r: measure m: 'max_by(stars, rated_at)' differs by the order in which rows meet: max_by()",
        "Of equals it takes any: write max(struct(by, value)).value.",
        measuring("max_by(stars, rated_at)"),
        measuring("max(struct(rated_at, stars)).stars"),
    ),
    Example(
        "rollup r: measure m: 'min_by(stars, rated_at)' differs by the order in which rows meet: min_by()",
        "Of equals it takes any: write min(struct(by, value)).value.",
        measuring("min_by(stars, rated_at)"),
        measuring("min(struct(rated_at, stars)).stars"),
    ),
    Example(
        "check c: 'max(stars) > 1' is no condition of one row",
        "Write it over the columns of a row, without aggregates.",
        checking("max(stars) > 1"),
        checking("stars > 1"),
    ),
    Example(
        "rollup r: measure m: 'stars' is no aggregate",
        "Write one, as count(*) or max(price).",
        measuring("stars"),
        measuring("count(*)"),
        measuring("max(stars)"),
    ),
    Example(
        "rollup r: measure m: a sum or mean of DOUBLE n depends on the order of its rows",
        "Add decimals, which are exact: try_cast(... AS DECIMAL(18,6)) around what is added.",
        measuring("sum(n)", column("n", "DOUBLE")),
        measuring("sum(try_cast(n AS DECIMAL(18,6)))", column("n", "DOUBLE")),
    ),
    Example(
        (
            "rollup r: measure m: a sum or mean of a quotient, stars / 2, which is a double, depends on the order of "
            "its rows"
        ),
        "Add decimals, which are exact: try_cast(... AS DECIMAL(18,6)) around what is added.",
        measuring("avg(stars / 2)"),
        measuring("avg(try_cast(stars / 2 AS DECIMAL(18,6)))"),
    ),
    Example(
        "rollup r: measure m: a sum or mean of DOUBLE doubles depends on the order of its rows",
        "Add decimals, which are exact: try_cast(... AS DECIMAL(18,6)) around what is added.",
        measuring("sum(CAST(doubles AS ARRAY<DOUBLE>)[0])", DOUBLES),
        measuring("sum(try_cast(CAST(doubles AS ARRAY<DOUBLE>)[0] AS DECIMAL(18,6)))", DOUBLES),
    ),
    Example(
        "rollup r: measure m: a sum or mean of DOUBLE spot depends on the order of its rows",
        "Add decimals, which are exact: try_cast(... AS DECIMAL(18,6)) around what is added.",
        measuring("sum(spot.x)", SPOT),
        measuring("sum(try_cast(spot.x AS DECIMAL(18,6)))", SPOT),
    ),
    Example(
        "rollup r: measure m: a sum or mean of STRING n, as which doubles are added, depends on the order of its rows",
        (
            "Declare a column that is computed from it, with sql='CAST(... AS DECIMAL(18,6))', and take that; where "
            "no column can be computed from it, write try_cast(try_cast(... AS DOUBLE) AS DECIMAL(18,6))."
        ),
        measuring("sum(n)", NAME),
        measuring("sum(m)", NAME, OF_NAME),
        measuring("sum(try_cast(try_cast(n AS DOUBLE) AS DECIMAL(18,6)))", NAME),
    ),
    Example(
        "rollup r: measure m: CAST(n AS DECIMAL(9, 2)) fails for a text such as 1e-999999999, or does not end",
        (
            "Declare a column that is computed from it, with sql='CAST(... AS DECIMAL(18,6))', and take that; where "
            "no column can be computed from it, write try_cast(try_cast(... AS DOUBLE) AS DECIMAL(18,6))."
        ),
        measuring("max(CAST(n AS DECIMAL(9,2)))", NAME),
        measuring("max(m)", NAME, OF_NAME),
        measuring("max(try_cast(try_cast(n AS DOUBLE) AS DECIMAL(18,6)))", NAME),
    ),
    Example(
        "check c: CAST(tags[0] AS DECIMAL(9, 2)) fails for a text such as 1e-999999999, or does not end",
        (
            "Declare a column that is computed from it, with sql='CAST(... AS DECIMAL(18,6))', and take that; where "
            "no column can be computed from it, write try_cast(try_cast(... AS DOUBLE) AS DECIMAL(18,6))."
        ),
        checking("CAST(tags[0] AS DECIMAL(9,2)) > 0", TAGS),
        checking("try_cast(try_cast(tags[0] AS DOUBLE) AS DECIMAL(18,6)) > 0", TAGS),
    ),
]
