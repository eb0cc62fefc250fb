"""Maintenance: compaction and vacuum of every table of a declaration. It changes no row of a merged table.

Maintenance of a table compacts its small files and removes the files that its retention no longer needs. Then it
makes one commit without rows that repeats the state of the ledger, so that an idle table keeps this state after its log
expires. A table whose newest commit is such a commit is skipped.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lakehouse.declaration.sink import Outlet
from lakehouse.derived.refresh import refresh_changes, refresh_rollup
from lakehouse.errors import LakehouseError
from lakehouse.ingest.horizon import purge_deletes
from lakehouse.ledger.added_files import hiding_files
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import active_files, open_table, read_history
from lakehouse.ledger.log_files import Action
from lakehouse.ledger.vectors import vector_path
from lakehouse.operations.planned_changes import layouts_of
from lakehouse.operations.readers import VacuumReaders
from lakehouse.settings.store import Store
from lakehouse.spark.sessions import FILE_SIZE
from lakehouse.storage.data_files import partitions_without_codec
from lakehouse.storage.key_hashes import KEYS_FOLDER
from lakehouse.storage.layout import Layout
from lakehouse.storage.slot_files import remove_drafts
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext, retry_on_conflict

_MIN_SMALL_FILES = 2  # small files in one partition that are worth a compaction
_CODEC = "spark.sql.parquet.compression.codec"
_MOST_HIDDEN = 0.05  # of the rows of a file, from which on OPTIMIZE copies it
_RECENT_COMMITS = 20  # newest commits that are searched for the metrics of VACUUM


@dataclass(frozen=True)
class Maintained:
    """What maintenance did to one table.

    ``files_before`` and ``files_after`` count the files of its newest version. ``removed`` counts the files and folders
    that VACUUM deleted; ``None`` if it did not run, or if the store does not report the number. ``idle`` means that
    nothing changed since the last maintenance, and that nothing was done. ``kept`` says why old files stay: a derived
    table still needs them, and the next run tries again.
    """

    name: str
    version: int
    files_before: int
    files_after: int
    removed: int | None = None
    idle: bool = False
    kept: str | None = None


def maintain_all(
    contexts: Iterable[TableContext], on_table: Callable[[Maintained], None], outlets: Sequence[Outlet] = ()
) -> None:
    """Maintain the tables of several declarations with ``maintain``. If one fails, continue, and raise at the end."""
    failures = _Failures()
    for context in contexts:
        with failures.collect():
            maintain(context, on_table, outlets)
    failures.raise_all()


def maintain(
    context: TableContext,
    on_table: Callable[[Maintained], None] = lambda _: None,
    outlets: Sequence[Outlet] = (),
) -> list[Maintained]:
    """Compact and vacuum every existing table of the declaration; returns the result for each.

    The change feed and the rollups are updated first, because VACUUM removes the changes that they read. If one cannot
    be updated, it is skipped, and VACUUM keeps the changes that it has not read yet. VACUUM also waits for those of
    ``outlets``, all declared ones, that read changes of the table and lag. A second run does nothing. A concurrent
    merge wins, or plans again: no row changes.

    If a table fails, the others are still maintained: ``on_table`` receives the result of each, and the errors are
    raised at the end. A merged table whose history does not record its progress is skipped.
    """
    failures, refresh_errors = _Failures(), None
    with failures.collect():
        refresh_errors = _refresh(context)
    results: list[Maintained] = []
    for layout in layouts_of(context.settings, context.table):
        if refresh_errors is None and layout.name == context.table.name:
            continue
        with failures.collect():
            if layout.name == context.table.deletes_name:
                retry_on_conflict(lambda: purge_deletes(context))  # VACUUM must keep the deletes that count
            stored_table = context.merged if layout.name == context.table.name else StoredTable(context.spark, layout)
            if stored_table.ledger().exists:
                readers = VacuumReaders(context.settings, context.table, layout.name, refresh_errors or {}, outlets)
                results.append(_maintain_table(context, stored_table, readers))
                on_table(results[-1])
    failures.raise_all()
    return results


def _maintain_table(context: TableContext, stored_table: StoredTable, readers: VacuumReaders) -> Maintained:
    name = stored_table.layout.name
    if name in readers.errors:
        return _skip(stored_table, readers.errors[name])
    is_merged = name == context.table.name
    return _TableMaintenance(stored_table, context.run, is_merged=is_merged).maintain(readers)


class _Failures:
    """Collects errors while the other tables are maintained."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect an error instead of raising it."""
        try:
            yield
        except Exception as error:
            self._errors.append(error)

    def raise_all(self) -> None:
        """Raise the only error, or an error that names all of them."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            messages = " ".join(map(str, self._errors))
            raise LakehouseError(f"Maintenance of {len(self._errors)} tables failed: {messages}") from self._errors[0]


def _refresh(context: TableContext) -> dict[str, str]:
    """Update the derived tables; returns the error messages by the name of the table."""
    if not context.ledger().exists:
        return {}
    errors: dict[str, str] = {}
    if not context.table.is_log:
        with _collect_message(errors, context.table.changes_name):
            refresh_changes(context)
    for rollup in context.table.rollups:
        with _collect_message(errors, rollup.name):
            refresh_rollup(context, rollup)
    return errors


@contextmanager
def _collect_message(errors: dict[str, str], name: str) -> Iterator[None]:
    try:
        yield
    except LakehouseError as error:
        errors[name] = str(error)


def _skip(stored_table: StoredTable, reason: str) -> Maintained:
    files = sum(len(sizes) for sizes in _file_sizes(stored_table.layout))
    return Maintained(stored_table.layout.name, stored_table.ledger().version, files, files, kept=reason)


@dataclass(frozen=True)
class _TableMaintenance:
    """The maintenance of one table."""

    stored_table: StoredTable
    run: str
    is_merged: bool

    def maintain(self, readers: VacuumReaders) -> Maintained:
        """Compact, vacuum and carry the ledger forward, each only if needed."""
        ledger = retry_on_conflict(lambda: self.stored_table.ensured_ledger(None))
        file_sizes = _file_sizes(self.stored_table.layout)
        before = sum(len(sizes) for sizes in file_sizes)
        uncompressed_partitions = self._uncompressed_partitions()
        if _is_idle(ledger) and not uncompressed_partitions:
            return Maintained(self.stored_table.layout.name, ledger.version, before, before, idle=True)
        has_small_files = any(sum(size < FILE_SIZE for size in sizes) >= _MIN_SMALL_FILES for sizes in file_sizes)
        if has_small_files or _hides_many_rows(self.stored_table.layout):
            retry_on_conflict(lambda: self.stored_table.run_upkeep(self.stored_table.layout.compaction, self.run))
        if uncompressed_partitions:
            retry_on_conflict(self._compress)
        self.stored_table.key_hashes.renew(ledger)
        remove_drafts(self.stored_table.layout)
        wait_reason = readers.reason_to_wait()
        removed_count = None if wait_reason else self._vacuum(ledger.version)
        if wait_reason is None:
            retry_on_conflict(self._carry_ledger_forward)
        after = sum(len(sizes) for sizes in _file_sizes(self.stored_table.layout))
        return Maintained(
            self.stored_table.layout.name,
            self.stored_table.ledger().version,
            before,
            after,
            removed_count,
            kept=wait_reason,
        )

    def _uncompressed_partitions(self) -> set[str | None]:
        """The partitions that have files without a codec, if Spark is configured to write one."""
        partitions = partitions_without_codec(self.stored_table.layout)
        if not partitions or self.stored_table.spark.conf.get(_CODEC) in ("none", "uncompressed"):
            return set()
        return partitions

    def _compress(self) -> None:
        if uncompressed_partitions := self._uncompressed_partitions():  # the partitions that compaction did not rewrite
            self.stored_table.run_upkeep(self.stored_table.layout.rewrite_statement(uncompressed_partitions), self.run)

    def _vacuum(self, last_version: int) -> int | None:
        if not has_removable_files(self.stored_table.layout):
            return 0
        retry_on_conflict(lambda: self.stored_table.run_upkeep(f"VACUUM {self.stored_table.layout.sql}", self.run))
        history = read_history(self.stored_table.layout.uri, _RECENT_COMMITS)
        ends = [
            commit for commit in history if commit["operation"] == "VACUUM END" and commit["version"] > last_version
        ]
        metrics: dict[str, Any] = ends[0].get("operationMetrics", {}) if ends else {}
        return int(metrics["numDeletedFiles"]) if "numDeletedFiles" in metrics else None

    def _carry_ledger_forward(self) -> None:
        """Commit the state of the ledger again; for the merged table, also which of all its commits do not add up."""
        commit = self.stored_table.next_commit("maintenance", self.run)
        if self.is_merged:
            commit = commit.with_fields(unaccounted=self.stored_table.ledger(whole=True).unaccounted)
        self.stored_table.commit_nothing(commit)


def _is_idle(ledger: Ledger) -> bool:
    """Whether the table did not change since its last maintenance, or never had rows."""
    newest = ledger.entries[0] if ledger.entries else None
    is_maintained = newest is not None and newest.version == ledger.version and newest.commit.kind == "maintenance"
    return is_maintained or ledger.rows_version <= 0


def _file_sizes(layout: Layout) -> list[list[int]]:
    """The sizes in bytes of the files of the newest version, one list per partition."""
    files = active_files(layout.uri)
    columns = [name for name in files.column_names if name.startswith("partition.")]
    sizes: dict[tuple[Any, ...], list[int]] = {}
    for size, *values in zip(*(files.column(name).to_pylist() for name in ("size_bytes", *columns)), strict=True):
        sizes.setdefault(tuple(values), []).append(size)
    return list(sizes.values())


def _hides_many_rows(layout: Layout) -> bool:
    """Whether compaction copies a file, because more of its rows are hidden than Spark tolerates (seen: 5 %)."""
    counts = ((add["deletionVector"]["cardinality"], json.loads(add["stats"])) for add in _hiding_files(layout))
    return any(hidden > _MOST_HIDDEN * stats["numRecords"] for hidden, stats in counts)


def _hiding_files(layout: Layout) -> list[Action]:
    """Return the actions that added the active files with a deletion vector."""
    table = open_table(layout.uri)
    return hiding_files(table, layout.uri) if table else []


def has_removable_files(layout: Layout) -> bool:
    """Whether a file was last changed before the retention and is not active; in an object store, there may be one.

    VACUUM deletes no other file, and takes seconds also if it deletes none. It may keep such a file, because a version
    within the retention needs it.
    """
    folder = Store(layout.uri).folder
    if folder is None:
        return True
    active_paths = set(map(unquote, active_files(layout.uri)["path"].to_pylist()))
    active_paths |= {path for add in _hiding_files(layout) if (path := vector_path(add["deletionVector"]))}
    oldest = time.time() - max(1.0, layout.retention.total_seconds())
    return any(path not in active_paths and _is_older(folder / path, oldest) for path in _files_in(folder))


def _files_in(folder: Path) -> Iterator[str]:
    """Yield the paths of the files of a table within its folder, without its log, packs of keys, and hidden files."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("_delta_log", KEYS_FOLDER)]
        yield from (os.path.relpath(Path(parent, name), folder) for name in files if not name.startswith("."))


def _is_older(file: Path, time_of_change: float) -> bool:
    with suppress(FileNotFoundError):
        return file.stat().st_mtime < time_of_change
    return False
