"""SQL of computed columns."""

from lakehouse_tests.unit.declaration.advice.example import Example
from lakehouse_tests.unit.declaration.ratings import with_computed

LONG_SUM = " + ".join(["stars"] * 3_000)
ABSOLUTE = "abs(" * 7 + "price" + ")" * 7
JOINED_TEXTS = " || ".join(["name"] * 65)
SUPPORTED = (
    "Use only the functions and operators that the page Declaration of the documentation lists for computed columns."
)
EXAMPLES = [
    Example(
        "column n: 'stars +': this is not a SQL expression",
        "Write one Spark SQL expression. Put a name that is a SQL keyword in backticks.",
        with_computed("stars +"),
        with_computed("stars + 1"),
    ),
    Example(
        f"column n: '{LONG_SUM[:200]} ...': the expression is nested too deeply",
        "Write it with fewer levels.",
        with_computed(LONG_SUM),
        with_computed("stars + stars"),
    ),
    Example(
        "column n: \"date(rated_at, 'UTC')\": unsupported part: utc",
        "Remove it, or use another function.",
        with_computed("date(rated_at, 'UTC')", "DATE"),
        with_computed("date(rated_at)", "DATE"),
        with_computed("CAST(rated_at AS DATE)", "DATE"),
    ),
    Example(
        "column n: \"name = 'O''Brien'\": two string literals follow each other, first 'O'",
        "Write a comma between them, or one literal, in which a quote is written as \\'.",
        with_computed("name = 'O''Brien'", "BOOLEAN"),
        with_computed(r"name = 'O\'Brien'", "BOOLEAN"),
    ),
    Example(
        "column n: \"concat('a' 'b')\": two string literals follow each other, first 'a'",
        "Write a comma between them, or one literal, in which a quote is written as \\'.",
        with_computed("concat('a' 'b')", "STRING"),
        with_computed("concat('a', 'b')", "STRING"),
    ),
    Example(
        f"column n: {ABSOLUTE!r}: a part of it expands to 47006 characters",
        "Write it with fewer levels.",
        with_computed(ABSOLUTE, "DECIMAL(12,2)"),
        with_computed("abs(price)", "DECIMAL(12,2)"),
    ),
    Example(
        "column n: 'weight': the expression returns a double, but the column is INT",
        "Write CAST(... AS INT).",
        with_computed("weight"),
        with_computed("CAST(weight AS INT)"),
    ),
    Example(
        "column n: 'stars': the expression returns an integer, but the column is STRING",
        "Write CAST(... AS STRING).",
        with_computed("stars", "STRING"),
        with_computed("CAST(stars AS STRING)", "STRING"),
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
    Example(
        "column n: \"name || 'a\\\\\\\\b'\": 'a\\\\b' contains a backslash, a null character or invalid UTF-8",
        "Write a string without it.",
        with_computed(r"name || 'a\\b'", "STRING"),
        with_computed("name || 'aA'", "STRING"),
    ),
    Example(
        "column n: 'weight > 1e999': 1e999 exceeds the range of a double",
        "Correct the number.",
        with_computed("weight > 1e999", "BOOLEAN"),
        with_computed("weight > 1e99", "BOOLEAN"),
    ),
    Example(
        (
            "column n: 'price > 111111111111111111111111111111111111111': 111111111111111111111111111111111111111 "
            "has 39 digits"
        ),
        "Write at most 38.",
        with_computed(f"price > {'1' * 39}", "BOOLEAN"),
        with_computed(f"price > {'1' * 38}", "BOOLEAN"),
    ),
    Example(
        "column n: CAST(name AS BINARY) casts to an unsupported type",
        "Cast to STRING, BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP or DECIMAL(precision,scale).",
        with_computed("CAST(name AS BINARY)", "STRING"),
        with_computed("CAST(name AS STRING)", "STRING"),
        with_computed("CAST(name AS DECIMAL(9,2))", "DECIMAL(9,2)"),
    ),
    Example(
        "column n: \"DATE '2026-02-30'\": '2026-02-30' is not a valid DATE",
        "Write it in the form 2026-01-31.",
        with_computed("DATE '2026-02-30'", "DATE"),
        with_computed("DATE '2026-01-31'", "DATE"),
    ),
    Example(
        "column n: \"TIMESTAMP '2026-01-31'\": '2026-01-31' is not a valid TIMESTAMP",
        "Write it in the form 2026-01-31 12:00:00.",
        with_computed("TIMESTAMP '2026-01-31'", "TIMESTAMP"),
        with_computed("TIMESTAMP '2026-01-31 12:00:00'", "TIMESTAMP"),
    ),
    Example(
        "column n: \"TIMESTAMP '2026-01-31 12:00:00+02:00'\": '2026-01-31 12:00:00+02:00' has a time zone",
        "Times are in UTC. Write it without a zone.",
        with_computed("TIMESTAMP '2026-01-31 12:00:00+02:00'", "TIMESTAMP"),
        with_computed("TIMESTAMP '2026-01-31 12:00:00'", "TIMESTAMP"),
    ),
    Example(
        "column n: 'paid = paid < paid': paid < paid is an operand of a comparison",
        "Put it in parentheses.",
        with_computed("paid = paid < paid", "BOOLEAN"),
        with_computed("paid = (paid < paid)", "BOOLEAN"),
    ),
    Example(
        "column n: \"replace(name, 'a', name)\": REPLACE(name, 'a', name) could return a string that is too large",
        (
            "Write both as string literals. The replacement may have up to 4 characters, or the length of the searched "
            "string."
        ),
        with_computed("replace(name, 'a', name)", "STRING"),
        with_computed("replace(name, 'a', '1234')", "STRING"),
        with_computed("replace(name, 'abcdef', '123456')", "STRING"),
    ),
    Example(
        (
            f"column n: '{JOINED_TEXTS[:200]} ...': {' || '.join(['name'] * 10)} || … "
            "could return a string more than 64 times as long as its inputs"
        ),
        "Concatenate fewer strings, or replace fewer.",
        with_computed(JOINED_TEXTS, "STRING"),
        with_computed("name || name", "STRING"),
    ),
    Example(
        "column n: 'datediff(day)': a function has too few arguments",
        "See the arguments of Spark's function.",
        with_computed("datediff(day)"),
        with_computed("CAST(datediff(day, DATE '2026-01-31') AS INT)"),
    ),
    Example(
        "column n: name RLIKE 'a' is not supported",
        SUPPORTED,
        with_computed("name RLIKE 'a'", "BOOLEAN"),
        with_computed("name LIKE '%a%'", "BOOLEAN"),
    ),
    Example(
        "column n: stars IS 1 is not supported",
        SUPPORTED,
        with_computed("stars IS 1", "BOOLEAN"),
        with_computed("stars = 1", "BOOLEAN"),
    ),
    Example(
        "column n: stars IN () is not supported",
        SUPPORTED,
        with_computed("stars IN ()", "BOOLEAN"),
        with_computed("stars IN (1)", "BOOLEAN"),
    ),
    Example(
        "column n: 'name || stars': stars is an integer, but must be a string",
        "Convert it: CAST(stars AS STRING).",
        with_computed("name || stars", "STRING"),
        with_computed("name || CAST(stars AS STRING)", "STRING"),
    ),
    Example(
        "column n: 'stars + name': name is a string, but must be an integer or a decimal or a double",
        SUPPORTED,
        with_computed("stars + name"),
        with_computed("stars + CAST(name AS INT)"),
    ),
    Example(
        "column n: 'name = stars': these cannot be combined: name (a string), stars (an integer)",
        "There are no implicit conversions: CAST one. unix_seconds() converts a TIMESTAMP to a number.",
        with_computed("name = stars", "BOOLEAN"),
        with_computed("CAST(name AS INT) = stars", "BOOLEAN"),
        with_computed("name = CAST(stars AS STRING)", "BOOLEAN"),
    ),
    Example(
        "column n: 'rated_at > 86400': these cannot be combined: rated_at (a timestamp), 86400 (an integer)",
        "There are no implicit conversions: CAST one. unix_seconds() converts a TIMESTAMP to a number.",
        with_computed("rated_at > 86400", "BOOLEAN"),
        with_computed("unix_seconds(rated_at) > 86400", "BOOLEAN"),
    ),
    Example(
        "column n: 'day > 5': these cannot be combined: day (a date), 5 (an integer)",
        "There are no implicit conversions: CAST one. unix_seconds() converts a TIMESTAMP to a number.",
        with_computed("day > 5", "BOOLEAN"),
        with_computed("unix_seconds(CAST(day AS TIMESTAMP)) > 5", "BOOLEAN"),
    ),
    Example(
        "column n: \"day > '2026-01-01'\": these cannot be combined: day (a date), '2026-01-01' (a string)",
        "There are no implicit conversions: CAST one. unix_seconds() converts a TIMESTAMP to a number.",
        with_computed("day > '2026-01-01'", "BOOLEAN"),
        with_computed("day > CAST('2026-01-01' AS DATE)", "BOOLEAN"),
    ),
    Example(
        "column n: cost is not a column that is read from records",
        "The columns are day, id, name, paid, price, rated_at, stars, weight.",
        with_computed("cost"),
        with_computed("stars"),
    ),
    Example(
        "column n: \"split_part(name, ',')\": SPLIT_PART(name, ',') has arguments that split_part() does not support",
        SUPPORTED,
        with_computed("split_part(name, ',')", "STRING"),
        with_computed("split_part(name, ',', 1)", "STRING"),
    ),
    Example(
        "column n: \"split_part(name, ',', 0)\": split_part() counts from 1",
        "Write another number.",
        with_computed("split_part(name, ',', 0)", "STRING"),
        with_computed("split_part(name, ',', 1)", "STRING"),
    ),
    Example(
        "column n: 'round(price, -1)': round() to -1 places is not supported",
        "Write 0 to 38 places.",
        with_computed("round(price, -1)", "DECIMAL(12,2)"),
        with_computed("round(price, 0)", "DECIMAL(12,2)"),
    ),
    Example(
        "column n: 'left(name, stars)': stars is not an integer literal",
        "Write a number, for example left(name, 3).",
        with_computed("left(name, stars)", "STRING"),
        with_computed("left(name, 3)", "STRING"),
    ),
    Example(
        "column n: 'greatest(stars)': GREATEST(stars) has only one argument",
        "Write at least two.",
        with_computed("greatest(stars)"),
        with_computed("greatest(stars, 3)"),
    ),
    Example(
        "column n: 'name LIKE lower(name)': name LIKE LOWER(name) is not supported",
        "Write a string literal without a backslash.",
        with_computed("name LIKE lower(name)", "BOOLEAN"),
        with_computed("name LIKE 'a%'", "BOOLEAN"),
    ),
    Example(
        "column n: name LIKE '%a%b' has two % before its last word",
        "Write one % before the last word. For more, combine LIKE with AND, or use contains().",
        with_computed("name LIKE '%a%b'", "BOOLEAN"),
        with_computed("name LIKE '%a%' AND name LIKE '%b'", "BOOLEAN"),
        with_computed("contains(name, 'a') AND name LIKE '%b'", "BOOLEAN"),
    ),
    Example(
        "column n: \"date_trunc('WEEK', rated_at)\": date_trunc() by WEEK is not supported",
        "The units are YEAR, QUARTER, MONTH, DAY, HOUR, MINUTE, SECOND.",
        with_computed("date_trunc('WEEK', rated_at)", "TIMESTAMP"),
        with_computed("date_trunc('MONTH', rated_at)", "TIMESTAMP"),
    ),
]
