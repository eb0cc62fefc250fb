"""The rules of the query of a view, in DuckDB's SQL: it reads only tables, and returns the same if it runs again."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from lakehouse.declaration.sql.parsed import names_of
from lakehouse.declaration.sql.rules import SAME_EACH_TIME, UNREPEATABLE, refused_calls
from lakehouse.decoding.column_types import Problem

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.lineage import Node

Columns = Mapping[str, Mapping[str, str]]
"""The columns of tables, with their types in DuckDB."""

_QUERY = "Write one SELECT in DuckDB's SQL."
_STATE = "the state of DuckDB"
_UNREPEATABLE = {
    **UNREPEATABLE,
    **dict.fromkeys(("gen_random_uuid", "uuidv4", "uuidv7", "reservoir_quantile", "setseed"), "chance"),
    **dict.fromkeys(("age", "get_current_timestamp", "localtime", "transaction_timestamp"), "the clock"),
    **dict.fromkeys(("approx_top_k", "arbitrary", "arg_max_null", "arg_min_null", "listagg"), "the order of rows"),
    **dict.fromkeys(("current_catalog", "current_setting", "getenv", "getvariable", "nextval", "currval"), _STATE),
}
_ACTIONS = {
    "age": "Subtract two times: with one argument, it reads the clock.",
    "arg_max": "It picks any of equal rows. Write max({'by': by, 'value': value}).value.",
    "arg_min": "It picks any of equal rows. Write min({'by': by, 'value': value}).value.",
    "array_agg": "Add ORDER BY to its argument, with columns that no two rows share.",
    "group_concat": "Add ORDER BY to its argument, with columns that no two rows share.",
}


def query_problems(sql: str) -> Iterator[Problem]:
    """What is wrong with the query of a view, as far as its text shows it."""
    try:
        root = _parse(sql)
    except RecursionError:
        root = None
    if root is None:
        yield "sql is not one query that reads", _QUERY
        return
    yield from _source_problems(root)
    yield from _repetition_problems(sql, root)


def tables_read(sql: str) -> tuple[str, ...]:
    """The names of the tables and views that a query reads, in lower case, sorted; empty if it is not a query."""
    root = _parse(sql)
    return () if root is None else tuple(sorted({table.name.lower() for table in _tables(root)}))


def column_origins(sql: str, columns: Columns) -> dict[str, list[tuple[str, str]]]:
    """The (table, column) pairs that each column of a query is computed from; empty if they cannot be found.

    Columns that only decide which rows are read, as in WHERE, do not count.
    """
    import sqlglot  # noqa: PLC0415 - slow to import, and declarations without SQL need none of it
    from sqlglot.lineage import lineage  # noqa: PLC0415
    from sqlglot.optimizer.qualify import qualify  # noqa: PLC0415

    root = _parse(sql)
    if root is None:
        return {}
    schema: dict[str, object] = {table: dict(types) for table, types in columns.items()}
    try:
        query = qualify(root.copy(), dialect="duckdb", schema=schema, validate_qualify_columns=False)
        nodes = lineage(None, query, schema, dialect="duckdb")
    except (sqlglot.errors.SqlglotError, ValueError):  # DuckDB understands more than the parser
        return {}
    return {name: _origins(node, columns) for name, node in nodes.items()}


def _origins(node: "Node", columns: Columns) -> list[tuple[str, str]]:
    """The columns of tables at the end of a lineage."""
    from sqlglot import exp  # noqa: PLC0415

    ends = (part for part in node.walk() if isinstance(part.expression, exp.Table))
    pairs = {(end.expression.name, end.name.rpartition(".")[2].strip('"')) for end in ends}
    return sorted((table, column) for table, column in pairs if column in columns.get(table, {}))


@lru_cache(maxsize=256)
def _parse(sql: str) -> "exp.Query | None":
    """Parse one query; ``None`` if the text is not one."""
    import sqlglot  # noqa: PLC0415 - as above
    from sqlglot import exp  # noqa: PLC0415

    try:
        root = sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return None
    return root if isinstance(root, exp.Query) and not isinstance(root, exp.Subquery) else None


def _tables(root: "exp.Query") -> Iterator["exp.Table"]:
    """Everything after FROM and JOIN that is not a subquery or a part of WITH."""
    from sqlglot import exp  # noqa: PLC0415
    from sqlglot.optimizer.scope import traverse_scope  # noqa: PLC0415

    for scope in traverse_scope(root):
        yield from (source for source in scope.sources.values() if isinstance(source, exp.Table))


def _source_problems(root: "exp.Query") -> Iterator[Problem]:
    from sqlglot import exp  # noqa: PLC0415

    for table in _tables(root):
        if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
            yield (
                f"{table.sql('duckdb')} is not a declared table",
                "Read declared tables and views, by their names alone.",
            )
    if root.find(exp.Placeholder, exp.Parameter):
        yield "sql has a parameter without a value", "Write the value."


def _repetition_problems(sql: str, root: "exp.Query") -> Iterator[Problem]:
    """What could return other rows if it runs again on the same versions."""
    from sqlglot import exp  # noqa: PLC0415

    for name in dict.fromkeys(refused_calls(root, _UNREPEATABLE)):
        shown_name = _name_in(sql, root, name)
        yield f"sql depends on {_UNREPEATABLE[name]}: {shown_name}()", _ACTIONS.get(name, SAME_EACH_TIME)
    if root.find(exp.TableSample):
        yield "sql depends on chance: a sample", SAME_EACH_TIME
    for part in root.find_all(exp.Limit, exp.Offset, exp.Fetch):
        if part.parent is not None and not part.parent.args.get("order"):
            yield "sql depends on the order of rows: LIMIT without ORDER BY", "Add ORDER BY, or remove LIMIT."
            break
    order_functions = (exp.RowNumber, exp.Lag, exp.Lead, exp.Ntile, exp.NthValue)
    for window in root.find_all(exp.Window):
        if isinstance(window.this, order_functions) and not window.args.get("order") and not window.args.get("alias"):
            yield f"sql depends on the order of rows: {window.sql('duckdb')}", "Add ORDER BY to its OVER."


def _name_in(sql: str, root: "exp.Query", name: str) -> str:
    """The name of a function as the query writes it."""
    from sqlglot import exp  # noqa: PLC0415

    aliases = [[alias.lower() for alias in names_of(function)] for function in root.find_all(exp.Func)]
    own_aliases = next((names for names in aliases if name in names), [])
    return max((alias for alias in own_aliases if alias in sql.lower()), key=len, default=name)
