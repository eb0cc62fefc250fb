"""The row changes of any Delta table: which files have them, and their rows, read by Spark or without it.

A commit with files of change data has all its changes in them. Any other commit inserted the rows of the files that it
added, and deleted those of the files that it removed, unless it says that no row changed, as compaction does. Files may
have deletion vectors.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.parquet import ParquetFile

from lakehouse.declaration.export import CHANGE_COLUMNS
from lakehouse.errors import LakehouseError
from lakehouse.errors.troubles import PASSING, Trouble, find_trouble
from lakehouse.ledger.commit_infos import committed_at
from lakehouse.ledger.log_files import Action, LogFiles, info_in
from lakehouse.ledger.table_failures import log_failures
from lakehouse.ledger.vectors import vector_path
from lakehouse.settings.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BATCH_ROWS = 2_048  # a row may be as large as a record
_TYPE, _VERSION, _TIME = CHANGE_COLUMNS
_CHANGE_FIELDS = (
    pa.field(_TYPE, pa.string()),
    pa.field(_VERSION, pa.int64()),
    pa.field(_TIME, pa.timestamp("us", "UTC")),
)
_CHANGES = {"cdc": None, "remove": "delete", "add": "insert"}
_COLUMN_MAPPING = "delta.columnMapping.mode"
_COLUMNS_OF_CHANGES = "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable"


class ChangesGoneError(LakehouseError):
    """The changes of some versions can no longer be read; the message is a part of a sentence that says why."""


class OtherColumnsError(LakehouseError):
    """The changes of some versions cannot be read together: the columns of the table changed in between."""


@dataclass(frozen=True)
class ChangedFile:
    """A file with row changes; ``change`` is that of all its rows, ``None`` if each row has its own.

    ``path`` begins at the folder of the table, or is that of a file in another folder or store. ``vector`` is the
    deletion vector in the log; empty if it has none.
    """

    path: str
    partition: Mapping[str, str | None]
    change: str | None
    vector: Mapping[str, Any]

    @property
    def paths(self) -> Iterator[str]:
        """The paths of the file, and of that with its deletion vector."""
        yield self.path
        if path := vector_path(self.vector):
            yield path


@dataclass(frozen=True)
class VersionChanges:
    """The row changes of a version, by its ``number``: the ``commitInfo`` of its commit, and the files with changes.

    ``properties`` are those of the table if the commit sets its columns and properties; ``None`` if it does not.
    """

    number: int
    info: Action
    files: tuple[ChangedFile, ...]
    properties: Mapping[str, str] | None

    @property
    def microseconds(self) -> int:
        """When it was committed, since 1970; 0 if its commit does not say."""
        return int(self.info.get("timestamp") or 0) * 1_000


def list_changes(uri: str, first: int, last: int) -> list[VersionChanges]:
    """List the changes of the versions from ``first`` to ``last``, both included, oldest first.

    The oldest ones are missing if the log no longer holds them.
    """
    with log_failures(uri):
        commits = islice(LogFiles(uri).commits(last), max(0, last - first + 1))
        return [_changes_of(version, actions) for version, actions in commits][::-1]


def _changes_of(version: int, actions: Sequence[Action]) -> VersionChanges:
    by_kind = {kind: [action[kind] for action in actions if action.get(kind)] for kind in (*_CHANGES, "metaData")}
    files = [
        ChangedFile(place_of(file["path"]), file.get("partitionValues") or {}, change, file.get("deletionVector") or {})
        for kind, change in _CHANGES.items()
        if (kind == "cdc") == bool(by_kind["cdc"])
        for file in by_kind[kind]
        if kind == "cdc" or file.get("dataChange", True)
    ]
    properties = by_kind["metaData"][-1].get("configuration") or {} if by_kind["metaData"] else None
    return VersionChanges(version, info_in(actions) or {}, tuple(files), properties)


def place_of(path: str) -> str:
    """Return the place of a file from its path in the log; a file of a clone is outside of the table."""
    store = Store(path)
    return str(store.folder or path) if store.is_address else unquote(path)


def read_change_batches(
    table: DeltaTable, uri: str, since: int, until: int, names: Sequence[str]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Read what changed in columns of a table after version ``since``, up to ``until``, in their order.

    A column that a file does not have is NULL. Raises ``ChangesGoneError``, also while batches are read, if the changes
    cannot be continued: versions or files are gone, one of them is a RESTORE, or a value cannot be converted to the
    type that its column has now.
    """
    if table.metadata().configuration.get(_COLUMN_MAPPING, "none") != "none":
        raise ChangesGoneError("the table has column mapping")
    changes = list_changes(uri, since + 1, until)
    for version_changes in reversed(changes):
        _require_readable(version_changes)
    if len(changes) < until - since:
        raise ChangesGoneError(f"the log no longer holds version {until - len(changes)}")
    _require_partitions(changes, table.metadata().partition_columns)
    types = pa.schema(table.schema().to_arrow())
    schema = pa.schema([*(types.field(name) for name in names), *_CHANGE_FIELDS])
    return schema, (batch for version_changes in changes for batch in _read_version(uri, version_changes, schema))


