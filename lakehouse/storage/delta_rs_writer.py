"""Writes few rows without Spark: deltalake makes the same fenced commit as ``spark_writer``.

Spark needs half a second to plan such a commit and to compute the table's state, deltalake some milliseconds.
``eligibility`` decides if deltalake may write a batch: only into a table for which deltalake writes the same as Spark.
In all other cases ``spark_writer`` writes the same rows. A store has no lock: there, a commit
fails if its version is taken, and is planned again.
"""

import json
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from lakehouse.decoding.staged import REMOVES, STALE
from lakehouse.errors import ConflictError, TableDamagedError, TableError
from lakehouse.ledger.added_files import has_lost_vectors
from lakehouse.ledger.commits import Commit, Entry, Upkeep
from lakehouse.ledger.durability import require_undamaged, sync_commits
from lakehouse.ledger.ledger import app_id
from lakehouse.ledger.log import open_uncached, open_version
from lakehouse.ledger.log_copies import LOG
from lakehouse.ledger.table_failures import write_failures
from lakehouse.settings.store import Store
from lakehouse.storage.data_files import DataFile, writer_properties
from lakehouse.storage.eligibility import supports_links
from lakehouse.storage.layout import Layout, partitions_sql
from lakehouse.storage.lock import table_lock
from lakehouse.storage.spark_writer import commit_without_spark
from lakehouse.storage.store_drafts import ReadFiles, draft_table, files_in, no_files

_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_CHECKPOINTS = 10  # commits per checkpoint, as in Spark; deltalake itself makes fewer checkpoints


def append_quickly(layout: Layout, rows: pa.Table, commit: Commit) -> Entry:
    """Append rows in one commit that carries ``commit``, without reading the table.

    Raises ``ConflictError`` if another writer committed since ``commit`` was planned, ``TableError`` if the disk or the
    table fails.
    """

    def write(table: DeltaTable) -> None:
        write_deltalake(table, _cast_rows(rows, table), mode="append", **_fence(layout, rows, commit))

    return commit_planned(layout, commit, write, no_files)


def append_nothing(layout: Layout, commit: Commit) -> Entry:
    """Make a commit without rows and files that carries ``commit``; raises what ``append_quickly`` raises."""

    def write(table: DeltaTable) -> None:
        _append_no_rows(layout, table, commit)

    return commit_planned(layout, commit, write, no_files)


def _append_no_rows(layout: Layout, table: DeltaTable, commit: Commit) -> None:
    rows = pa.schema(table.schema()).empty_table()
    write_deltalake(table, rows, mode="append", **_fence(layout, rows, commit))


def add_files(layout: Layout, files: Sequence[DataFile], commit: Commit) -> Entry:
    """Commit data files that are in the folder of the table. Raises what ``append_quickly`` raises.

    Also raises ``ConflictError`` if a file is gone: VACUUM deletes those that no commit names after the retention.
    """
    now = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        AddAction(file.path, file.size, {}, now, True, json.dumps(file.stats)) for file in files
    ]
    metrics = {"numFiles": len(files), "numOutputRows": sum(file.stored_rows for file in files)}
    counts = {"operationMetrics": {name: str(count) for name, count in metrics.items()}}  # as Spark has them

    def write(table: DeltaTable) -> None:
        if not all(file.is_intact(layout.uri) for file in files):
            message = f"A data file of {layout.name} was deleted or changed before its commit"
            raise ConflictError(message, where=layout.uri, action=layout.conflict_advice)
        properties = _commit_properties(layout, commit, counts)
        table.create_write_transaction(actions, "append", table.schema(), **properties)

    return commit_planned(layout, commit, write)


def upsert_quickly(layout: Layout, rows: pa.Table, key: Sequence[str], deleted_column: str, commit: Commit) -> Entry:
    """Merge rows, one for each key, in one commit that carries ``commit``.

    A row is deleted if its ``deleted_column`` is true, updated if a column outside the key differs, inserted if its key
    is missing. NULL equals NULL. Raises what ``append_quickly`` raises.
    """
    value_columns = [name for name in layout.names if name not in key]

    def write(table: DeltaTable) -> None:
        source, fence = _cast_rows(rows, table, [deleted_column]), _fence(layout, rows, commit)
        merge = table.merge(source, _equal(key), source_alias="s", target_alias="t", streamed_exec=False, **fence)
        merge = merge.when_matched_delete(f"s.{deleted_column}")
        merge = merge.when_matched_update(_from_source(value_columns), f"NOT ({_equal(value_columns)})")
        merge.when_not_matched_insert(_from_source(layout.names), f"NOT s.{deleted_column}").execute()
        if table.version() == commit.table_version:  # deltalake skips the commit if a merge changes nothing (seen)
            _append_no_rows(layout, table, commit)

    return commit_planned(layout, commit, write, files_in(layout))


