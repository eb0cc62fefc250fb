"""Maintenance: compaction and vacuum of every table of a declaration. It changes no row.

One run over a table compacts its small files, removes the files that its retention no longer promises, and
commits one empty MERGE that carries on what the ledger tells, so that a quiet table keeps it when its log
expires. A table whose newest commit is such a one is left alone.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakehouse.declaration import StreamTable
from lakehouse.derived.refresh import refresh_changes, refresh_rollup
from lakehouse.errors import LakehouseError
from lakehouse.ledger.commits import Consumed
from lakehouse.ledger.ledger import Ledger, ledger_of, still_holds
from lakehouse.ledger.log import active_files, read_history
from lakehouse.operations.layouts import derived_layouts, layouts_of
from lakehouse.settings import Settings
from lakehouse.spark.sessions import FILE_SIZE
from lakehouse.storage.layout import Layout
from lakehouse.storage.parquet_properties import partitions_without_codec
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext, again

_SEVERAL = 2  # small files in one partition that are worth one instead
_CODEC = "spark.sql.parquet.compression.codec"
_RECENT = 20  # commits in which to look for what VACUUM tells of itself


@dataclass(frozen=True)
class Maintained:
    """What maintenance did to one table.

    ``files_before`` and ``files_after`` count the files of its newest version. ``removed`` counts the files
    and folders that VACUUM deleted; ``None`` where it did not run, or where the store does not let it tell.
    ``idle``: nothing happened since the last time, and nothing was done. ``kept`` says why old files had to
    stay: somebody still needs them; the next run tries again.
    """

    name: str
    version: int
    files_before: int
    files_after: int
    removed: int | None = None
    idle: bool = False
    kept: str | None = None


def maintain_all(contexts: Iterable[TableContext], on_table: Callable[[Maintained], None] = lambda _: None) -> None:
    """Maintain the tables of several declarations, as ``maintain`` does; where one fails, go on and fail at the end."""
    failures = _Failures()
    for context in contexts:
        with failures.noted():
            maintain(context, on_table)
    failures.raise_all()


def maintain(context: TableContext, on_table: Callable[[Maintained], None] = lambda _: None) -> list[Maintained]:
    """Compact and vacuum every table of the declaration that exists; returns what was done to each.

    Change feed and rollups are brought up to date first, since VACUUM removes the changes they read. One that
    cannot be is left alone, and what it has not read yet stays. A second run does nothing. A merge at the
    same time wins, or plans again: no row changes.

    A table that fails keeps no other from it: ``on_table`` is told each that is done, and what failed is raised at the
    end. A merged table whose history does not tell its progress is left as it is.
    """
    failures, failed = _Failures(), None
    with failures.noted():
        failed = _refresh(context)
    done: list[Maintained] = []
    for layout in layouts_of(context.settings, context.table):
        if failed is None and layout.name == context.table.name:
            continue
        with failures.noted():
            stored = context.merged if layout.name == context.table.name else StoredTable(context.spark, layout)
            if stored.ledger().exists:
                done.append(_maintained(context, stored, failed or {}))
                on_table(done[-1])
    failures.raise_all()
    return done


def _maintained(context: TableContext, stored: StoredTable, failed: dict[str, str]) -> Maintained:
    name = stored.layout.name
    if name in failed:
        return _left(stored, failed[name])
    needed = _Needed(context.settings, context.table, failed) if name == context.table.name else None
    return _Work(stored, context.run).go(needed)


class _Failures:
    """What failed while the rest went on."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep an error for the end."""
        try:
            yield
        except Exception as error:
            self._errors.append(error)

    def raise_all(self) -> None:
        """Raise the one that failed, or an error that names each."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            told = " ".join(map(str, self._errors))
            raise LakehouseError(f"{len(self._errors)} tables could not be maintained: {told}") from self._errors[0]


def _refresh(context: TableContext) -> dict[str, str]:
    """Bring the derived tables up to date; returns what kept one from it, by its name."""
    if not context.ledger().exists:
        return {}
    failed: dict[str, str] = {}
    if not context.table.is_log:
        with _noted(failed, context.table.changes_name):
            refresh_changes(context)
    for rollup in context.table.rollups:
        with _noted(failed, rollup.name):
            refresh_rollup(context, rollup)
    return failed


@contextmanager
def _noted(failed: dict[str, str], name: str) -> Iterator[None]:
    try:
        yield
    except LakehouseError as error:
        failed[name] = str(error)


def _left(stored: StoredTable, reason: str) -> Maintained:
    files = sum(len(part) for part in _file_sizes(stored.layout))
    return Maintained(stored.layout.name, stored.ledger().version, files, files, kept=reason)


@dataclass(frozen=True)
class _Needed:
    """What the derived tables still have to read of the merged one; ``failed`` says why they could not."""

    settings: Settings
    table: StreamTable
    failed: dict[str, str]

    def reason(self) -> str | None:
        """Why VACUUM has to wait; ``None`` where every derived table has read what it could remove."""
        for layout in derived_layouts(self.settings, self.table):
            consumed = ledger_of(self.settings, layout.name).consumed
            if self._misses(consumed):
                upto = f"up to version {consumed.version}" if consumed else "not at all"
                cause = f": {self.failed[layout.name]}" if layout.name in self.failed else "."
                return f"{layout.name} has read {self.table.name} {upto}{cause}"
        return None

    def _misses(self, consumed: Consumed | None) -> bool:
        """Whether VACUUM may remove changes that were not consumed and can still be read.

        A file is older than the commit it came with: half of the retention is for that.
        """
        ledger = ledger_of(self.settings, self.table.name)
        if ledger.is_consumed(consumed):
            return False
        first = ledger.next_change(consumed.version) if consumed and still_holds(ledger, consumed) else 0
        told = {commit["version"]: commit["timestamp"] for commit in read_history(ledger.uri)}
        since = datetime.fromtimestamp(told[first] / 1000, UTC) if first in told else None
        return since is not None and datetime.now(UTC) - since > self.table.retention / 2


@dataclass(frozen=True)
class _Work:
    """The maintenance of one table."""

    stored: StoredTable
    run: str

    def go(self, needed: _Needed | None) -> Maintained:
        """Compact, vacuum and carry the ledger on, each where there is reason to."""
        ledger = again(lambda: self.stored.ensured_ledger(None))
        sizes = _file_sizes(self.stored.layout)
        before = sum(len(part) for part in sizes)
        bare = self._bare()
        if _is_idle(ledger) and not bare:
            return Maintained(self.stored.layout.name, ledger.version, before, before, idle=True)
        if any(sum(size < FILE_SIZE for size in part) >= _SEVERAL for part in sizes):
            again(lambda: self.stored.upkeep(self.stored.layout.compaction, self.run))
        if bare:
            again(self._compress)
        kept = needed.reason() if needed else None
        removed = None if kept else self._vacuum(ledger.version)
        if kept is None:
            again(lambda: self._carry_on(judged=needed is not None))
        after = sum(len(part) for part in _file_sizes(self.stored.layout))
        return Maintained(self.stored.layout.name, self.stored.ledger().version, before, after, removed, kept=kept)

    def _bare(self) -> set[str | None]:
        """The partitions with files without a codec, where Spark writes one."""
        found = partitions_without_codec(self.stored.layout)
        return found if found and self.stored.spark.conf.get(_CODEC) not in ("none", "uncompressed") else set()

    def _compress(self) -> None:
        if bare := self._bare():  # what compaction left
            self.stored.upkeep(self.stored.layout.writing_anew(bare), self.run)

    def _vacuum(self, since: int) -> int | None:
        again(lambda: self.stored.upkeep(f"VACUUM {self.stored.layout.sql}", self.run))
        history = read_history(self.stored.layout.uri, _RECENT)
        told = [commit for commit in history if commit["operation"] == "VACUUM END" and commit["version"] > since]
        counted: dict[str, Any] = told[0].get("operationMetrics", {}) if told else {}
        return int(counted["numDeletedFiles"]) if "numDeletedFiles" in counted else None

    def _carry_on(self, *, judged: bool) -> None:
        """Carry on what the ledger tells; where it is ``judged``, also which of all its commits do not add up."""
        commit = self.stored.next_commit("maintenance", self.run)
        if judged:
            commit = commit.with_fields(unaccounted=self.stored.ledger(whole=True).unaccounted)
        self.stored.commit_nothing(commit)


def _is_idle(ledger: Ledger) -> bool:
    """Whether nothing happened to the table since its last maintenance, or ever."""
    last = ledger.entries[0] if ledger.entries else None
    at_rest = last is not None and last.version == ledger.version and last.commit.kind == "maintenance"
    return at_rest or ledger.rows_version <= 0


def _file_sizes(layout: Layout) -> list[list[int]]:
    """The sizes of the files of the newest version in bytes, partition by partition."""
    files = active_files(layout.uri)
    columns = [name for name in files.column_names if name.startswith("partition.")]
    parts: dict[tuple[Any, ...], list[int]] = {}
    for size, *of in zip(*(files.column(name).to_pylist() for name in ("size_bytes", *columns)), strict=True):
        parts.setdefault(tuple(of), []).append(size)
    return list(parts.values())
