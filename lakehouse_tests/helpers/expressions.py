"""Random SQL of computed columns by kind of result, and rows with the most extreme values of their types."""

from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

TYPES = {
    "t": "STRING",
    "u": "STRING",
    "ok": "BOOLEAN",
    "i": "INT",
    "b": "BIGINT",
    "x": "DOUBLE",
    "p": "DECIMAL(10,2)",
    "wide": "DECIMAL(38,0)",
    "fine": "DECIMAL(38,37)",
    "d": "DATE",
    "s": "TIMESTAMP",
}
_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


def _row(texts: tuple[str, str], ok: bool | None, numbers: str, *times: date) -> tuple[Any, ...]:
    i, b, x, *decimals = numbers.split()
    return (*texts, ok, int(i), int(b), float(x), *map(Decimal, decimals), *times)


_NINES, _FINE = "9" * 38, f"9.{'9' * 37}"
ROWS: list[tuple[Any, ...]] = [
    (None,) * len(TYPES),
    _row(("", ""), True, "0 0 0 0 0 0", _FIRST.date(), _FIRST),
    _row(
        ("9" * 400, "NaN"),
        False,
        f"2147483647 9223372036854775807 1.7e308 99999999.99 {_NINES} {_FINE}",
        _LAST.date(),
        _LAST,
    ),
    _row(
        ("-1e999", "\U0001f600\x00%_"),
        True,
        f"-2147483648 -9223372036854775808 -1.7e308 -99999999.99 -{_NINES} -{_FINE}",
        date(1582, 10, 10),
        _FIRST,
    ),
    _row(("1e-999999999", "1" * 5_000), None, "0 0 0 0 0 0", _FIRST.date(), _FIRST),
    _row((" 12 ", "2026-02-30"), None, "-1 1 5e-324 -0.01 1 0.5", date(2024, 2, 29), _LAST),
]

_NOON = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)
BENIGN = [
    _row(("12", "0.5"), True, "3 40 2.5 12.34 7 0.25", _NOON.date(), _NOON),
    _row(("a-b", "7"), False, "-8 -9 -0.125 -0.99 -12 -1.5", date(2024, 2, 29), _NOON),
    _row(("", "x"), None, "1 2 3e5 99.01 100 3.000001", date(1999, 12, 31), _NOON),
]
"""Rows for which most expressions have a result."""

TEXT, TRUTH, WHOLE_NUMBER, DECIMAL, DOUBLE, DAY, MOMENT = "text", "truth", "whole", "decimal", "double", "day", "moment"
KINDS = {
    "STRING": TEXT,
    "BOOLEAN": TRUTH,
    "INT": WHOLE_NUMBER,
    "BIGINT": WHOLE_NUMBER,
    "DOUBLE": DOUBLE,
    "DECIMAL(38,0)": DECIMAL,
    "DECIMAL(5,4)": DECIMAL,
    "DATE": DAY,
    "TIMESTAMP": MOMENT,
}
_LEAVES = {
    TEXT: ["t", "u", "'9'", "''", "'x'", "NULL"],
    TRUTH: ["ok", "true", "false", "NULL"],
    WHOLE_NUMBER: ["i", "b", "0", "-1", "7", "2147483647", "9223372036854775807", "NULL"],
    DECIMAL: ["p", "wide", "fine", "0.001", "-99.5", "9" * 38],
    DOUBLE: ["x", "1e308", "-2e-308", "x"],
    DAY: ["d", "DATE '0001-01-01'", "DATE '9999-12-31'", "NULL"],
    MOMENT: ["s", "TIMESTAMP '1969-12-31 23:59:59.999999'", "NULL"],
}
# a kind in brackets is replaced by an expression of that kind, and # by a literal number
_FORMS = {
    TEXT: """
        upper([text]); lower([text]); initcap([text]); trim([text]); ltrim([text]); md5([text]);
        concat([text], [text]); ([text] || [text]); replace([text], 'a', 'x%_'); left([text], #);
        right([text], #); substring([text], #, #); split_part([text], [text], 2); CAST([any] AS STRING)
    """,
    TRUTH: """
        ([truth] AND [truth]); ([truth] OR [truth]); (NOT [truth]); ([number] < [number]); ([text] >= [text]);
        ([day] = [day]); ([moment] <=> [moment]); ([number] IN ([number], [number])); ([any] IS NULL);
        ([text] LIKE '%a_'); contains([text], [text]); startswith([text], [text]);
        ([number] BETWEEN [number] AND [number]); CAST([text] AS BOOLEAN)
    """,
    WHOLE_NUMBER: """
        ([whole] + [whole]); ([whole] - [whole]); ([whole] * [whole]); ([whole] % [whole]); (- [whole]);
        abs([whole]); round([whole], #); length([text]); instr([text], [text]); datediff([day], [moment]);
        year([day]); quarter([moment]); month([moment]); day([day]); dayofweek([day]); weekofyear([moment]);
        hour([moment]); second([moment]); unix_seconds([moment]); unix_micros([moment]);
        CAST([text] AS INT); CAST([number] AS BIGINT)
    """,
    DECIMAL: """
        ([decimal] + [whole]); ([decimal] * [decimal]); ([decimal] / [decimal]); ([decimal] % [whole]);
        abs([decimal]); floor([decimal]); ceil([whole]); (- [decimal]); round([decimal], #);
        CAST([number] AS DECIMAL(38,10));
        CAST([text] AS DECIMAL(20,20)); greatest([decimal], [whole], [decimal])
    """,
    DOUBLE: """
        ([double] + [number]); ([double] * [number]); ([whole] / [whole]); ([number] / [double]);
        ([double] % [double]); round([double], #); abs([double]); CAST([text] AS DOUBLE)
    """,
    DAY: """
        CAST([moment] AS DATE); last_day([day]); trunc([day], 'YEAR'); date([moment])
    """,
    MOMENT: """
        date_trunc('QUARTER', [moment]); date_trunc('SECOND', [moment]); CAST([day] AS TIMESTAMP)
    """,
}
_COMMON_FORMS = ["CASE WHEN [truth] THEN [{0}] ELSE [{0}] END", "coalesce([{0}], [{0}])", "nullif([{0}], [{0}])"]
_COMMON_FORMS += ["if([truth], [{0}], NULL)", "least([{0}], [{0}])", "CASE [text] WHEN [text] THEN [{0}] END"]


def expression(chance: Random, kind: str, depth: int = 3) -> str:
    """Return a random expression whose value has this kind."""
    if kind == "any":
        kind = chance.choice([*_FORMS])
    if kind == "number":
        kind = chance.choice([WHOLE_NUMBER, DECIMAL, DOUBLE])
    if depth == 0 or chance.random() < 0.15:
        return chance.choice(_LEAVES[kind])
    form = chance.choice([*map(str.strip, _FORMS[kind].split(";")), *(common.format(kind) for common in _COMMON_FORMS)])
    first, *suffixes = form.split("[")
    parts = [first]
    for inner_kind, text_after in (part.split("]", 1) for part in suffixes):
        parts += [expression(chance, inner_kind, depth - 1), text_after]
    return "".join(parts).replace("#", str(chance.randrange(9)))
