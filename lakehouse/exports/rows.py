"""The rows of an export: selected by DuckDB from a fixed version of a table, sorted by the partitions of the files."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from lakehouse.declaration import Export
from lakehouse.declaration.export import CHANGE_COLUMNS, Period, column_problems
from lakehouse.errors import TableError
from lakehouse.exports.files import PARTITION
from lakehouse.ledger.versions import TableVersion
from lakehouse.query import RunningQuery
from lakehouse.query.connections import connect, lock_connection, quoted_name, quoted_text, run_statement, scan_sql
from lakehouse.settings import Settings

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value of the folder for rows without a time, as Spark and Hive name it."""

_BATCH_ROWS = 2_048  # the fewest of DuckDB: a row may be as large as a record
_MEMORY = "1GB"  # more rows than fit are sorted on the disk
_SOURCE = "source"
_STARTS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m-01", "year": "%Y-01-01"}
_CHANGE_TYPE, _CHANGE_VERSION, _CHANGE_TIME = CHANGE_COLUMNS


@dataclass(frozen=True)
class Selection:
    """Which rows of a table an export has now: those of a version, or changes, as batches of Arrow.

    ``rows_version`` is the newest version that may have changed a row. ``columns`` are the columns of the table that it
    writes; ``read_columns`` also has the one that decides partitions.
    """

    export: Export
    version: TableVersion
    rows_version: int
    columns: tuple[str, ...]
    changes: pa.RecordBatchReader | None = None

    def of_changes(self, changes: pa.RecordBatchReader) -> "Selection":
        """Return the selection of changes in place of all rows."""
        return replace(self, changes=changes)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns to read of the table."""
        return tuple(dict.fromkeys((*self.columns, *([self.export.by.column] if self.export.by else []))))

    @property
    def sql(self) -> str:
        """The statement that selects the rows from ``source``: their partition, the columns and what changed."""
        partition = "NULL" if self.export.by is None else partition_sql(self.export.by)
        columns = [*self.columns, *(CHANGE_COLUMNS if self.export.changes else ())]
        selected = ", ".join(map(quoted_name, columns))
        order = f" ORDER BY {PARTITION}" if self.export.by else ""
        order += f"{', ' if order else ' ORDER BY '}{_CHANGE_VERSION}" if self.changes is not None else ""
        return f"SELECT CAST({partition} AS VARCHAR) AS {PARTITION}, {selected} FROM {_SOURCE}{order}"


def partition_sql(period: Period) -> str:
    """Return the SQL of the name of a row's folder: the name of the partition and the start of its period, UTC."""
    start = f"strftime({quoted_name(period.column)}, {quoted_text(_STARTS[period.unit])})"
    return f"{quoted_text(f'{period.name}=')} || coalesce({start}, {quoted_text(NULL_PARTITION)})"


def choose_columns(export: Export, table: DeltaTable, uri: str) -> tuple[str, ...]:
    """Return the columns of a table that an export writes.

    The column that the folders are named by is left out if it partitions the table, as readers of such folders expect.
    Raises ``TableError`` if a declared column is missing, if its type is another than the export needs, or if another
    column has the name of the folders.
    """
    types = {field.name: _spark_type(field.type) for field in pa.schema(table.schema().to_arrow())}
    for message, action in column_problems(export, types, (), table.metadata().partition_columns):
        raise TableError(f"Export {export.name}: {message}", where=uri, action=action)
    names = export.columns or [name for name in types if not name.startswith("_")]
    return tuple(name for name in names if export.by is None or name != export.by.name)


def _spark_type(type_: pa.DataType) -> str:
    """Return the name of a type in declarations, if it is that of a time."""
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP" if type_.tz else "TIMESTAMP_NTZ"
    return "DATE" if pa.types.is_date(type_) else str(type_).upper()


@contextmanager
def open_rows(settings: Settings, selection: Selection, spill: Path) -> Iterator[Iterable[pa.RecordBatch]]:
    """Open the rows of a selection, sorted by partition, in batches; rows that do not fit into memory are in ``spill``.

    Raises ``duckdb.Error`` if they cannot be read.
    """
    with connect(settings) as connection:
        run_statement(connection, f"SET memory_limit = {quoted_text(_MEMORY)}")
        run_statement(connection, f"SET temp_directory = {quoted_text(str(spill))}")
        if selection.changes is None:
            run_statement(connection, f"CREATE VIEW {_SOURCE} AS {_scan(selection)}")
        else:
            connection.register(_SOURCE, selection.changes)
        lock_connection(connection, settings.tables_root)
        run_statement(connection, selection.sql)
        yield _batches(connection)


def _scan(selection: Selection) -> str:
    """Return the SQL of all rows of the version; with changes, as inserts of that version."""
    version, columns = selection.version, ", ".join(map(quoted_name, selection.read_columns))
    inner = f"SELECT {columns}"
    if selection.export.changes:
        time = f"TIMESTAMPTZ {quoted_text(version.committed_at.isoformat())}" if version.committed_at else "NULL"
        inner += f", 'insert' AS {_CHANGE_TYPE}, CAST({selection.rows_version} AS BIGINT) AS {_CHANGE_VERSION}"
        inner += f", CAST({time} AS TIMESTAMPTZ) AS {_CHANGE_TIME}"
    return f"{inner} FROM ({scan_sql(version)})"


def _batches(connection: duckdb.DuckDBPyConnection) -> Iterator[pa.RecordBatch]:
    names: Sequence[str] = [column[0] for column in connection.description or ()]
    _, batches = RunningQuery(connection, list(names), ()).batches(_BATCH_ROWS)
    yield from batches
