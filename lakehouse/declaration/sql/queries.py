"""The rules of the query of a view, in DuckDB's SQL: it reads only tables, and returns the same if it runs again."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from lakehouse.declaration.sql.parsed import names_of
from lakehouse.declaration.sql.parser import exp, sqlglot
from lakehouse.declaration.sql.rules import SAME_EACH_TIME, UNREPEATABLE, refused_calls
from lakehouse.decoding.column_types import Problem

if TYPE_CHECKING:
    from sqlglot.lineage import Node

Columns = Mapping[str, Mapping[str, str]]
"""The columns of tables, with their types in DuckDB."""

_QUERY = "Write one SELECT in DuckDB's SQL."
_QUOTES = ' A column whose name is a word of SQL needs quotes, such as "at".'
_STATE = "the state of DuckDB"
_UNREPEATABLE = {
    **UNREPEATABLE,
    **dict.fromkeys(("gen_random_uuid", "uuidv4", "uuidv7", "reservoir_quantile", "setseed"), "chance"),
    **dict.fromkeys(("age", "get_current_timestamp", "localtime", "transaction_timestamp"), "the clock"),
    **dict.fromkeys(("current_localtime",), "the clock"),
    **dict.fromkeys(("approx_top_k", "arbitrary", "arg_max_null", "arg_min_null", "listagg"), "the order of rows"),
    **dict.fromkeys(("json_group_array", "json_group_object"), "the order of rows"),
    **dict.fromkeys(("current_catalog", "current_setting", "getenv", "getvariable", "nextval", "currval"), _STATE),
    **dict.fromkeys(("current_query", "current_version", "txid_current"), _STATE),
}
_ACTIONS = {
    "age": "Subtract two times: with one argument, it reads the clock.",
    "arg_max": "It picks any of equal rows. Write max({'by': by, 'value': value}).value.",
    "arg_min": "It picks any of equal rows. Write min({'by': by, 'value': value}).value.",
    "array_agg": "Add ORDER BY to its argument, with columns that no two rows share.",
    "group_concat": "Add ORDER BY to its argument, with columns that no two rows share.",
    "json_group_array": "Write to_json(list(... ORDER BY ...)).",
    "json_group_object": "Write to_json(map_from_entries(list((key, value) ORDER BY key))).",
}
_ORDER_ROWS = "Add ORDER BY, with columns that no two rows share."


def query_problems(sql: str) -> Iterator[Problem]:
    """What is wrong with the query of a view, as far as its text shows it."""
    with suppress(RecursionError):  # nested too deeply, or windows that name one another
        root = _parse(sql)
        if root is not None:
            yield from [*_source_problems(root), *_repetition_problems(sql, root)]
            return
    place = _place_of_fault(sql)
    yield f"sql is not one query that reads{place}", f"{_QUERY}{_QUOTES if place else ''}"


def tables_read(sql: str) -> tuple[str, ...]:
    """The names of the tables and views that a query reads, in lower case, sorted; empty if it is not a query."""
    root = _parse(sql)
    return () if root is None else tuple(sorted({table.name.lower() for table in _tables(root)}))


def column_origins(sql: str, columns: Columns) -> dict[str, list[tuple[str, str]]]:
    """The (table, column) pairs that each column of a query is computed from; empty if they cannot be found.

    Columns that only decide which rows are read, as in WHERE, do not count.
    """
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
    ends = (part for part in node.walk() if isinstance(part.expression, exp.Table))
    pairs = {(end.expression.name, end.name.rpartition(".")[2].strip('"')) for end in ends}
    return sorted((table, column) for table, column in pairs if column in columns.get(table, {}))


@lru_cache(maxsize=256)
def _parse(sql: str) -> "exp.Query | None":
    """Parse one query; ``None`` if the text is not one."""
    try:
        root = sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return None
    return root if isinstance(root, exp.Query) and not isinstance(root, exp.Subquery) else None


def _place_of_fault(sql: str) -> str:
    """Where the text is not SQL, for a message; empty if that is not known."""
    try:
        sqlglot.parse_one(sql, read="duckdb")
    except sqlglot.errors.ParseError as error:
        faults = [fault for fault in error.errors if fault.get("line")]
        return f": line {faults[0]['line']}, at {faults[0]['highlight']!r}" if faults else ""
    except (sqlglot.errors.SqlglotError, RecursionError):
        return ""
    return ""


def _tables(root: "exp.Query") -> Iterator["exp.Table"]:
    """Everything after FROM and JOIN that is not a subquery or a part of WITH."""
    from sqlglot.optimizer.scope import traverse_scope  # noqa: PLC0415

    for scope in traverse_scope(root):
        yield from (source for source in scope.sources.values() if isinstance(source, exp.Table))


def _source_problems(root: "exp.Query") -> Iterator[Problem]:
    for table in _tables(root):
        if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
            yield (
                f"{table.sql('duckdb')} is not a declared table",
                "Read declared tables and views, by their names alone.",
            )
    for part in root.find_all(exp.Lateral, exp.Subquery):
        read_part = part.this
        if isinstance(part, exp.Lateral) and isinstance(read_part, exp.Func) and not isinstance(read_part, exp.UDTF):
            yield f"{read_part.sql('duckdb')} is not a declared table", "Read declared tables and views."
        if isinstance(read_part, exp.Describe | exp.Summarize) or type(read_part) is exp.Pivot:
            yield f"{read_part.sql('duckdb')} is not supported in a view", "Write a SELECT."
    if root.find(exp.Placeholder, exp.Parameter):
        yield "sql has a parameter without a value", "Write the value."


def _repetition_problems(sql: str, root: "exp.Query") -> Iterator[Problem]:
    """What could return other rows if it runs again on the same versions."""
    for name in dict.fromkeys(refused_calls(root, _UNREPEATABLE)):
        shown_name = _name_in(sql, root, name)
        yield f"sql depends on {_UNREPEATABLE[name]}: {shown_name}()", _ACTIONS.get(name, SAME_EACH_TIME)
    if root.find(exp.TableSample):
        yield "sql depends on chance: a sample", SAME_EACH_TIME
    for part in _parts_without_order(root):
        yield f"sql depends on the order of rows: {part}", _ORDER_ROWS
    for window in root.find_all(exp.Window):
        if _needs_order(window) and not _has_order(window):
            yield f"sql depends on the order of rows: {window.sql('duckdb')}", "Add ORDER BY to its OVER."


def _parts_without_order(root: "exp.Query") -> Iterator[str]:
    """The parts of a query that choose or combine rows by an order that it does not say."""
    parts = [*root.find_all(exp.Limit, exp.Offset, exp.Fetch)]
    if any(part.parent is not None and not part.parent.args.get("order") for part in parts):
        yield "LIMIT without ORDER BY"
    if any(map(_is_distinct_by_chance, root.find_all(exp.Select))):
        yield "DISTINCT ON without an ORDER BY of other columns"
    if any(join.method == "POSITIONAL" for join in root.find_all(exp.Join)):
        yield "POSITIONAL JOIN"
    elements = [element for array in root.find_all(exp.Array) for element in array.expressions]
    if any(isinstance(element, exp.Select) and not element.args.get("order") for element in elements):
        yield "ARRAY(SELECT ...) without ORDER BY"


def _is_distinct_by_chance(select: "exp.Select") -> bool:
    """Whether ``DISTINCT ON`` takes any of the rows that are equal in its columns."""
    distinct, order = select.args.get("distinct"), select.args.get("order")
    if distinct is None or distinct.args.get("on") is None:
        return False
    ordered_by = {key.this.sql() for key in order.expressions} if order else set[str]()
    return ordered_by <= {key.sql() for key in distinct.args["on"].expressions}


def _needs_order(window: "exp.Window") -> bool:
    """Whether the result of a window depends on the order of its rows."""
    frame = window.args.get("spec")
    is_part = frame is not None and not frame.args.get("start") == frame.args.get("end") == "UNBOUNDED"
    return is_part or isinstance(window.this, exp.RowNumber | exp.Lag | exp.Lead | exp.Ntile | exp.NthValue)


def _has_order(window: "exp.Window") -> bool:
    """Whether a window has an order, of its own or of the window that it names."""
    select = window.find_ancestor(exp.Select)
    named_windows = select.args.get("windows") or () if select else ()
    bases = [base for base in named_windows if base.name.lower() == window.alias.lower() and base is not window]
    return bool(window.args.get("order")) or any(map(_has_order, bases))


def _name_in(sql: str, root: "exp.Query", name: str) -> str:
    """The name of a function as the query writes it."""
    aliases = [[alias.lower() for alias in names_of(function)] for function in root.find_all(exp.Func)]
    own_aliases = next((names for names in aliases if name in names), [])
    return max((alias for alias in own_aliases if alias in sql.lower()), key=len, default=name)
