"""SQL of computed columns."""

from lakehouse_tests.unit.declaration.advice.example import Example
from lakehouse_tests.unit.declaration.ratings import computing

LONG = " + ".join(["stars"] * 3_000)
ABSOLUTE = "abs(" * 7 + "price" + ")" * 7
JOINED = " || ".join(["name"] * 65)
EXAMPLES = [
    Example(
        "column n: 'stars +': it is no SQL expression",
        "Write one expression of Spark's SQL; a name that is a word of SQL stands in backticks.",
        computing("stars +"),
        computing("stars + 1"),
    ),
    Example(
        f"column n: {LONG!r}: it is nested too deeply",
        "Write it with fewer levels.",
        computing(LONG),
        computing("stars + stars"),
    ),
    Example(
        "column n: \"date(rated_at, 'UTC')\": this part of it is not supported: utc",
        "Leave it out, or express it with another function.",
        computing("date(rated_at, 'UTC')", "DATE"),
        computing("date(rated_at)", "DATE"),
        computing("CAST(rated_at AS DATE)", "DATE"),
    ),
    Example(
        "column n: \"name = 'O''Brien'\": two texts stand in a row, the first is 'O'",
        "Write a comma between them; or one text, in which a quote is written as \\'.",
        computing("name = 'O''Brien'", "BOOLEAN"),
        computing(r"name = 'O\'Brien'", "BOOLEAN"),
    ),
    Example(
        "column n: \"concat('a' 'b')\": two texts stand in a row, the first is 'a'",
        "Write a comma between them; or one text, in which a quote is written as \\'.",
        computing("concat('a' 'b')", "STRING"),
        computing("concat('a', 'b')", "STRING"),
    ),
    Example(
        f"column n: {ABSOLUTE!r}: a part of it becomes 47006 characters",
        "Write it with fewer levels.",
        computing(ABSOLUTE, "DECIMAL(12,2)"),
        computing("abs(price)", "DECIMAL(12,2)"),
    ),
    Example(
        "column n: 'weight': it gives a double, and the column is INT",
        "Write CAST(... AS INT).",
        computing("weight"),
        computing("CAST(weight AS INT)"),
    ),
    Example(
        "column n: 'stars': it gives a whole number, and the column is STRING",
        "Write CAST(... AS STRING).",
        computing("stars", "STRING"),
        computing("CAST(stars AS STRING)", "STRING"),
    ),
    Example(
        "column n: 'name': it gives a text, and the column is DATE",
        "No cast makes one of the other: declare the column STRING.",
        computing("name", "DATE"),
        computing("name", "STRING"),
    ),
    Example(
        "column n: 'rated_at': it gives a time, and the column is BIGINT",
        "No cast makes one of the other: declare the column TIMESTAMP.",
        computing("rated_at", "BIGINT"),
        computing("rated_at", "TIMESTAMP"),
    ),
    Example(
        "column n: 'price': it gives a decimal, and the column is BOOLEAN",
        "No cast makes one of the other: declare the column DECIMAL(precision,scale).",
        computing("price", "BOOLEAN"),
        computing("price", "DECIMAL(12,2)"),
    ),
    Example(
        "column n: \"name || 'a\\\\\\\\b'\": 'a\\\\b' has a backslash, or what is no text in UTF-8",
        "Write a text without.",
        computing(r"name || 'a\\b'", "STRING"),
        computing("name || 'aA'", "STRING"),
    ),
    Example(
        "column n: 'weight > 1e999': 1e999 is beyond any number",
        "Correct it.",
        computing("weight > 1e999", "BOOLEAN"),
        computing("weight > 1e99", "BOOLEAN"),
    ),
    Example(
        (
            "column n: 'price > 111111111111111111111111111111111111111': 111111111111111111111111111111111111111 "
            "has 39 digits"
        ),
        "A number has at most 38.",
        computing(f"price > {'1' * 39}", "BOOLEAN"),
        computing(f"price > {'1' * 38}", "BOOLEAN"),
    ),
    Example(
        "column n: 'CAST(name AS BINARY)': CAST(name AS BINARY) casts to no type of a column",
        "Cast to STRING, BOOLEAN, INT, BIGINT, DOUBLE, DATE, TIMESTAMP or DECIMAL(precision,scale).",
        computing("CAST(name AS BINARY)", "STRING"),
        computing("CAST(name AS STRING)", "STRING"),
        computing("CAST(name AS DECIMAL(9,2))", "DECIMAL(9,2)"),
    ),
    Example(
        "column n: \"DATE '2026-02-30'\": '2026-02-30' is no DATE",
        "Write it as 2026-01-31.",
        computing("DATE '2026-02-30'", "DATE"),
        computing("DATE '2026-01-31'", "DATE"),
    ),
    Example(
        "column n: \"TIMESTAMP '2026-01-31'\": '2026-01-31' is no TIMESTAMP",
        "Write it as 2026-01-31 12:00:00.",
        computing("TIMESTAMP '2026-01-31'", "TIMESTAMP"),
        computing("TIMESTAMP '2026-01-31 12:00:00'", "TIMESTAMP"),
    ),
    Example(
        "column n: \"TIMESTAMP '2026-01-31 12:00:00+02:00'\": '2026-01-31 12:00:00+02:00' names a zone",
        "Times are UTC: write it without.",
        computing("TIMESTAMP '2026-01-31 12:00:00+02:00'", "TIMESTAMP"),
        computing("TIMESTAMP '2026-01-31 12:00:00'", "TIMESTAMP"),
    ),
    Example(
        "column n: 'paid = paid < paid': paid < paid stands beside a comparison",
        "Put it in brackets.",
        computing("paid = paid < paid", "BOOLEAN"),
        computing("paid = (paid < paid)", "BOOLEAN"),
    ),
    Example(
        "column n: \"replace(name, 'a', name)\": REPLACE(name, 'a', name) could become larger than any text",
        "Write out both texts, and one of up to 4 characters, or as long as the other, in its place.",
        computing("replace(name, 'a', name)", "STRING"),
        computing("replace(name, 'a', '1234')", "STRING"),
        computing("replace(name, 'abcdef', '123456')", "STRING"),
    ),
    Example(
        (
            f"column n: {JOINED!r}: name || name || name || name || name || name || name || name || name || name || … "
            "could become more than 64 times as long as the texts that it is made of"
        ),
        "Put fewer texts together, or replace fewer.",
        computing(JOINED, "STRING"),
        computing("name || name", "STRING"),
    ),
    Example(
        "column n: 'datediff(day)': a function is given too little",
        "See what Spark's function of that name takes.",
        computing("datediff(day)"),
        computing("CAST(datediff(day, DATE '2026-01-31') AS INT)"),
    ),
    Example(
        "column n: \"name RLIKE 'a'\": name RLIKE 'a' is not known there",
        "docs/vocabulary.md lists what a computed column may be: write it with that.",
        computing("name RLIKE 'a'", "BOOLEAN"),
        computing("name LIKE '%a%'", "BOOLEAN"),
    ),
    Example(
        "column n: 'stars IS 1': stars IS 1 is not known there",
        "docs/vocabulary.md lists what a computed column may be: write it with that.",
        computing("stars IS 1", "BOOLEAN"),
        computing("stars = 1", "BOOLEAN"),
    ),
    Example(
        "column n: 'stars IN ()': stars IN () is not known there",
        "docs/vocabulary.md lists what a computed column may be: write it with that.",
        computing("stars IN ()", "BOOLEAN"),
        computing("stars IN (1)", "BOOLEAN"),
    ),
    Example(
        "column n: 'stars + name': name is a text, where a whole number or a decimal or a double has to be",
        "docs/vocabulary.md lists what a computed column may be: write it with that.",
        computing("stars + name"),
        computing("stars + CAST(name AS INT)"),
    ),
    Example(
        "column n: 'name = stars': these do not go together: name (a text), stars (a whole number)",
        "Nothing is converted by itself: CAST one; unix_seconds() makes a number of a TIMESTAMP.",
        computing("name = stars", "BOOLEAN"),
        computing("CAST(name AS INT) = stars", "BOOLEAN"),
        computing("name = CAST(stars AS STRING)", "BOOLEAN"),
    ),
    Example(
        "column n: 'rated_at > 86400': these do not go together: rated_at (a time), 86400 (a whole number)",
        "Nothing is converted by itself: CAST one; unix_seconds() makes a number of a TIMESTAMP.",
        computing("rated_at > 86400", "BOOLEAN"),
        computing("unix_seconds(rated_at) > 86400", "BOOLEAN"),
    ),
    Example(
        "column n: 'day > 5': these do not go together: day (a day), 5 (a whole number)",
        "Nothing is converted by itself: CAST one; unix_seconds() makes a number of a TIMESTAMP.",
        computing("day > 5", "BOOLEAN"),
        computing("unix_seconds(CAST(day AS TIMESTAMP)) > 5", "BOOLEAN"),
    ),
    Example(
        "column n: \"day > '2026-01-01'\": these do not go together: day (a day), '2026-01-01' (a text)",
        "Nothing is converted by itself: CAST one; unix_seconds() makes a number of a TIMESTAMP.",
        computing("day > '2026-01-01'", "BOOLEAN"),
        computing("day > CAST('2026-01-01' AS DATE)", "BOOLEAN"),
    ),
    Example(
        "column n: 'cost': it names no column that records tell: cost",
        "There are day, id, name, paid, price, rated_at, stars, weight.",
        computing("cost"),
        computing("stars"),
    ),
    Example(
        "column n: \"split_part(name, ',')\": SPLIT_PART(name, ',') is not what split_part() takes there",
        "docs/vocabulary.md lists what a computed column may be: write it with that.",
        computing("split_part(name, ',')", "STRING"),
        computing("split_part(name, ',', 1)", "STRING"),
    ),
    Example(
        "column n: \"split_part(name, ',', 0)\": split_part() counts from 1",
        "Write another number.",
        computing("split_part(name, ',', 0)", "STRING"),
        computing("split_part(name, ',', 1)", "STRING"),
    ),
    Example(
        "column n: 'round(price, -1)': round() to -1 places is not known there",
        "Write 0 to 38 of them.",
        computing("round(price, -1)", "DECIMAL(12,2)"),
        computing("round(price, 0)", "DECIMAL(12,2)"),
    ),
    Example(
        "column n: 'left(name, stars)': stars is no whole number that is written out",
        "Write one, as left(name, 3).",
        computing("left(name, stars)", "STRING"),
        computing("left(name, 3)", "STRING"),
    ),
    Example(
        "column n: 'greatest(stars)': GREATEST(stars) is given one",
        "Give it two.",
        computing("greatest(stars)"),
        computing("greatest(stars, 3)"),
    ),
    Example(
        "column n: 'name LIKE lower(name)': name LIKE LOWER(name) is not known there",
        "A pattern is a text without a backslash.",
        computing("name LIKE lower(name)", "BOOLEAN"),
        computing("name LIKE 'a%'", "BOOLEAN"),
    ),
    Example(
        "column n: \"name LIKE '%a%b'\": name LIKE '%a%b' has two % before its last word",
        "Write one % before the last word, and more of them with AND, or contains().",
        computing("name LIKE '%a%b'", "BOOLEAN"),
        computing("name LIKE '%a%' AND name LIKE '%b'", "BOOLEAN"),
        computing("contains(name, 'a') AND name LIKE '%b'", "BOOLEAN"),
    ),
    Example(
        "column n: \"date_trunc('WEEK', rated_at)\": date_trunc() by WEEK is not known there",
        "There are YEAR, QUARTER, MONTH, DAY, HOUR, MINUTE, SECOND.",
        computing("date_trunc('WEEK', rated_at)", "TIMESTAMP"),
        computing("date_trunc('MONTH', rated_at)", "TIMESTAMP"),
    ),
]
