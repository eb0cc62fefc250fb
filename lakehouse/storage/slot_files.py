"""The data files of a commit that replaces rows in their slots: copies without these rows, and files of new rows.

A slot is the data file of a stored row, and the index of the row in it.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow.parquet import ParquetFile

from lakehouse.errors import TableError
from lakehouse.ledger.added_files import added_files
from lakehouse.ledger.log_copies import LOG
from lakehouse.ledger.versions import active_files
from lakehouse.settings.store import Store
from lakehouse.storage.data_files import name_of
from lakehouse.storage.deletion_vectors import read_vector, write_vectors
from lakehouse.storage.eligibility import has_texts
from lakehouse.storage.layout import Layout
from lakehouse.storage.lock import table_lock
from lakehouse.storage.row_changes import open_file

_BATCH_ROWS, _WIDE_BATCH_ROWS = 8_192, 1_024  # that are copied at a time: a text may be as large as a record
ENTRY_DRAFT = ".{}.tmp"  # the name of a log entry that is being written, with an id
_DRAFT = "_draft-"  # VACUUM leaves folders alone whose name begins with an underscore
_DRAFT_ENTRY = f"{LOG}/{0:020d}.json"
Action = dict[str, Any]
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class TouchedFile:
    """A data file in which rows are replaced: its path in the log, size in bytes, and the value of its partition.

    ``keys`` are the keys of these rows, and ``indexes`` their places in the file, in ascending order.
    """

    path: str
    size: int
    partition: str | None
    indexes: "np.ndarray[Any, np.dtype[np.int64]]"
    keys: pa.Table

    def as_removed(self, layout: Layout, milliseconds: int) -> Action:
        """Return the action of a commit that removes the file."""
        partition = {layout.partition_by: self.partition} if layout.partition_by else {}
        times = {"deletionTimestamp": milliseconds, "dataChange": True, "extendedFileMetadata": True}
        return {"path": self.path, **times, "partitionValues": partition, "size": self.size}

    def read_other_rows(self, layout: Layout, schema: pa.Schema) -> Batches:
        """Read the rows that stay; raises ``TableError`` if a slot has a row with another key."""
        first = 0
        with ParquetFile(open_file(layout.uri, unquote(self.path))) as parquet:
            for batch in parquet.iter_batches(_WIDE_BATCH_ROWS if has_texts(layout) else _BATCH_ROWS):
                rows = self._complete(batch, layout, schema)
                begin, end = np.searchsorted(self.indexes, (first, first + len(batch)))
                is_kept = np.ones(len(batch), dtype=bool)
                is_kept[self.indexes[begin:end] - first] = False
                keys = rows.filter(pa.array(~is_kept)).select(self.keys.column_names)
                if not pa.Table.from_batches([keys]).equals(self.keys.slice(begin, end - begin)):
                    message = f"{self.path} has other rows of {layout.name} than the ones that were compared"
                    raise TableError(message, where=layout.uri, action="Nothing was written. Run it again.")
                first += len(batch)
                yield rows.filter(pa.array(is_kept))

    def _complete(self, batch: pa.RecordBatch, layout: Layout, schema: pa.Schema) -> pa.RecordBatch:
        """Return a batch with the columns of the table: a partition is not in the file, nor a later column."""
        columns = []
        for field in schema:
            if field.name == layout.partition_by:
                columns.append(pa.repeat(pa.scalar(self.partition, pa.string()), len(batch)).cast(field.type))
            elif field.name in batch.schema.names:
                columns.append(batch.column(field.name).cast(field.type))
            else:
                columns.append(pa.nulls(len(batch), field.type))
        return pa.record_batch(columns, schema=schema)


def list_touched_files(layout: Layout, table: DeltaTable, slots: pa.Table) -> list[TouchedFile]:
    """Return the files in which rows are replaced; ``slots`` has ``file``, its URI, ``index``, and then the key.

    Raises ``CommitFailedError`` if two files have one name, as those of a table that Spark did not write may.
    """
    files = active_files(table, layout.uri, layout.partition_by).to_pylist()
    by_name = {name_of(file["path"]): file for file in files}
    if len(by_name) < len(files):
        raise CommitFailedError(f"Two files of {layout.name} have the same name")
    touched_files = []
    for uri in pc.unique(slots["file"]).to_pylist():
        rows = slots.filter(pc.equal(slots["file"], uri)).sort_by("index")
        file, keys = by_name[name_of(uri)], rows.drop_columns(["file", "index"])
        touched_files.append(
            TouchedFile(file["path"], file["size"], file["partition"], rows["index"].to_numpy(), keys.combine_chunks())
        )
    return touched_files


@dataclass(frozen=True)
class HiddenRows:
    """A data file some of whose rows become hidden, by the actions that remove it and that add it again."""

    removed: Action
    added: Action | None


def hide_rows(
    layout: Layout, folder: Path, version: int, files: Sequence[TouchedFile], milliseconds: int
) -> list[HiddenRows]:
    """Write the deletion vectors of files, with the rows that they hide already; a file without a row is removed.

    ``folder`` gets the file with the vectors. Raises ``CommitFailedError`` if Spark has to write them.
    """
    try:
        active = added_files(layout.uri, version)
    except TableError as error:
        raise CommitFailedError(str(error)) from error
    adds = {file.path: active[file.path] for file in files}
    vectors = {file.path: read_vector(layout.uri, adds[file.path].get("deletionVector") or {}) for file in files}
    for file in files:
        count = len(vectors[file.path])
        vectors[file.path].update(file.indexes.tolist())
        if len(vectors[file.path]) != count + len(file.indexes):
            message = f"{file.path} hides rows of {layout.name} that were compared"
            raise TableError(message, where=layout.uri, action="Nothing was written. Run it again.")
    entries = write_vectors(folder, vectors)
    return [_hide(add, entries[path], milliseconds) for path, add in adds.items()]


def _hide(add: Action, vector: Action, milliseconds: int) -> HiddenRows:
    removed = {name: add[name] for name in ("path", "partitionValues", "size", "deletionVector") if add.get(name)}
    removed |= {"deletionTimestamp": milliseconds, "dataChange": True, "extendedFileMetadata": True}
    stats = json.loads(add.get("stats") or "{}")
    if "numRecords" not in stats:
        raise CommitFailedError(f"The log has no statistics of {add['path']}")
    if stats["numRecords"] < vector["cardinality"]:
        raise CommitFailedError(f"{add['path']} has fewer rows than were replaced")
    is_empty = stats["numRecords"] == vector["cardinality"]
    stats_text = json.dumps(stats | {"tightBounds": False})
    added = None if is_empty else add | {"stats": stats_text, "deletionVector": vector, "dataChange": True}
    return HiddenRows(removed | {"partitionValues": add["partitionValues"]}, added)


def _noting_failures(batches: Batches, failures: list[Exception]) -> Batches:
    """Yield batches, and note why one cannot be read: deltalake reports only the text."""
    try:
        yield from batches
    except Exception as error:
        failures.append(error)
        raise


def remove_drafts(layout: Layout) -> None:
    """Remove from a table on a local disk what writers that were killed have left: it has rows of people."""
    folder = Store(layout.uri).folder
    if folder and folder.exists():
        with table_lock(layout.uri, layout.name):
            NewFiles(layout, folder).remove_drafts()


@dataclass(frozen=True)
class NewFiles:
    """Writes data files into a folder, which is that of the table or of a draft of its commit."""

    layout: Layout
    folder: Path

    def remove_drafts(self) -> None:
        """Remove what writers that were killed have left."""
        for draft in self.folder.glob(f"{_DRAFT}*"):
            shutil.rmtree(draft, ignore_errors=True)
        for entry in (self.folder / LOG).glob(ENTRY_DRAFT.format("?" * 32)):
            entry.unlink(missing_ok=True)

    def write(self, schema: pa.Schema, batches: Batches, properties: WriterProperties, place: str = "") -> list[Action]:
        """Write rows as deltalake writes them, below ``place``; return the actions that add the files."""
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self.folder))
        failures: list[Exception] = []
        try:
            write_deltalake(
                draft,
                pa.RecordBatchReader.from_batches(schema, _noting_failures(batches, failures)),
                partition_by=self.layout.partitions,
                configuration=self.layout.statistics_properties,
                writer_properties=properties,
            )
        except DeltaError:
            if failures:
                raise failures[0] from None
            raise
        entry = (draft / _DRAFT_ENTRY).read_bytes()
        files: list[Action] = [action["add"] for action in map(json.loads, entry.splitlines()) if "add" in action]
        for file in files:
            target = self.folder / place / unquote(file["path"])
            target.parent.mkdir(parents=True, exist_ok=True)
            (draft / unquote(file["path"])).rename(target)
        shutil.rmtree(draft)
        return [
            {name: value for name, value in file.items() if value is not None} | {"path": f"{place}{file['path']}"}
            for file in files
        ]
