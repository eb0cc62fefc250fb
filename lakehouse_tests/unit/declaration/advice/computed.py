"""SQL of computed columns."""

from lakehouse_tests.unit.declaration.advice.example import Example, of_computed
from lakehouse_tests.unit.declaration.ratings import column, computed, with_columns, with_computed

LONG_SUM = " + ".join(["stars"] * 3_000)
ABSOLUTE = "abs(" * 7 + "price" + ")" * 7
JOINED_TEXTS = " || ".join(["name"] * 65)
SUPPORTED = (
    "Use only the functions and operators that the page Declaration of the documentation lists for computed columns."
)
EXAMPLES = [
    of_computed(
        "{}: this is not a SQL expression",
        "Write one Spark SQL expression. Put a name that is a SQL keyword in backticks.",
        ["stars +", "stars + 1"],
    ),
    Example(
        f"column n: '{LONG_SUM[:200]} ...': the expression is nested too deeply",
        "Write it with fewer levels.",
        with_computed(LONG_SUM),
        with_computed("stars + stars"),
    ),
    of_computed(
        "{}: unsupported part: utc",
        "Remove it, or use another function.",
        ["date(rated_at, 'UTC')", "date(rated_at)", "CAST(rated_at AS DATE)"],
        "DATE",
    ),
    of_computed(
        "{}: two string literals follow each other, first 'O'",
        "Write a comma between them, or one literal, in which a quote is written as \\'.",
        ["name = 'O''Brien'", r"name = 'O\'Brien'"],
        "BOOLEAN",
    ),
    of_computed(
        "{}: two string literals follow each other, first 'a'",
        "Write a comma between them, or one literal, in which a quote is written as \\'.",
        ["concat('a' 'b')", "concat('a', 'b')"],
        "STRING",
    ),
    Example(
        f"column n: {ABSOLUTE!r}: a part of it expands to 47006 characters",
        "Write it with fewer levels.",
        with_computed(ABSOLUTE, "DECIMAL(12,2)"),
        with_computed("abs(price)", "DECIMAL(12,2)"),
    ),
    of_computed(
        "{}: the expression returns a double, but the column is INT",
        "Write CAST(... AS INT).",
        ["weight", "CAST(weight AS INT)"],
    ),
    of_computed(
        "{}: the expression returns an integer, but the column is STRING",
        "Write CAST(... AS STRING).",
        ["stars", "CAST(stars AS STRING)"],
        "STRING",
    ),
    Example(
        "column n: 'name': the expression returns a string, but the column is DATE",
        "No cast converts one to the other. Declare the column as STRING.",
        with_computed("name", "DATE"),
        with_computed("name", "STRING"),
    ),
    Example(
        "column n: 'rated_at': the expression returns a timestamp, but the column is BIGINT",
        "No cast converts one to the other. Declare the column as TIMESTAMP.",
        with_computed("rated_at", "BIGINT"),
        with_computed("rated_at", "TIMESTAMP"),
    ),
    Example(
        "column n: 'price': the expression returns a decimal, but the column is BOOLEAN",
        "No cast converts one to the other. Declare the column as DECIMAL(precision,scale).",
        with_computed("price", "BOOLEAN"),
        with_computed("price", "DECIMAL(12,2)"),
    ),
    of_computed(
        "{}: 'a\\\\b' contains a backslash, a null character or invalid UTF-8",
        "Write a string without it.",
        [r"name || 'a\\b'", "name || 'aA'"],
        "STRING",
    ),
    of_computed(
        "{}: 1e999 exceeds the range of a double", "Correct the number.", ["weight > 1e999", "weight > 1e99"], "BOOLEAN"
    ),
    of_computed(
        "'price > 111111111111111111111111111111111111111': 111111111111111111111111111111111111111 has 39 digits",
        "Write at most 38.",
        [f"price > {'1' * 39}", f"price > {'1' * 38}"],
        "BOOLEAN",
    ),
    Example(
        "column n: CAST(name AS BINARY) casts to an unsupported type",
        "Cast to STRING, BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP or DECIMAL(precision,scale).",
        with_computed("CAST(name AS BINARY)", "STRING"),
        with_computed("CAST(name AS STRING)", "STRING"),
        with_computed("CAST(name AS DECIMAL(9,2))", "DECIMAL(9,2)"),
    ),
    of_computed(
        "{}: '2026-02-30' is not a valid DATE",
        "Write it in the form 2026-01-31.",
        ["DATE '2026-02-30'", "DATE '2026-01-31'"],
        "DATE",
    ),
    of_computed(
        "{}: '2026-01-31' is not a valid TIMESTAMP",
        "Write it in the form 2026-01-31 12:00:00.",
        ["TIMESTAMP '2026-01-31'", "TIMESTAMP '2026-01-31 12:00:00'"],
        "TIMESTAMP",
    ),
    of_computed(
        "{}: '2026-01-31 12:00:00+02:00' has a time zone",
        "Times are in UTC. Write it without a zone.",
        ["TIMESTAMP '2026-01-31 12:00:00+02:00'", "TIMESTAMP '2026-01-31 12:00:00'"],
        "TIMESTAMP",
    ),
    of_computed(
        "{}: paid < paid is an operand of a comparison",
        "Put it in parentheses.",
        ["paid = paid < paid", "paid = (paid < paid)"],
        "BOOLEAN",
    ),
    of_computed(
        "{}: REPLACE(name, 'a', name) could return a string that is too large",
        "Write both as string literals. The replacement may have up to 4 characters, or the length of the searched "
        "string.",
        ["replace(name, 'a', name)", "replace(name, 'a', '1234')", "replace(name, 'abcdef', '123456')"],
        "STRING",
    ),
    Example(
        f"column n: '{JOINED_TEXTS[:200]} ...': {' || '.join(['name'] * 10)} || … "
        "could return a string more than 64 times as long as its inputs",
        "Concatenate fewer strings, or replace fewer.",
        with_computed(JOINED_TEXTS, "STRING"),
        with_computed("name || name", "STRING"),
    ),
    of_computed(
        "{}: a function has too few arguments",
        "See the arguments of Spark's function.",
        ["datediff(day)", "CAST(datediff(day, DATE '2026-01-31') AS INT)"],
    ),
    of_computed("name RLIKE 'a' is not supported", SUPPORTED, ["name RLIKE 'a'", "name LIKE '%a%'"], "BOOLEAN"),
    of_computed("stars IS 1 is not supported", SUPPORTED, ["stars IS 1", "stars = 1"], "BOOLEAN"),
    of_computed("stars IN () is not supported", SUPPORTED, ["stars IN ()", "stars IN (1)"], "BOOLEAN"),
    of_computed(
        "{}: stars is an integer, but must be a string",
        "Convert it: CAST(stars AS STRING).",
        ["name || stars", "name || CAST(stars AS STRING)"],
        "STRING",
    ),
    of_computed(
        "{}: name is a string, but must be an integer or a decimal or a double",
        SUPPORTED,
        ["stars + name", "stars + CAST(name AS INT)"],
    ),
    of_computed(
        "{}: these cannot be combined: name (a string), stars (an integer)",
        "There are no implicit conversions: CAST one. unix_seconds() converts a TIMESTAMP to a number.",
        ["name = stars", "CAST(name AS INT) = stars", "name = CAST(stars AS STRING)"],
        "BOOLEAN",
    ),
    of_computed(
        "{}: these cannot be combined: rated_at (a timestamp), 86400 (an integer)",
        "There are no implicit conversions: CAST one. unix_seconds() converts a TIMESTAMP to a number.",
        ["rated_at > 86400", "unix_seconds(rated_at) > 86400"],
        "BOOLEAN",
    ),
    of_computed(
        "{}: these cannot be combined: day (a date), 5 (an integer)",
        "There are no implicit conversions: CAST one. unix_seconds() converts a TIMESTAMP to a number.",
        ["day > 5", "unix_seconds(CAST(day AS TIMESTAMP)) > 5"],
        "BOOLEAN",
    ),
    of_computed(
        "{}: these cannot be combined: day (a date), '2026-01-01' (a string)",
        "There are no implicit conversions: CAST one. unix_seconds() converts a TIMESTAMP to a number.",
        ["day > '2026-01-01'", "day > CAST('2026-01-01' AS DATE)"],
        "BOOLEAN",
    ),
    of_computed(
        "cost is not a column that is read from records",
        "The columns are day, id, name, paid, price, rated_at, stars, weight.",
        ["cost", "stars"],
    ),
    of_computed("'n + 1': n is a computed column", "Write its expression in its place.", ["n + 1", "stars + 1"]),
    Example(
        "column m: 'n + 1': n has keep: its value may be of an older record than the row, and is known when it is"
        " stored",
        "Compute it in a view, or remove keep.",
        with_columns(column(keep=True), computed("n + 1", "m")),
        with_columns(column(), computed("n + 1", "m")),
    ),
    Example(
        "column m: 'n + 1': n is ARRAY<INT>",
        "Declare the field that you need as a column, or compute it in a view.",
        with_columns(column(type_="ARRAY<INT>"), computed("n + 1", "m")),
        with_columns(column(), computed("n + 1", "m")),
    ),
    of_computed(
        "{}: SPLIT_PART(name, ',') has arguments that split_part() does not support",
        SUPPORTED,
        ["split_part(name, ',')", "split_part(name, ',', 1)"],
        "STRING",
    ),
    of_computed(
        "{}: split_part() counts from 1",
        "Write another number.",
        ["split_part(name, ',', 0)", "split_part(name, ',', 1)"],
        "STRING",
    ),
    of_computed(
        "{}: round() to -1 places is not supported",
        "Write 0 to 38 places.",
        ["round(price, -1)", "round(price, 0)"],
        "DECIMAL(12,2)",
    ),
    of_computed(
        "{}: stars is not an integer literal",
        "Write a number, for example left(name, 3).",
        ["left(name, stars)", "left(name, 3)"],
        "STRING",
    ),
    of_computed(
        "{}: GREATEST(stars) has only one argument", "Write at least two.", ["greatest(stars)", "greatest(stars, 3)"]
    ),
    of_computed(
        "{}: name LIKE LOWER(name) is not supported",
        "Write a string literal without a backslash.",
        ["name LIKE lower(name)", "name LIKE 'a%'"],
        "BOOLEAN",
    ),
    of_computed(
        "name LIKE '%a%b' has two % before its last word",
        "Write one % before the last word. For more, combine LIKE with AND, or use contains().",
        ["name LIKE '%a%b'", "name LIKE '%a%' AND name LIKE '%b'", "contains(name, 'a') AND name LIKE '%b'"],
        "BOOLEAN",
    ),
    of_computed(
        "{}: date_trunc() by WEEK is not supported",
        "The units are YEAR, QUARTER, MONTH, DAY, HOUR, MINUTE, SECOND.",
        ["date_trunc('WEEK', rated_at)", "date_trunc('MONTH', rated_at)"],
        "TIMESTAMP",
    ),
]
