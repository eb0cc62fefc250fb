"""What a statement of SQL does, from its words: only one that reads is accepted."""

import re
from collections.abc import Sequence
from itertools import pairwise

import duckdb
from duckdb import StatementType

from lakehouse.decoding.fields import is_text
from lakehouse.errors import QueryError
from lakehouse.query.connections import QUOTES, refusal

_READING_WORDS = {
    "SELECT",
    "WITH",
    "FROM",
    "VALUES",
    "TABLE",
    "DESCRIBE",
    "DESC",
    "SHOW",
    "SUMMARIZE",
    "PIVOT",
    "UNPIVOT",
}
_WORD = re.compile(r'\w+|"[^"]*"|.', re.DOTALL)
_OPENING_FUNCTIONS = re.compile(r"DELTA_(SCAN|LIST|DOMAIN|GET|SET|FILTER)\w*|QUERY")
"""Functions that open a table by its path, or that run SQL text, which could call such a function."""
CORRECT = "Correct the query; it is in DuckDB's SQL."
_ADVICE = "Use one SELECT, WITH, DESCRIBE, SHOW or EXPLAIN."


def require_reading(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse everything but one statement that reads."""
    if not is_text(sql):
        raise QueryError("The query is not UTF-8", action=CORRECT)
    try:
        types = [statement.type for statement in connection.extract_statements(sql)]
    except duckdb.Error as error:
        raise refusal(error, f"{CORRECT} {_ADVICE} {QUOTES}") from None
    words = words_of(sql)
    is_pivot = words[:1] == ["PIVOT"] and types == [StatementType.CREATE, StatementType.SELECT]  # as DuckDB splits it
    if len(types) != 1 and not is_pivot:
        count_text = f"contains {len(types)}" if types else "is empty"
        raise QueryError(f"A query must be one statement, but this one {count_text}", action=_ADVICE)
    query_words = _explained_words(words) if words[0] == "EXPLAIN" else words
    first_word = next((word for word in query_words if word not in "(;"), "")
    if first_word not in _READING_WORDS:
        raise QueryError(f"This statement does not only read: {sql.strip()[:40]!r}", action=_ADVICE)
    if any(_OPENING_FUNCTIONS.fullmatch(word) and next_word == "(" for word, next_word in pairwise(words)):
        raise QueryError("A query cannot open a table by its path", action="Use its name; SHOW TABLES lists all names.")


def _explained_words(words: Sequence[str]) -> Sequence[str]:
    """The words after EXPLAIN and its options; with ANALYZE, DuckDB runs that statement."""
    if words[1:2] == ["ANALYZE"]:
        return words[2:]
    has_options = words[1:2] == ["("] and words[2] in ("ANALYZE", "FORMAT") and ")" in words
    return words[words.index(")") + 1 :] if has_options else words[1:]


def words_of(sql: str) -> list[str]:
    """Return the words and signs of a statement, in capitals, without comments, quotes and the text of literals."""
    text = sql.encode()  # tokens are counted in bytes
    literal = duckdb.token_type.string_const
    parts = ["'" if kind == literal else text[start:].decode(errors="replace") for start, kind in duckdb.tokenize(sql)]
    matches = (_WORD.match(part) for part in parts)
    return [match[0].strip('"').upper() for match in matches if match]