def write_quickly(
    layout: Layout, rows: pa.Table, key: Sequence[str], partitions: Collection[str] | None, commit: Commit
) -> Entry:
    """Insert, replace or remove rows, one for each key, in one commit that carries ``commit``.

    Stale rows are counted but not stored. At least one row must not be stale: deltalake makes no commit for a merge
    that changes nothing. If all rows are in some ``partitions``, no other partition is read. Raises what
    ``append_quickly`` raises.
    """
    key_conditions = [f"t.{_quote(name)} = s.{_quote(name)}" for name in key]
    on = " AND ".join([*key_conditions, *_partition_conditions(layout, partitions), f"NOT s.{STALE}"])
    # otherwise deltalake writes the bounds of the source, which may be whole texts, into the history
    is_streamed = not all(pa.types.is_primitive(rows.schema.field(name).type) for name in key)

    def write(table: DeltaTable) -> None:
        flags = [name for name in (STALE, REMOVES) if name in rows.column_names]
        source, fence = _cast_rows(rows, table, flags), _fence(layout, rows, commit)
        merge = table.merge(source, on, source_alias="s", target_alias="t", streamed_exec=is_streamed, **fence)
        merge = merge.when_matched_delete(f"s.{REMOVES}") if REMOVES in flags else merge
        merge = merge.when_matched_update(_from_source([name for name in layout.names if name not in key]))
        merge.when_not_matched_insert(_from_source(layout.names), f"NOT s.{STALE}").execute()

    return commit_planned(layout, commit, write, files_in(layout, partitions))


def replace_all(layout: Layout, rows: pa.RecordBatchReader, commit: Commit) -> Entry:
    """Replace every row and column of a table in one commit that carries ``commit``.

    The rows are written as they are read, never all in memory. Files that nobody needs any more are removed with every
    tenth commit. Raises what ``append_quickly`` raises.
    """

    def write(table: DeltaTable) -> None:
        fence = _fence(layout, rows.schema.empty_table(), commit)
        write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite", **fence)

    entry = commit_planned(layout, commit, write, no_files)
    if entry.version % _CHECKPOINTS == 0:
        _remove_old_files(layout, commit.run)
    return entry


def _remove_old_files(layout: Layout, run: str) -> None:
    """Remove the files and log entries that the retention of a table no longer needs.

    If another writer replaces the rows of a table in a store meanwhile, a later commit removes what stays.
    """
    properties = CommitProperties(custom_metadata={"userMetadata": Upkeep(run=run).model_dump_json()})
    with suppress(CommitFailedError), table_lock(layout.uri, layout.name), write_failures(layout.uri):
        table = open_uncached(layout.uri)
        if table is not None and table.vacuum(full=True):
            table.vacuum(None, False, full=True, commit_properties=properties, post_commithook_properties=_HOOKS)
        if table is not None:
            table.cleanup_metadata()


def restore_version(layout: Layout, version: int, planned_on: int) -> None:
    """Return a table to an earlier version in one commit, as the only lakehouse writer.

    An earlier commit that a power cut left incomplete does not prevent it: a restore is how to undo that commit.
    Raises ``ConflictError`` if the table is no longer at version ``planned_on``, and ``TableError`` if a file of the
    version was deleted. Nothing is written then.
    """

    def write(table: DeltaTable) -> None:
        message = f"Version {version} of {layout.name} cannot be restored"
        properties = CommitProperties(max_commit_retries=0)
        # deltalake looks only for the data files
        action = "Choose a newer version, or use a backup of the table."
        files_gone = TableError(f"{message}: VACUUM has deleted files of it", where=layout.uri, action=action)
        if folder and has_lost_vectors(open_version(layout.uri, version), folder):
            raise files_gone
        try:
            table.restore(version, commit_properties=properties, post_commithook_properties=_HOOKS)
        except DeltaError as error:
            if "missing file" in str(error):
                raise files_gone from error
            if _version(layout) != planned_on:
                raise
            raise TableError(
                f"{message}: {error}", where=layout.uri, action=spark_advice(layout.uri, version)
            ) from error

    folder = Store(layout.uri).folder
    if folder and not supports_links(folder / LOG):
        message = f"The disk of {layout.name} has no hard links, which this command needs"
        raise TableError(message, where=layout.uri, action=spark_advice(layout.uri, version))

    with table_lock(layout.uri, layout.name):
        _write_planned(layout, planned_on, write)
        if layout.sync:
            with suppress(TableDamagedError):  # the next run reports what is still damaged
                require_undamaged(layout.uri)
                sync_commits(layout.uri)


def spark_advice(uri: str, version: int) -> str:
    """How to restore a table that ``restore_version`` cannot restore."""
    return f"Stop what writes the table, then run in Spark: RESTORE TABLE delta.`{uri}` TO VERSION AS OF {version}"


def _version(layout: Layout) -> int | None:
    table = open_uncached(layout.uri)
    return table.version() if table else None


def _partition_conditions(layout: Layout, partitions: Collection[str] | None) -> list[str]:
    if layout.partition_by is None or not partitions:
        return []
    return [partitions_sql(f"t.{_quote(layout.partition_by)}", layout, partitions)]


def _from_source(names: Sequence[str]) -> dict[str, str]:
    return {_quote(name): f"s.{_quote(name)}" for name in names}


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _equal(names: Sequence[str]) -> str:
    return " AND ".join(f"(t.{_quote(name)} IS NOT DISTINCT FROM s.{_quote(name)})" for name in names)


