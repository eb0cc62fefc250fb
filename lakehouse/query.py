"""SQL over the tables without a JVM: DuckDB with its Delta extension, times in UTC.

Reading only, twice over: nothing but one reading statement is let through, and DuckDB itself may open
files under the root of the tables and nowhere else.
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
_READS = {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "DESCRIBE", "DESC", "SHOW", "SUMMARIZE", "PIVOT", "UNPIVOT"}
_WORD = re.compile(r'\w+|"[^"]*"|.', re.DOTALL)
_OPENS = re.compile(r"DELTA_(SCAN|LIST|DOMAIN|GET|SET|FILTER)\w*|QUERY")
"""Functions that open a table by its path, or run a text in which one could stand."""
_ASK = "Ask with one SELECT, WITH, DESCRIBE, SHOW or EXPLAIN."


@dataclass(frozen=True)
class Result:
    """The answer to a query: the names of its columns, and its rows; times are in UTC.

    ``more`` says that a limit cut off further rows.
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    more: bool = False


def query(settings: Settings, sql: str, names: Iterable[str] = (), limit: int | None = None) -> Result:
    """Answer one reading statement over the tables, each a view of its name and as of its newest version.

    ``names`` are the tables to look for where they are kept at a URI, which cannot be listed. At most ``limit`` rows
    are read from the answer. Changes nothing. Raises ``QueryError`` for any other statement, for wrong SQL, and for a
    table that does not exist or cannot be read.
    """
    with duckdb.connect(":memory:", config=dict(_OFFLINE)) as connection:
        _check_reads(connection, sql)
        tables = table_names(settings, names)
        connection.execute(f"LOAD {_quoted(str(_extension()))}")
        _add_views(connection, settings, tables, sql)
        _lock(connection, settings.tables_root)
        try:
            answer = connection.execute(sql)
            columns = [column[0] for column in answer.description or ()]
            rows = answer.fetchall() if limit is None else answer.fetchmany(limit + 1)
            return Result(columns, rows[:limit], more=limit is not None and len(rows) > limit)
        except duckdb.Error as error:
            raise _refusal(error, _known(settings, tables)) from None


def table_names(settings: Settings, names: Iterable[str] = ()) -> list[str]:
    """List the tables that exist: those in the folder they are kept in or, at a URI, those of ``names``."""
    if not settings.store.is_path:
        return sorted(name for name in names if is_table(settings.table_uri(name)))
    return sorted(log.parent.name for log in Path(settings.tables_root).glob("[!.]*/_delta_log"))


def _check_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse everything but one statement that reads."""
    try:
        types = [statement.type for statement in connection.extract_statements(sql)]
    except duckdb.Error as error:
        raise _refusal(error, _ASK) from None
    words = _words(sql)
    pivot = words[:1] == ["PIVOT"] and types == [StatementType.CREATE, StatementType.SELECT]  # what DuckDB makes of it
    if len(types) != 1 and not pivot:
        raise QueryError(f"This is not one statement but {len(types)}", action=_ASK)
    asked = _explained(words) if words[0] == "EXPLAIN" else words
    beginning = next((word for word in asked if word not in "(;"), "")
    if beginning not in _READS:
        raise QueryError(f"This is no query that reads: {sql.strip()[:40]!r}", action=_ASK)
    if any(_OPENS.fullmatch(word) and following == "(" for word, following in pairwise(words)):
        raise QueryError("A query names tables, it does not open them by their path", action=_ASK)


def _explained(words: Sequence[str]) -> Sequence[str]:
    """What stands behind EXPLAIN and its options; with ANALYZE, it is run."""
    if words[1:2] == ["ANALYZE"]:
        return words[2:]
    options = words[1:2] == ["("] and words[2] in ("ANALYZE", "FORMAT") and ")" in words
    return words[words.index(")") + 1 :] if options else words[1:]


def _words(sql: str) -> list[str]:
    """Return the words and signs of a statement, in capitals, without comments, quotes and the text in literals."""
    text = sql.encode()  # tokens are counted in bytes
    literal = duckdb.token_type.string_const
    parts = ["'" if kind == literal else text[start:].decode(errors="replace") for start, kind in duckdb.tokenize(sql)]
    found = (_WORD.match(part) for part in parts)
    return [word[0].strip('"').upper() for word in found if word]


def _extension() -> Path:
    """Find the Delta extension in the Python package that carries it: nothing is fetched or installed."""
    package = find_spec("duckdb_extension_delta")
    folder = Path(package.origin).parent if package and package.origin else Path()
    file = folder / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    if not file.is_file():
        raise SetupError(
            "DuckDB's Delta extension is missing", action="Install lakehouse again (in its repository: make install)."
        )
    return file


def _add_views(connection: duckdb.DuckDBPyConnection, settings: Settings, tables: Sequence[str], sql: str) -> None:
    """Make each table a view; one that cannot be read matters only where the query names it."""
    for name in tables:
        identifier = '"' + name.replace('"', '""') + '"'
        try:
            connection.execute(
                f"CREATE VIEW {identifier} AS SELECT * FROM delta_scan({_quoted(settings.table_uri(name))})"
            )
        except duckdb.Error as error:
            if name in sql:
                raise _refusal(error, f"Table {name} cannot be read.") from None


def _lock(connection: duckdb.DuckDBPyConnection, root: str) -> None:
    """From here on: UTC, no file outside the root, no other setting."""
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET allowed_directories = [{_quoted(root)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _known(settings: Settings, tables: Sequence[str]) -> str:
    if tables:
        return f"Tables: {', '.join(tables)}."
    return f"There are no tables yet under {settings.tables_root}: load or merge some first."


def _refusal(error: duckdb.Error, action: str) -> QueryError:
    """Keep the first line of what DuckDB says; the rest points into the text of the query."""
    return QueryError(str(error).strip().splitlines()[0], action=action)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
