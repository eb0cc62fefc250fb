"""SQL of a declaration as it is parsed: one expression, what of it the parser loses, and the columns it names."""

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from lakehouse.declaration.sql.functions import NotComputable

if TYPE_CHECKING:
    from sqlglot import exp

EXPRESSION = "Write one expression of Spark's SQL; a name that is a word of SQL stands in backticks."
"""What to do where a text is no expression."""
_ONE_TEXT = "Write a comma between them; or one text, in which a quote is written as \\'."


def quoted(text: str) -> str:
    """A text as a literal in Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def parsed(sql: str) -> "exp.Expr | None":
    """One expression, ``None`` where it is none."""
    import sqlglot  # noqa: PLC0415 - slow to import, and declarations without SQL need none of it
    from sqlglot import exp  # noqa: PLC0415

    try:
        root = sqlglot.parse_one(sql, read="spark", into=exp.Condition)
    except sqlglot.errors.SqlglotError:
        return None
    more = isinstance(root, exp.Command | exp.Block | exp.Star) or sql.rstrip().endswith(";")
    return None if more else root


def left_out(sql: str, root: "exp.Expr") -> str:
    """What is written, and the parser makes nothing of, or something else; nothing where there is no such thing.

    Raises ``NotComputable`` where it would make one text of two.
    """
    import sqlglot  # noqa: PLC0415 - as above
    from sqlglot import exp  # noqa: PLC0415
    from sqlglot.tokenizer_core import TokenType  # noqa: PLC0415

    tokens = [*sqlglot.tokenize(sql, read="spark"), None]
    texts = [each.text.lower() for each in tokens if each and each.token_type is TokenType.STRING]
    for token, after in pairwise(tokens):
        if token and after and token.token_type is after.token_type is TokenType.STRING:
            raise NotComputable(f"two texts stand in a row, the first is {token.text!r}", _ONE_TEXT)
    names = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER)
    written = [
        token.text.lower()
        for token, after in pairwise(tokens)
        if token and token.token_type in names and not (after and after.token_type is TokenType.L_PAREN)
    ]
    for each in root.find_all(exp.TimestampTrunc):  # its unit is a text: a column of that name is none
        if each.text("unit").lower() not in texts:
            return each.text("unit")
    kept = Counter(each.name.lower() for each in root.find_all(exp.Literal, exp.Identifier, exp.Var))
    lost = Counter([*texts, *written]) - kept
    return ", ".join(each for each in lost if f"0.{each}" not in kept)  # of .5, the parser says 0.5


def named_columns(sql: str) -> set[str]:
    """The names of columns in a piece of SQL, in lower case; none where it is no expression."""
    from sqlglot import exp  # noqa: PLC0415 - as the parser itself

    root = parsed(sql)
    return {column.parts[0].name.lower() for column in root.find_all(exp.Column)} if root else set()


def names_of(function: "exp.Func") -> list[str]:
    """The names under which a function is known."""
    from sqlglot import exp  # noqa: PLC0415

    return [function.name] if isinstance(function, exp.Anonymous) else function.sql_names()
