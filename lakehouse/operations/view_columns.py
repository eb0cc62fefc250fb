"""The columns of views: DuckDB finds their names and types over empty tables with the declared columns."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
from duckdb.sqltypes import DuckDBPyType

from lakehouse.declaration import StreamTable, View
from lakehouse.declaration.names import MAX_LENGTH, spelling_hint
from lakehouse.declaration.sql import column_origins
from lakehouse.declaration.view import sort_views
from lakehouse.decoding.column_types import Problem
from lakehouse.errors import DeclarationError
from lakehouse.operations.layouts import layouts_of
from lakehouse.query.connections import quoted_name, view_refusal
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout

_NO_SETTINGS = Settings.model_construct()  # columns do not depend on settings
_UNKNOWN_COLUMN = re.compile(r'Referenced column "(\w+)" not found|does not have a column named "(\w+)"')
_NAME = re.compile(rf"[a-z_][a-z0-9_]{{0,{MAX_LENGTH - 1}}}")
_NAME_IT = "Name it with AS: lower-case letters, digits and _, no digit first."
_STORED_TYPES = {
    *("tinyint", "smallint", "integer", "bigint", "float", "double", "decimal", "boolean", "varchar", "blob", "date"),
    *("timestamp with time zone", "list", "struct", "map"),
}
"""The types of DuckDB, by their ids, that Delta has too."""
_CASTS = {
    "hugeint": "Cast it: CAST(... AS BIGINT), or AS DECIMAL(38,0).",
    "timestamp": "Say its zone: ... AT TIME ZONE 'UTC'.",
}


@dataclass(frozen=True)
class TypedView:
    """A view with the types of its columns in DuckDB, and the (table, column) pairs that each is computed from."""

    view: View
    types: Mapping[str, str]
    origins: Mapping[str, Sequence[tuple[str, str]]]


def type_views(tables: Iterable[StreamTable], views: Sequence[View]) -> tuple[TypedView, ...]:
    """Return the views with their columns, each after those that it reads.

    Raises ``DeclarationError`` if a query reads an unknown table or column, if DuckDB cannot understand it, if two of
    its columns have one name, or if Delta has no type for a column of a materialized view.
    """
    types = {layout.name: {column.name: column.type for column in layout.columns} for layout in _layouts(tables)}
    sorted_views = sort_views(views, types)
    columns: dict[str, dict[str, str]] = {}
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as connection:
        for name in {name for view in views for name in view.reads if name in types}:
            columns[name] = {column: _duckdb_type(type_) for column, type_ in types[name].items()}
            values = ", ".join(f"CAST(NULL AS {type_}) AS {quoted_name(n)}" for n, type_ in columns[name].items())
            connection.execute(f"CREATE VIEW {quoted_name(name)} AS SELECT {values}")
        for view in sorted_views:
            columns[view.name] = _read_columns(connection, view, columns)
    return tuple(TypedView(view, columns[view.name], column_origins(view.sql, columns)) for view in sorted_views)


def _layouts(tables: Iterable[StreamTable]) -> Iterator[Layout]:
    for table in tables:
        yield from layouts_of(_NO_SETTINGS, table)


def _duckdb_type(type_: str) -> str:
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    return exp.DataType.build(type_, dialect="spark").sql("duckdb")


def _read_columns(
    connection: duckdb.DuckDBPyConnection, view: View, columns: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Create a view in DuckDB and return its columns with their types."""
    try:
        names = [row[0] for row in connection.execute(f"DESCRIBE {view.sql}").fetchall()]
        types = connection.sql(view.sql).types
        connection.execute(f"CREATE VIEW {quoted_name(view.name)} AS {view.sql}")
    except duckdb.Error as error:
        problem = _unknown_column(error, view, columns) or view_refusal(error, "Correct sql=.", "sql cannot be run")
        message = f"View {view.name!r}: {problem.what}"
        raise DeclarationError(message, where=view.file, action=problem.action) from None
    for message, action in _column_problems(view, names, types):
        raise DeclarationError(f"View {view.name!r}: {message}", where=view.file, action=action)
    return dict(zip(names, map(str, types), strict=True))


def _unknown_column(
    error: duckdb.Error, view: View, columns: Mapping[str, Mapping[str, str]]
) -> DeclarationError | None:
    match = _UNKNOWN_COLUMN.search(str(error))
    if match is None:
        return None
    name = match[1] or match[2]
    hint = spelling_hint(name, [column for table in view.reads for column in columns[table]])
    lists = (f"The columns of {table} are {', '.join(columns[table])}." for table in view.reads)
    return DeclarationError(f"unknown column {name}", action=f"{hint}{' '.join(lists)}")


def _column_problems(view: View, names: Sequence[str], types: Sequence[DuckDBPyType]) -> Iterator[Problem]:
    for name, type_ in zip(names, types, strict=True):
        if not _NAME.fullmatch(name):
            yield f"column {name!r} has no name of its own", _NAME_IT
        if names.count(name) > 1:
            yield f"two columns have the name {name}", "Name each of them with AS."
        other_type = _other_type(type_) if view.materialized else None
        if other_type is not None:
            action = _CASTS.get(other_type.id, "Cast it, for example AS VARCHAR.")
            yield f"column {name}: Delta has no type for {str(other_type).upper()}", action


def _other_type(type_: DuckDBPyType) -> DuckDBPyType | None:
    """Return the first nested type that Delta cannot store, or ``None``."""
    if type_.id not in _STORED_TYPES:
        return type_
    if type_.id not in ("list", "struct", "map"):
        return None
    inner_types = [_other_type(inner) for _, inner in type_.children if isinstance(inner, DuckDBPyType)]
    return next((inner for inner in inner_types if inner is not None), None)
