"""Rows of one table for Python: as Arrow, Polars, pandas or a relation of DuckDB."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from operator import index
from typing import TYPE_CHECKING, SupportsIndex

import pyarrow as pa
from duckdb import DuckDBPyConnection, DuckDBPyRelation
from duckdb import Error as DuckDBError

from lakehouse.declaration.names import spelling_hint
from lakehouse.errors import QueryError, SetupError
from lakehouse.ledger.versions import Point, TableVersion, find_version, parse_time, require_zone
from lakehouse.query.connections import (
    connect,
    interruptible,
    load_extensions,
    missing_files,
    quoted_name,
    refusal,
    scan_sql,
)
from lakehouse.query.queries import table_names
from lakehouse.settings import Settings

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True)
class Reading:
    """Rows of one version of a table; each call reads the same version again.

    ``version`` is its number and ``committed_at`` its time in UTC, ``None`` if its commit has expired. ``columns`` are
    those that are read. Rows have no order. Each call raises ``TableError`` if files of the version are gone, and
    ``QueryError`` if the condition fails for a row. Ctrl-C interrupts it.
    """

    name: str
    version: int
    committed_at: datetime | None
    columns: tuple[str, ...]
    where: str | None
    _uri: str = field(repr=False)
    _settings: Settings = field(repr=False, compare=False)

    def arrow(self) -> pa.Table:
        """Return the rows as a table of Arrow: exact decimals, times in UTC."""
        with self._failures(), connect(self._settings) as connection:
            relation = self._relation(connection)
            return interruptible(connection, relation.to_arrow_table)

    def polars(self) -> "pl.DataFrame":
        """Return the rows as a data frame of Polars.

        Raises ``SetupError`` if Polars is not installed.
        """
        try:
            import polars as pl  # noqa: PLC0415 - optional
        except ModuleNotFoundError:
            action = "Install it: pip install polars. Or use arrow() or pandas()."
            raise SetupError("Polars is not installed", action=action) from None
        frame = pl.from_arrow(self.arrow())
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table of Arrow is never a series
        return frame

    def pandas(self) -> "pd.DataFrame":
        """Return the rows as a data frame of pandas: decimals are ``Decimal``, and NULL is not NaN.

        Numbers and booleans have the types of pandas with NULL, such as ``Int64``.
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        types = {
            pa.int8(): pd.Int8Dtype(),
            pa.int16(): pd.Int16Dtype(),
            pa.int32(): pd.Int32Dtype(),
            pa.int64(): pd.Int64Dtype(),
            pa.float32(): pd.Float32Dtype(),
            pa.float64(): pd.Float64Dtype(),
            pa.bool_(): pd.BooleanDtype(),
        }
        frame: pd.DataFrame = self.arrow().to_pandas(types_mapper=types.get)
        return frame

    def duckdb(self, connection: DuckDBPyConnection | None = None) -> DuckDBPyRelation:
        """Return the rows as a relation of DuckDB, which reads them when it is executed.

        It belongs to ``connection``, where you can join it with other relations. By default it has a connection of its
        own, whose times are in UTC. Errors while it is executed are those of DuckDB.
        """
        with self._failures():
            return self._relation(connection or connect(self._settings))

    def _relation(self, connection: DuckDBPyConnection) -> DuckDBPyRelation:
        def create() -> DuckDBPyRelation:
            relation = connection.sql(scan_sql(self._table_version)).set_alias(self.name)
            chosen_rows = relation if self.where is None else relation.filter(self.where)
            return chosen_rows.project(", ".join(map(quoted_name, self.columns))) if self.columns else chosen_rows

        load_extensions(connection, self._uri)
        return interruptible(connection, create)

    @property
    def _table_version(self) -> TableVersion:
        return TableVersion(self.name, self._uri, self.version, self.committed_at)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except DuckDBError as error:
            action = "Correct where=, a condition in DuckDB's SQL." if self.where else "Read the message."
            problem = f"Table {self.name} cannot be read"
            raise missing_files(error, [self._table_version]) or refusal(error, action, problem) from None


def read(
    name: str,
    version: int | None = None,
    as_of: datetime | str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> Reading:
    """Choose rows of a table: by default all columns and rows of its newest version.

    ``name`` is any table under the root of the settings, as a query names it. ``version`` is the number of a version;
    ``as_of``, a time with a zone or its text in ISO 8601, means the newest version that was committed by then.
    ``where`` is a condition in DuckDB's SQL; it may use columns that ``columns`` leaves out. Loads the settings as a
    command does. Reads no rows yet, and changes nothing.

    Raises ``QueryError`` if there is no such table or column, or if an argument cannot be used. Raises ``TableError``
    if the table has no such version, or none as old as ``as_of``.
    """
    settings = Settings.load()
    point = _point(version, as_of)
    existing_names = table_names(settings, [name])
    if name not in existing_names:
        tables = f"Tables: {', '.join(existing_names)}." if existing_names else "Run lakehouse merge first."
        action = f"{spelling_hint(name, existing_names)}{tables}"
        raise QueryError(f"There is no table {name!r}", where=settings.tables_root, action=action)
    uri = settings.table_uri(name)
    table_version = find_version(uri, name, point)
    reading = Reading(name, table_version.number, table_version.committed_at, (), where, uri, settings)
    all_columns = reading.duckdb().columns
    chosen_columns = _columns(name, all_columns, columns)
    return Reading(name, reading.version, reading.committed_at, chosen_columns, where, uri, settings)


def _point(version: int | None, as_of: datetime | str | None) -> Point | None:
    if version is not None and as_of is not None:
        raise QueryError("version= and as_of= exclude each other", action="Remove one of them.")
    if version is not None and (isinstance(version, bool) or not isinstance(version, SupportsIndex)):
        raise QueryError(f"version= is {version!r}", action="Write the number of a version.")
    if as_of is not None and not isinstance(as_of, str | datetime):
        action = "Write a time with a zone, for example 2026-11-01T00:00:00Z."
        raise QueryError(f"as_of= is {as_of!r}, which is not a time", action=action)
    try:
        if isinstance(as_of, str):
            return parse_time(as_of)
        if as_of is not None:
            require_zone(as_of)
    except ValueError as error:
        raise QueryError(f"as_of= cannot be used: {error}", action="Correct it.") from None
    return index(version) if version is not None else as_of


def _columns(name: str, all_columns: Sequence[str], columns: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(columns, str) or (columns is not None and not (isinstance(columns, Sequence) and columns)):
        raise QueryError(f"columns= is {columns!r}", action="Write a list of names, or leave it out for all columns.")
    for column in columns or ():
        if column not in all_columns:
            action = f"{spelling_hint(column, all_columns)}Columns: {', '.join(all_columns)}."
            raise QueryError(f"Table {name} has no column {column!r}", action=action)
    return tuple(dict.fromkeys(columns or all_columns))