def _require_readable(changes: VersionChanges) -> None:
    if changes.info.get("operation") == "RESTORE":
        raise ChangesGoneError(f"version {changes.number} is a RESTORE")
    if any(file.vector for file in changes.files):
        raise ChangesGoneError(f"version {changes.number} has deletion vectors")


def _require_partitions(changes: Sequence[VersionChanges], names: Sequence[str]) -> None:
    """Raise ``ChangesGoneError`` if the log does not say of which partition a file is: it may, if it removes the file.

    Without the values of the partition columns, they would be NULL in deleted rows.
    """
    for version_changes in changes:
        if not all(file.partition.keys() >= set(names) for file in version_changes.files):
            raise ChangesGoneError(f"version {version_changes.number} has a file without the values of its partition")


def _read_version(uri: str, changes: VersionChanges, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    constants = {_VERSION: changes.number, _TIME: committed_at(changes.info)}
    try:
        for file in changes.files:
            values = {**file.partition, **constants, **({_TYPE: file.change} if file.change else {})}
            with ParquetFile(open_file(uri, file.path), coerce_int96_timestamp_unit="us") as parquet:
                names = [name for name in schema.names if name in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=names):
                    columns = [_column(batch, field, values) for field in schema]
                    yield pa.record_batch(columns, schema=schema)
    except FileNotFoundError:
        message = f"a file with changes of version {changes.number} is gone: VACUUM removed it"
        raise ChangesGoneError(message) from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        message = f"changes of version {changes.number} cannot be read with the columns of today: {error}"
        raise ChangesGoneError(message) from None


def open_file(uri: str, path: str) -> Path | pa.PythonFile:
    """Return a file of a table for its reader; raises ``FileNotFoundError`` if it is gone from a store."""
    folder = Store(uri).folder
    if folder:
        return folder / path
    root, _, name = path.rpartition("/") if Store(path).is_address else (uri, "", path)
    return DeltaStorageHandler(root, Store(root).options).open_input_file(name)


def _column(batch: pa.RecordBatch, field: pa.Field, constants: Mapping[str, Any]) -> pa.Array:
    if field.name in constants:
        value = constants[field.name]
        scalar = pa.scalar(value).cast(field.type) if value is not None else pa.scalar(None, field.type)
        return pa.repeat(scalar, len(batch))
    if field.name not in batch.schema.names:
        return pa.nulls(len(batch), field.type)
    return batch.column(field.name).cast(field.type)


def read_version(spark: "SparkSession", uri: str, version: int) -> "DataFrame":
    """Return the rows as of a version, read by Spark; VACUUM may have deleted its files."""
    return spark.read.format("delta").option("versionAsOf", version).load(uri)


def read_changes(spark: "SparkSession", uri: str, first: int, last: int) -> "DataFrame":
    """Return the changes of the versions from ``first`` to ``last``, both included, read by Spark.

    If columns were renamed or dropped since, it has the columns as of ``last``; none may be in between. What reads its
    rows belongs into ``change_failures``.
    """
    spark.conf.set(_COLUMNS_OF_CHANGES, "endVersion")
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return reader.option("startingVersion", first).option("endingVersion", last).load(uri)


@contextmanager
def change_failures() -> Iterator[None]:
    """Raise ``ChangesGoneError`` or ``OtherColumnsError`` if Spark can never read these changes; pass other errors on.

    An error that may pass is none of the two.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - commands without Spark read changes, too
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        trouble = find_trouble(error, (*PASSING, Trouble.OTHER_COLUMNS, Trouble.GONE))
        if trouble is Trouble.OTHER_COLUMNS:
            raise OtherColumnsError("the columns changed in between") from error
        if trouble is Trouble.GONE:
            raise ChangesGoneError("change data was off or deleted, as VACUUM does") from error
        raise
