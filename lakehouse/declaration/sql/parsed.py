"""Parsing SQL of a declaration: one expression, the parts of it that the parser drops, and its columns."""

import re
from collections import Counter
from datetime import date, datetime
from itertools import pairwise
from math import isfinite
from typing import Any

from lakehouse.declaration.sql.functions import (
    CASTS,
    COMPARISON_NODES,
    DECIMAL,
    DOUBLE,
    INTEGER,
    KINDS,
    MAX_DIGITS,
    NULL,
    STRING,
    NotComputable,
    Part,
)
from lakehouse.declaration.sql.parser import exp, sqlglot
from lakehouse.decoding.fields import is_text

EXPRESSION = "Write one Spark SQL expression. Put a name that is a SQL keyword in backticks."
"""What to do if a text is not an expression."""
_ONE_STRING = "Write a comma between them, or one literal, in which a quote is written as \\'."
_NUMBER = "^[^eE]{0,1000}([eE][+-]?0{0,100}[0-9]{1,3} {0,100})?$"  # limits the length and the exponent
_MAX_SQL_LENGTH = 20_000  # characters
_SHORT_REPLACEMENT = 4  # characters
_MAX_GROWTH = 64  # times the length of a record's strings
_DAY, _CLOCK, _ZONE = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", r"(Z|[+-][\d:]+)?"
_TIMES = {"DATE": re.compile(_DAY, re.ASCII), "TIMESTAMP": re.compile(f"{_DAY}[ T]{_CLOCK}{_ZONE}", re.ASCII)}