def _cast_rows(rows: pa.Table, table: DeltaTable, flags: Sequence[str] = ()) -> pa.Table:
    schema = pa.schema(table.schema())
    cast_rows = rows.select(schema.names).cast(schema)
    for flag in flags:
        cast_rows = cast_rows.append_column(flag, rows[flag])
    return cast_rows


def _fence(layout: Layout, rows: pa.Table, commit: Commit) -> dict[str, Any]:
    """Return the transaction number and the metadata of a commit of rows; it fails if its version is taken."""
    return {**_commit_properties(layout, commit), "writer_properties": writer_properties(rows)}


def _commit_properties(layout: Layout, commit: Commit, info: Mapping[str, Any] | None = None) -> dict[str, Any]:
    transaction = Transaction(app_id(layout.name), commit.number)
    metadata: dict[str, Any] = {"userMetadata": commit.model_dump_json(), **(info or {})}
    properties = CommitProperties(custom_metadata=metadata, max_commit_retries=0, app_transactions=[transaction])
    return {"commit_properties": properties, "post_commithook_properties": _HOOKS}


def commit_planned(
    layout: Layout, commit: Commit, write: Callable[[DeltaTable], None], read_files: ReadFiles | None = None
) -> Entry:
    """Make a commit with ``write``, which gets the table at the version that the commit was planned on.

    Its ``read_files`` are fetched from a store. Raises what ``append_quickly`` raises.
    """
    return commit_without_spark(layout, commit, lambda: _write_planned(layout, commit.table_version, write, read_files))


def _write_planned(
    layout: Layout, planned_on: int, write: Callable[[DeltaTable], None], read_files: ReadFiles | None = None
) -> None:
    """Write the table only if it still has the version that the commit was planned on.

    If ``read_files`` is given, a commit into an object store is drafted on the local disk.
    """
    with _commit_failures(layout):
        if read_files and Store(layout.uri).folder is None:
            with draft_table(layout.uri, planned_on, read_files, _CHECKPOINTS) as draft:
                return write(draft)
        table = open_uncached(layout.uri)
        if table is None or table.version() != planned_on:
            raise CommitFailedError(f"It is no longer at version {planned_on}")
        _delete_checksums(layout, f"{table.version() + 1:020d}.json")
        write(table)
    if table.version() % _CHECKPOINTS == 0:
        _write_checkpoint(layout, table)
    return None


@contextmanager
def _commit_failures(layout: Layout) -> Iterator[None]:
    """Raise ``ConflictError`` if the version of a commit is taken, and ``TableError`` if the disk or table fails."""
    try:
        with write_failures(layout.uri):
            yield
    except CommitFailedError as error:
        message = f"Another writer changed {layout.name} since it was read"
        raise ConflictError(message, where=layout.uri, action=layout.conflict_advice) from error


def _write_checkpoint(layout: Layout, table: DeltaTable) -> None:
    """Write a checkpoint, or none if that fails: the commit is valid without it."""
    try:
        _delete_checksums(layout, f"{table.version():020d}.checkpoint.parquet", "_last_checkpoint")
        table.create_checkpoint()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # a panic in deltalake is not an Exception
        return


def _delete_checksums(layout: Layout, *file_names: str) -> None:
    """Delete Hadoop's checksums of files that are about to be written: old checksums would mark the files as damaged.

    Delta reads a damaged last checkpoint three times, a second apart, in each new session.
    """
    if folder := Store(layout.uri).folder:
        for file_name in file_names:
            (folder / LOG / f".{file_name}.crc").unlink(missing_ok=True)


def create_with_rows(layout: Layout, rows: pa.RecordBatchReader, commit: Commit) -> Entry:
    """Create a table with rows in one commit, its first version, which carries ``commit``.

    On a local disk, it is created in a folder next to its own, which is then renamed. After a failure or a crash, the
    table does not exist; the next run removes what is left, in a store with the tenth commit. Raises ``ConflictError``
    if another process created the table first, and what ``replace_all`` raises.
    """
    return commit_without_spark(layout, commit, lambda: _create(layout, rows, commit))


def _create(layout: Layout, rows: pa.RecordBatchReader, commit: Commit) -> None:
    folder = Store(layout.uri).folder
    with _commit_failures(layout):
        if open_uncached(layout.uri) is not None:
            raise CommitFailedError("It exists")
        if folder is None:
            _write_new(layout, layout.uri, rows, commit)
            return
        draft = folder.with_name(f".{layout.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            _write_new(layout, str(draft), rows, commit)
            shutil.rmtree(folder, ignore_errors=True)  # what an interrupted creation left
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _write_new(layout: Layout, uri: str, rows: pa.RecordBatchReader, commit: Commit) -> None:
    fence, properties = _fence(layout, rows.schema.empty_table(), commit), dict(layout.properties)
    place: dict[str, Any] = {"storage_options": Store(uri).options}
    try:
        write_deltalake(uri, rows, description=layout.doc, configuration=properties, **place, **fence)
    except DeltaError as error:
        if _version(layout) is None:
            raise
        raise CommitFailedError("It exists by now") from error
