"""Parsing SQL of a declaration: one expression, the parts of it that the parser drops, and its columns."""

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from lakehouse.declaration.sql.functions import NotComputable

if TYPE_CHECKING:
    from sqlglot import exp

EXPRESSION = "Write one Spark SQL expression. Put a name that is a SQL keyword in backticks."
"""What to do if a text is not an expression."""
_ONE_STRING = "Write a comma between them, or one literal, in which a quote is written as \\'."


def quoted(text: str) -> str:
    """A string as a literal in Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def parse_expression(sql: str) -> "exp.Expr | None":
    """Parse one expression; ``None`` if the text is not one."""
    import sqlglot  # noqa: PLC0415 - slow to import, and declarations without SQL need none of it
    from sqlglot import exp  # noqa: PLC0415

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
    import sqlglot  # noqa: PLC0415 - as above
    from sqlglot import exp  # noqa: PLC0415
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
    """The names of the columns in a SQL expression, in lower case; empty if the text is not an expression."""
    from sqlglot import exp  # noqa: PLC0415 - as the parser itself

    root = parse_expression(sql)
    return {column.parts[0].name.lower() for column in root.find_all(exp.Column)} if root else set()


def names_of(function: "exp.Func") -> list[str]:
    """The names of a function."""
    from sqlglot import exp  # noqa: PLC0415

    return [function.name] if isinstance(function, exp.Anonymous) else function.sql_names()
