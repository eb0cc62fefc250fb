"""SQL over the tables without a JVM: DuckDB with its Delta extension, times in UTC.

Two barriers make it read-only: only one reading statement is accepted, and DuckDB itself may only open files under the
root of the tables.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
from duckdb import StatementType

from lakehouse.errors import QueryError, SetupError
from lakehouse.ledger.log import is_table
from lakehouse.settings import Settings

_OFFLINE = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
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
_CORRECT = "Correct the query; it is in DuckDB's SQL."
_ADVICE = "Use one SELECT, WITH, DESCRIBE, SHOW or EXPLAIN."


@dataclass(frozen=True)
class Result:
    """The result of a query: the names of its columns, and its rows; times are in UTC.

    ``has_more`` means that a limit cut off further rows.
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    has_more: bool = False


def query(settings: Settings, sql: str, names: Iterable[str] = (), limit: int | None = None) -> Result:
    """Run one reading statement over the tables; each table is a view of its newest version, under its name.

    ``names`` are the tables to look for at a URI, which cannot be listed. Reads at most ``limit`` rows of the result.
    Changes nothing. Raises ``QueryError`` for any other statement, for invalid SQL, and for a table that does not exist
    or cannot be read.
    """
    with duckdb.connect(":memory:", config=dict(_OFFLINE)) as connection:
        _require_reading(connection, sql)
        tables = table_names(settings, names)
        connection.execute(f"LOAD {_quoted(str(_extension()))}")
        _add_views(connection, settings, tables, sql)
        _lock(connection, settings.tables_root)
        try:
            cursor = connection.execute(sql)
            columns = [column[0] for column in cursor.description or ()]
            rows = cursor.fetchall() if limit is None else cursor.fetchmany(limit + 1)
            return Result(columns, rows[:limit], has_more=limit is not None and len(rows) > limit)
        except duckdb.Error as error:
            is_about_names = isinstance(
                error, (duckdb.CatalogException, duckdb.BinderException, duckdb.PermissionException)
            )
            raise _refusal(error, _list_tables(settings, tables) if is_about_names else _CORRECT) from None


def table_names(settings: Settings, names: Iterable[str] = ()) -> list[str]:
    """List the tables that exist: in the folder of the tables or, at a URI, among ``names``."""
    if not settings.store.is_path:
        return sorted(name for name in names if is_table(settings.table_uri(name)))
    return sorted(log.parent.name for log in Path(settings.tables_root).glob("[!.]*/_delta_log"))


def _require_reading(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse everything but one statement that reads."""
    try:
        types = [statement.type for statement in connection.extract_statements(sql)]
    except duckdb.Error as error:
        raise _refusal(error, f"{_CORRECT} {_ADVICE}") from None
    words = _words(sql)
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


def _words(sql: str) -> list[str]:
    """Return the words and signs of a statement, in capitals, without comments, quotes and the text of literals."""
    text = sql.encode()  # tokens are counted in bytes
    literal = duckdb.token_type.string_const
    parts = ["'" if kind == literal else text[start:].decode(errors="replace") for start, kind in duckdb.tokenize(sql)]
    matches = (_WORD.match(part) for part in parts)
    return [match[0].strip('"').upper() for match in matches if match]


def _extension() -> Path:
    """Find the Delta extension in the Python package that contains it: nothing is downloaded or installed."""
    package = find_spec("duckdb_extension_delta")
    folder = Path(package.origin).parent if package and package.origin else Path()
    file = folder / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    if not file.is_file():
        raise SetupError(
            "DuckDB's Delta extension is missing", action="Reinstall lakehouse (in its repository: make install)."
        )
    return file


def _add_views(connection: duckdb.DuckDBPyConnection, settings: Settings, tables: Sequence[str], sql: str) -> None:
    """Create a view for each table; a table that cannot be read is an error only if the query names it."""
    for name in tables:
        identifier = '"' + name.replace('"', '""') + '"'
        try:
            connection.execute(
                f"CREATE VIEW {identifier} AS SELECT * FROM delta_scan({_quoted(settings.table_uri(name))})"
            )
        except duckdb.Error as error:
            if name in sql:
                advice = f"Read the message. To see if lakehouse can read the table: lakehouse status {name}"
                raise _refusal(error, advice, f"Table {name} cannot be read") from None


def _lock(connection: duckdb.DuckDBPyConnection, root: str) -> None:
    """From now on: UTC, no file outside the root, no changes of settings."""
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET allowed_directories = [{_quoted(root)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _list_tables(settings: Settings, tables: Sequence[str]) -> str:
    if tables:
        return f"Tables: {', '.join(tables)}."
    return f"There are no tables yet under {settings.tables_root}. Run lakehouse load-base or lakehouse merge first."


def _refusal(error: duckdb.Error, action: str, problem: str = "The query cannot be run") -> QueryError:
    """Quote DuckDB's message without its type, and its hint; the rest points into the text of the query."""
    message, _, details = str(error).strip().partition("\n")
    hint = (
        ""
        if re.match(r"\n|\t|LINE |.*\"(pg_|duckdb_|sqlite_|pragma_)", details)
        else details.partition("\n")[0].strip()
    )
    hint_sentence = hint if hint.endswith(("?", ".")) or not hint else f"{hint}."
    text = re.sub(r"^\w+( \w+)? Error: ", "", message).rstrip("!. ")
    return QueryError(f"{problem}: {text}", action=f"{hint_sentence} {action}".strip())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