def quoted(text: str) -> str:
    """A string as a literal in Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def parse_expression(sql: str) -> "exp.Expr | None":
    """Parse one expression; ``None`` if the text is not one."""
    try:
        root = sqlglot.parse_one(sql, read="spark", into=exp.Condition)
    except sqlglot.errors.SqlglotError:
        return None
    is_statement = isinstance(root, exp.Command | exp.Block | exp.Star) or sql.rstrip().endswith(";")
    return None if is_statement else root


def dropped_parts(sql: str, root: "exp.Expr") -> str:
    """The parts of the SQL that the parser drops or changes; empty if there are none.

    Raises ``NotComputable`` if the parser would join two string literals.
    """
    from sqlglot.tokenizer_core import TokenType  # noqa: PLC0415

    tokens = [*sqlglot.tokenize(sql, read="spark"), None]
    strings = [token.text.lower() for token in tokens if token and token.token_type is TokenType.STRING]
    for token, next_token in pairwise(tokens):
        if token and next_token and token.token_type is next_token.token_type is TokenType.STRING:
            raise NotComputable(f"two string literals follow each other, first {token.text!r}", _ONE_STRING)
    word_types = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER)
    words = [
        token.text.lower()
        for token, next_token in pairwise(tokens)
        if token and token.token_type in word_types and not (next_token and next_token.token_type is TokenType.L_PAREN)
    ]
    for node in root.find_all(exp.TimestampTrunc):  # its unit must be a string literal, not a column
        if node.text("unit").lower() not in strings:
            return node.text("unit")
    parsed_words = Counter(node.name.lower() for node in root.find_all(exp.Literal, exp.Identifier, exp.Var))
    lost_words = Counter([*strings, *words]) - parsed_words
    return ", ".join(word for word in lost_words if f"0.{word}" not in parsed_words)  # the parser turns .5 into 0.5


def named_columns(sql: str) -> set[str]:
    """The names of the columns in a SQL expression, in lower case; empty if the text is none, or nested too deeply."""
    try:
        root = parse_expression(sql)
        return {column.parts[0].name.lower() for column in root.find_all(exp.Column)} if root else set()
    except RecursionError:
        return set()


def names_of(function: "exp.Func") -> list[str]:
    """The names of a function."""
    return [function.name] if isinstance(function, exp.Anonymous) else function.sql_names()


def castable(text: str) -> str:
    """SQL of a string that is safe to cast to a decimal: the empty string, which casts to NULL, if the cast might hang.

    For a large exponent, such as 1e-999999999, Spark computes every digit, and fails if there are too many.
    """
    return f"regexp_extract({text}, {quoted(_NUMBER)}, 0)"


def literal(node: Any) -> Part:
    """A number or a string literal."""
    if node.is_string:
        if "\\" in node.this or "\0" in node.this or not is_text(node.this):
            message = f"{node.this!r} contains a backslash, a null character or invalid UTF-8"
            raise NotComputable(message, "Write a string without it.")
        return Part(quoted(node.this), STRING)
    digits = sum(character.isdigit() for character in node.this)
    if "e" in node.this.lower():
        if not isfinite(float(node.this)):
            raise NotComputable(f"{node.this} exceeds the range of a double", "Correct the number.")
        return Part(f"{float(node.this)!r}D", DOUBLE)
    if digits > MAX_DIGITS:
        raise NotComputable(f"{node.this} has {digits} digits", f"Write at most {MAX_DIGITS}.")
    return Part(node.this, DECIMAL if "." in node.this or int(node.this) >= 2**63 else INTEGER)


def cast_type(node: Any) -> str:
    """The declared type of a cast."""
    target = node.args["to"]
    digits = [number.this.name for number in target.expressions]
    type_name = {"TEXT": "STRING", "TIMESTAMPTZ": "TIMESTAMP"}.get(target.this.name, target.this.name)
    if type_name == "DECIMAL" and len(digits) == 2 and all(number.isdecimal() for number in digits):
        precision, scale = map(int, digits)
        if 0 < precision <= MAX_DIGITS and scale <= precision:
            return f"DECIMAL({precision},{scale})"
    if type_name not in KINDS:
        types = f"{', '.join(KINDS)} or DECIMAL(precision,scale)"
        raise NotComputable(f"{shown_sql(node)} casts to an unsupported type", f"Cast to {types}.")
    return str(type_name)


def time_literal(text: str, type_: str) -> str:
    """SQL of a date or timestamp literal, in UTC; ``NotComputable`` if the text is not one."""
    try:
        if not _TIMES[type_].fullmatch(text):
            raise ValueError
        time = date.fromisoformat(text) if type_ == "DATE" else datetime.fromisoformat(text)
    except ValueError:
        action = f"Write it in the form {'2026-01-31' if type_ == 'DATE' else '2026-01-31 12:00:00'}."
        raise NotComputable(f"{quoted(text)} is not a valid {type_}", action) from None
    if isinstance(time, datetime) and time.tzinfo:
        raise NotComputable(f"{quoted(text)} has a time zone", "Times are in UTC. Write it without a zone.")
    return f"{type_} '{time.isoformat(*([' '] if isinstance(time, datetime) else []))}'"


def shown_sql(node: "exp.Expr") -> str:
    """The SQL of a part for messages, shortened to 80 characters."""
    sql = str(node.sql("spark"))
    return sql if len(sql) <= 80 else f"{sql[:80]}…"


def require_kind(node: "exp.Expr", part: Part, kinds: tuple[str, ...]) -> None:
    """Refuse a part that has none of the kinds and is not NULL; advise the cast if only one kind is accepted."""
    if part.kind in (*kinds, NULL):
        return
    types = [name for name, kind in KINDS.items() if kinds == (kind,) and part.kind in CASTS[kind]]
    advice = [f"Convert it: CAST({shown_sql(node)} AS {types[0]})."] if types else []
    raise NotComputable(f"{shown_sql(node)} is {part.kind}, but must be {' or '.join(kinds)}", *advice)


def require_parentheses(*operands: Any) -> None:
    """Refuse an operand that is a comparison without parentheses: SQL parsers group such operands differently."""
    for operand in operands:
        if type(operand).__name__ in COMPARISON_NODES:
            raise NotComputable(f"{shown_sql(operand)} is an operand of a comparison", "Put it in parentheses.")


def operands_of(node: Any) -> list[Any]:
    """The operands of a chain of one operator, in their order."""
    operands, operand = [], node
    while type(operand) is type(node):
        operands.append(operand.expression)
        operand = operand.this
    return [operand, *reversed(operands)]


def require_short_replacement(node: Any) -> None:
    """Refuse a replacement that is not a short literal: one record could require more memory than there is."""
    search, replacement = node.expression, node.args["replacement"]
    are_literals = all(type(text).__name__ == "Literal" and text.is_string for text in (search, replacement))
    if not are_literals or len(replacement.this) > max(_SHORT_REPLACEMENT, len(search.this)):
        raise NotComputable(
            f"{shown_sql(node)} could return a string that is too large",
            f"Write both as string literals. The replacement may have up to {_SHORT_REPLACEMENT} characters, or the"
            " length of the searched string.",
        )


def require_short(part: Part) -> Part:
    """The same part; refuse it if its SQL is too long, because a further part might repeat it."""
    if len(part.sql) > _MAX_SQL_LENGTH:
        raise NotComputable(f"a part of it expands to {len(part.sql)} characters", "Write it with fewer levels.")
    return part


def require_bounded(node: Any) -> None:
    """Refuse an expression whose result could be too many times as long as the strings of the record."""
    if _growth(node) > _MAX_GROWTH:
        message = f"{shown_sql(node)} could return a string more than {_MAX_GROWTH} times as long as its inputs"
        raise NotComputable(message, "Concatenate fewer strings, or replace fewer.")


def _growth(node: Any) -> int:
    """How many times as long as a string of the record a result can be."""
    operand_growths = [_growth(operand) for operand in node.iter_expressions()]
    if type(node).__name__ in ("Concat", "DPipe"):
        return sum(operand_growths)
    growth = max(operand_growths, default=1)
    if type(node).__name__ != "Replace":
        return growth
    return growth * max(1, -(-len(node.args["replacement"].this) // max(1, len(node.expression.this))))
