"""One attempt to write the files of a version of an export: DuckDB selects its rows from a fixed version of a table."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from lakehouse.declaration import Export
from lakehouse.declaration.export import CHANGE_COLUMNS, Period, column_problems
from lakehouse.errors import TableError
from lakehouse.exports.files import PARTITION, FilePlan, sync_names, write_files
from lakehouse.exports.manifests import SPILL, STATE, ExportedFile, Manifest
from lakehouse.ledger.commit_infos import committed_at
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_version, read_commit
from lakehouse.ledger.versions import TableVersion
from lakehouse.query import RunningQuery
from lakehouse.query.connections import (
    connect,
    lock_connection,
    missing_files,
    quoted_name,
    quoted_text,
    refusal,
    run_statement,
    scan_sql,
)
from lakehouse.settings import Settings
from lakehouse.storage.row_changes import ChangesGoneError, read_change_batches

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value of the folder for rows without a time, as Spark and Hive name it."""

_BATCH_ROWS = 2_048  # the fewest of DuckDB: a row may be as large as a record
MEMORY = "1GB"  # more rows than fit are sorted on the disk
SOURCE = "source"  # the name of what rows are selected from
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
        return f"SELECT CAST({partition} AS VARCHAR) AS {PARTITION}, {selected} FROM {SOURCE}{order}"


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
    source = _scan(selection) if selection.changes is None else selection.changes
    with select_rows(settings, source, selection.sql, spill) as (_, batches):
        yield batches


@contextmanager
def select_rows(
    settings: Settings, source: str | pa.RecordBatchReader, sql: str, spill: Path | None = None
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Select rows of ``source``, a query or batches, in little memory; yield the types of the columns, and batches.

    What does not fit into memory goes into ``spill``, by default into the home. Raises ``duckdb.Error``.
    """
    with connect(settings, reads_tables=isinstance(source, str)) as connection:
        run_statement(connection, f"SET memory_limit = {quoted_text(MEMORY)}")
        if spill:
            run_statement(connection, f"SET temp_directory = {quoted_text(str(spill))}")
        if isinstance(source, str):
            run_statement(connection, f"CREATE VIEW {SOURCE} AS {source}")
        else:
            connection.register(SOURCE, source)
        lock_connection(connection, settings.tables_root)
        run_statement(connection, sql)
        names: Sequence[str] = [column[0] for column in connection.description or ()]
        yield RunningQuery(connection, list(names), ()).batches(_BATCH_ROWS)


def _scan(selection: Selection) -> str:
    """Return the SQL of all rows of the version; with changes, as inserts of that version."""
    version, columns = selection.version, ", ".join(map(quoted_name, selection.read_columns))
    inner = f"SELECT {columns}"
    if selection.export.changes:
        time = f"TIMESTAMPTZ {quoted_text(version.committed_at.isoformat())}" if version.committed_at else "NULL"
        inner += f", 'insert' AS {_CHANGE_TYPE}, CAST({selection.rows_version} AS BIGINT) AS {_CHANGE_VERSION}"
        inner += f", CAST({time} AS TIMESTAMPTZ) AS {_CHANGE_TIME}"
    return f"{inner} FROM ({scan_sql(version)})"


@dataclass(frozen=True)
class Attempt:
    """What one run is about to publish: every row of the table, or what changed after version ``since``.

    ``newest`` is the newest manifest; ``id`` is unique to the run, and part of the names of its files.
    """

    settings: Settings
    export: Export
    folder: Path
    ledger: Ledger
    newest: Manifest | None
    since: int | None
    id: str

    @property
    def version(self) -> int:
        """The version of the export that it publishes."""
        return (self.newest.version if self.newest else 0) + 1

    def write(self, run: str) -> Manifest:
        """Write the files; return the manifest that publishes them. Raises ``TableError`` if rows cannot be read."""
        failures: list[ChangesGoneError] = []
        spill = self.folder / STATE / f"{SPILL}{self.id}"
        form, sync = self.export.format, self.settings.sync
        plan = FilePlan(self.folder, self.export.name, self.version, self.id, form, sync)
        try:
            with open_rows(self.settings, self._select(failures), spill) as batches:
                files = list(write_files(batches, plan))
        except (duckdb.Error, ChangesGoneError) as error:
            reason = next(iter(failures), error)
            if isinstance(reason, ChangesGoneError):
                raise stop_error(self.export, self.folder, reason.what) from None
            name = f"Export {self.export.name}"
            raise explain_failure(name, self.export.of, self.ledger, error, str(self.folder)) from None
        if sync:
            sync_names(self.folder, files)
        return self._manifest(files, run)

    def _select(self, failures: list[ChangesGoneError]) -> Selection:
        ledger = self.ledger
        table = open_version(ledger.uri, ledger.version)
        info = read_commit(ledger.uri, ledger.rows_version)
        version = TableVersion(self.export.of, ledger.uri, ledger.version, committed_at(info) if info else None)
        columns = choose_columns(self.export, table, ledger.uri)
        selection = Selection(self.export, version, ledger.rows_version, columns)
        if self.since is None:
            return selection
        changes = read_changes(table, ledger, self.since, selection.read_columns, failures)
        return replace(selection, changes=changes)

    def _manifest(self, files: list[ExportedFile], run: str) -> Manifest:
        is_whole = self.since is None or self.newest is None
        return Manifest(
            export=self.export.name,
            version=self.version,
            first=self.version if is_whole or self.newest is None else self.newest.first,
            kind="whole" if is_whole else "changes",
            attempt=self.id,
            table=self.export.of,
            consumed=version_to_consume(self.ledger),
            since_version=self.since,
            format=self.export.format,
            declaration=self.export.fingerprint,
            committed_at=datetime.now(UTC),
            run=run,
            rows=sum(file.rows for file in files),
            files=tuple(files),
        )


def read_changes(
    table: DeltaTable, ledger: Ledger, since: int, names: Sequence[str], failures: list[ChangesGoneError]
) -> pa.RecordBatchReader:
    """Read what changed after a version up to the newest one that may have changed a row, for ``select_rows``.

    An error while DuckDB reads the rows is added to ``failures``, because DuckDB reports it as its own.
    """
    schema, batches = read_change_batches(table, ledger.uri, since, ledger.rows_version, names)

    def kept_failures() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except ChangesGoneError as error:
            failures.append(error)
            raise

    return pa.RecordBatchReader.from_batches(schema, kept_failures())


def explain_failure(name: str, table: str, ledger: Ledger, error: Exception, where: str = "") -> TableError:
    """Return an error of DuckDB, while it read a table, as one that names the outlet."""
    query_error = duckdb.Error(str(error))
    missing_error = missing_files(query_error, [TableVersion(table, ledger.uri, ledger.version, None)])
    message = missing_error.what if missing_error else refusal(query_error, "", f"{name} cannot read {table}").what
    return TableError(message, where=where or ledger.uri, action="Nothing was published. Run it again.")


def stop_error(export: Export, folder: Path, reason: str) -> TableError:
    """Return the error of an export whose changes cannot be continued."""
    action = f"Start again with all rows: lakehouse export {export.name} --whole"
    return TableError(f"Export {export.name} cannot continue: {reason}", where=str(folder), action=action)
