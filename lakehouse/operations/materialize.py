"""Materialized views: DuckDB finds their columns over empty tables, and computes their rows from fixed versions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from lakehouse.declaration import StreamTable, View
from lakehouse.declaration.names import MAX_LENGTH, spelling_hint
from lakehouse.declaration.sql import column_origins
from lakehouse.declaration.sql.parser import exp
from lakehouse.declaration.view import ViewInputs, find_inputs, fingerprint_view, sort_views
from lakehouse.decoding.column_types import Problem
from lakehouse.errors import DeclarationError, LakehouseError, TableError
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.consumption import Consumption, version_to_consume
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.operations.planned_changes import layouts_of
from lakehouse.operations.readers import find_news, view_consumptions
from lakehouse.query.connections import quoted_name, view_refusal
from lakehouse.query.queries import open_versions
from lakehouse.settings import Settings
from lakehouse.storage.delta_rs_writer import create_with_rows, replace_all
from lakehouse.storage.layout import Layout
from lakehouse.storage.table_context import retry_on_conflict

_BATCH_ROWS = 20_000  # rows that DuckDB hands over at a time
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
class ViewUpdate:
    """The result of one update of a materialized view.

    ``versions`` are those of its tables that its rows correspond to. ``rows`` is the number of rows that were written;
    ``None`` if there was no news, so that nothing was written.
    """

    name: str
    version: int
    versions: dict[str, int]
    rows: int | None


@dataclass(frozen=True)
class Materialization:
    """A materialized view in an environment, with the declared views, of which it may read some."""

    settings: Settings
    view: View
    views: Sequence[View]

    @property
    def inputs(self) -> ViewInputs:
        """What the view is computed from."""
        return find_inputs(self.view, self.views)

    def update(self, run: str = "") -> ViewUpdate:
        """Compute every row as of the newest versions of its tables; write nothing if there is no news.

        There is news if a row of one of the tables may have changed, if the query changed, or if another program or a
        RESTORE changed the stored rows. Raises ``TableError`` if one of the tables does not exist yet, or if the query
        fails for a row. Nothing is written then.
        """
        return retry_on_conflict(lambda: self._update(run or self.settings.command_run))

    @property
    def waits_for(self) -> str | None:
        """The first of its tables that does not exist yet, if the view was never stored."""
        if ledger_of(self.settings, self.view.name).exists:
            return None
        return next((name for name in self.inputs.tables if not ledger_of(self.settings, name).exists), None)

    def find_news(self) -> tuple[str, ...]:
        """Return the names of the tables with rows that are not consumed; that of the view if it has to be stored."""
        return find_news(self.view, self.views, *self._read_consumptions())

    def _update(self, run: str) -> ViewUpdate:
        own_ledger, consumptions = self._read_consumptions()
        ledgers = {name: consumption.source for name, consumption in consumptions.items()}
        versions = {name: ledger.rows_version for name, ledger in ledgers.items()}
        if not find_news(self.view, self.views, own_ledger, consumptions):
            return ViewUpdate(self.view.name, own_ledger.version, versions, None)
        failures: list[Exception] = []
        try:
            with open_versions(self.settings, {name: ledger.version for name, ledger in ledgers.items()}) as connection:
                entry = self._store(self._compute(connection, failures), own_ledger, ledgers, run)
        except duckdb.Error as error:
            raise self._explain(error) from error
        except LakehouseError:
            if failures:
                raise self._explain(failures[0]) from failures[0]
            raise
        return ViewUpdate(self.view.name, entry.version, versions, entry.metrics.inserted)

    def _store(self, rows: pa.RecordBatchReader, own_ledger: Ledger, ledgers: Mapping[str, Ledger], run: str) -> Entry:
        name, settings = self.view.name, self.settings
        layout = Layout(name, settings.table_uri(name), self.view.doc, (), declaration_name=name, sync=settings.sync)
        commit = own_ledger.next_commit("derived", run).with_fields(
            consumed_tables={table: version_to_consume(ledger) for table, ledger in ledgers.items()},
            declaration=fingerprint_view(self.view, self.inputs),
        )
        return (replace_all if own_ledger.exists else create_with_rows)(layout, rows, commit)

    def _read_consumptions(self) -> tuple[Ledger, dict[str, Consumption]]:
        """Read the ledger of the view, then those of its tables: a run that ends meanwhile stores newer rows.

        This run is planned on the ledger before them, so it replaces none.
        """
        own_ledger = ledger_of(self.settings, self.view.name)
        return own_ledger, view_consumptions(self.settings, self.view, self.views, own_ledger)

    def _compute(self, connection: duckdb.DuckDBPyConnection, failures: list[Exception]) -> pa.RecordBatchReader:
        """Start the query; a failure while its rows are read is kept, because the writer reports it as its own."""
        for view in self.inputs.views:
            connection.execute(f"CREATE VIEW {quoted_name(view.name)} AS {view.sql}")
        reader = connection.execute(self.view.sql).to_arrow_reader(_BATCH_ROWS)

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from reader
            except (duckdb.Error, OSError, pa.ArrowException) as error:
                failures.append(error)
                raise

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    def _explain(self, error: Exception) -> TableError:
        """Return an error of DuckDB as one that names the view."""
        problem = f"View {self.view.name} cannot be computed"
        query_error = view_refusal(duckdb.Error(str(error)), "Correct sql= of the view, or the rows.", problem)
        return TableError(query_error.what, where=self.settings.table_uri(self.view.name), action=query_error.action)


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
    layouts = (layout for table in tables for layout in layouts_of(_NO_SETTINGS, table))
    types = {layout.name: {column.name: column.type for column in layout.columns} for layout in layouts}
    sorted_views = sort_views(views, types)
    columns: dict[str, dict[str, str]] = {}
    with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as connection:
        for name in {name for view in views for name in view.reads if name in types}:
            spark_types = {column: exp.DataType.build(type_, dialect="spark") for column, type_ in types[name].items()}
            columns[name] = {column: type_.sql("duckdb") for column, type_ in spark_types.items()}
            values = ", ".join(f"CAST(NULL AS {type_}) AS {quoted_name(n)}" for n, type_ in columns[name].items())
            connection.execute(f"CREATE VIEW {quoted_name(name)} AS SELECT {values}")
        for view in sorted_views:
            columns[view.name] = _read_columns(connection, view, columns)
    return tuple(TypedView(view, columns[view.name], column_origins(view.sql, columns)) for view in sorted_views)


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
