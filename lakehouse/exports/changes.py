"""What changed in a table between two of its versions, read from its log and its files, without a JVM.

A commit of a table with change data names files of changes. A commit without them added or removed whole files: their
rows were inserted or deleted. Commits that change no row, such as compaction, have no changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow.parquet import ParquetFile

from lakehouse.declaration.export import CHANGE_COLUMNS
from lakehouse.errors import LakehouseError
from lakehouse.ledger.commit_infos import committed_at
from lakehouse.ledger.log_files import Action, LogFiles
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings.store import Store

_BATCH_ROWS = 2_048  # a row may be as large as a record
_TYPE, _VERSION, _TIME = CHANGE_COLUMNS
_CHANGE_FIELDS = (
    pa.field(_TYPE, pa.string()),
    pa.field(_VERSION, pa.int64()),
    pa.field(_TIME, pa.timestamp("us", "UTC")),
)


class ChangesGoneError(LakehouseError):
    """The changes between two versions cannot be read; the message is a part of a sentence that says why."""


@dataclass(frozen=True)
class ChangedFile:
    """A file with changes of one version; ``change`` is that of all its rows, ``None`` if each row has its own."""

    path: Path
    partition: Mapping[str, str | None]
    change: str | None
    version: int
    committed_at: datetime


def list_changes(uri: str, since: int, until: int) -> list[ChangedFile]:
    """List the files with what changed after version ``since``, up to ``until``, oldest version first.

    Raises ``ChangesGoneError`` if the log does not hold these versions, or if one of them is a RESTORE.
    """
    files: list[list[ChangedFile]] = []
    with log_failures(uri):
        for version, actions in LogFiles(uri).commits(until):
            if version <= since:
                break
            files.append(list(_files_of(Path(uri), version, actions)))
    if len(files) < until - since:
        raise ChangesGoneError(f"the log no longer holds version {until - len(files)}")
    return [file for version_files in reversed(files) for file in version_files]


def _files_of(table: Path, version: int, actions: Sequence[Action]) -> Iterator[ChangedFile]:
    info: Action = next((action["commitInfo"] for action in actions if action.get("commitInfo")), {})
    if info.get("operation") == "RESTORE":
        raise ChangesGoneError(f"version {version} is a RESTORE")
    by_kind = {kind: [action[kind] for action in actions if action.get(kind)] for kind in ("cdc", "add", "remove")}
    kinds = ["cdc"] if by_kind["cdc"] else ["remove", "add"]
    changes = {"cdc": None, "remove": "delete", "add": "insert"}
    for kind in kinds:
        for file in by_kind[kind]:
            if kind == "cdc" or file.get("dataChange", True):
                if file.get("deletionVector"):
                    raise ChangesGoneError(f"version {version} has deletion vectors")
                path, partition = _path_of(table, file["path"]), file.get("partitionValues") or {}
                yield ChangedFile(path, partition, changes[kind], version, committed_at(info))


def _path_of(table: Path, path: str) -> Path:
    """Return the place of a file from its path in the log; a file of a clone is outside of the table."""
    store = Store(path)
    return table / (unquote(path) if store.is_path or store.folder is None else store.folder)


def schema_of_changes(columns: pa.Schema) -> pa.Schema:
    """Return the schema of changes of rows with these columns."""
    return pa.schema([*columns, *_CHANGE_FIELDS])


def require_partitions(files: Sequence[ChangedFile], names: Sequence[str]) -> None:
    """Raise ``ChangesGoneError`` if the log does not say of which partition a file is: it may, if it removes the file.

    ``names`` are the partition columns of the table. Without their values, they would be NULL in deleted rows.
    """
    for file in files:
        if not file.partition.keys() >= set(names):
            raise ChangesGoneError(f"version {file.version} has a file without the values of its partition")


def read_changes(files: Sequence[ChangedFile], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the changes of files, with these columns of the table, in the order of versions.

    A column that a file does not have is NULL. Raises ``ChangesGoneError`` if a file is gone, or if a value cannot be
    converted to the type that its column has now.
    """
    schema = schema_of_changes(columns)
    for file in files:
        try:
            with ParquetFile(file.path, coerce_int96_timestamp_unit="us") as parquet:
                names = [name for name in (*columns.names, _TYPE) if name in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=names):
                    yield _convert(batch, file, schema)
        except FileNotFoundError:
            message = f"a file with changes of version {file.version} is gone: VACUUM removed it"
            raise ChangesGoneError(message) from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            message = f"changes of version {file.version} cannot be read with the columns of today: {error}"
            raise ChangesGoneError(message) from None


def _convert(batch: pa.RecordBatch, file: ChangedFile, schema: pa.Schema) -> pa.RecordBatch:
    constants: dict[str, Any] = {**file.partition, _VERSION: file.version, _TIME: file.committed_at}
    constants |= {} if file.change is None else {_TYPE: file.change}
    return pa.record_batch([_column(batch, field, constants) for field in schema], schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field, constants: Mapping[str, Any]) -> pa.Array:
    if field.name in constants:
        value = constants[field.name]
        scalar = pa.scalar(value).cast(field.type) if value is not None else pa.scalar(None, field.type)
        return pa.repeat(scalar, len(batch))
    if field.name not in batch.schema.names:
        return pa.nulls(len(batch), field.type)
    return batch.column(field.name).cast(field.type)
