"""The context of a step, the ledger of its merged table, and the retry after conflicts with other writers."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lakehouse.declaration import StreamTable
from lakehouse.errors import ConflictError, LakehouseError, LedgerError, NotConsumedError
from lakehouse.ledger.commit_infos import progress_by_stream
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import Ledger, ledger_of, require_progress
from lakehouse.ledger.log_copies import look_again
from lakehouse.ledger.versions import holds_files
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.spark_failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.storage.stored_table import StoredTable

_ATTEMPTS = 8  # plans of a step before it gives up because of other writers
_WAIT = 0.05  # most seconds before the second attempt; it doubles with each
T = TypeVar("T")
RetriedErrors = tuple[type[Exception], ...]


FORMER, REBUILT, SWITCH = ".former", ".rebuilt", "switch.json"
"""Next to the tables: folders with one folder for each declaration, and the file of a switch in it; see ``rebuild``."""


def require_no_switch(settings: Settings, table: StreamTable) -> None:
    """Raise ``LakehouseError`` if a rebuild died while it moved the tables of a declaration."""
    if settings.store.folder is None:
        return
    for folder in (REBUILT, FORMER):
        file = Path(settings.tables_root, folder, table.name, SWITCH)
        if file.exists():
            fact, action = f"A rebuild of {table.name} was interrupted", f"Run: lakehouse rebuild {table.name}"
            raise LakehouseError(fact, where=str(file), action=action)


@dataclass(frozen=True)
class TableContext:
    """A session, the settings, the declaration of a table, and the run that asks."""

    spark: "SparkSession"
    settings: Settings
    table: StreamTable
    run: str = ""

    def __post_init__(self) -> None:
        """Name the run of a command."""
        object.__setattr__(self, "run", self.run or self.settings.command_run)

    @property
    def merged(self) -> "StoredTable":
        """The merged table, whose ledger must record its progress, as in ``ledger``."""
        return replace(self.stored_table(merged_layout), require=partial(_require_progress, self.table))

    def stored_table(self, layout_of: Callable[[StreamTable, Settings], Layout]) -> "StoredTable":
        """Return one of the tables of the declaration, by the function that makes its layout."""
        from lakehouse.storage.stored_table import StoredTable  # noqa: PLC0415 - only a session needs Spark

        return StoredTable(self.spark, layout_of(self.table, self.settings))

    def ledger(self) -> Ledger:
        """Read the merged table's ledger."""
        return merged_ledger(self.settings, self.table)

    def require_consumed(self) -> None:
        """Raise ``NotConsumedError`` if a derived table has not read everything in the merged one."""
        merged = self.ledger()
        for name in self.table.derived:
            derived = ledger_of(self.settings, name)
            if derived.exists and not Consumption(merged, derived.consumed).is_current:
                raise NotConsumedError(
                    f"Columns of {self.table.name} cannot be widened before {name} has read its present rows",
                    where=merged.uri,
                    action=f"Its rows changed after {name} was last updated, perhaps by another run. Run it again. A"
                    f" merge first updates the derived tables, then widens columns: lakehouse merge {self.table.name}",
                )


def merged_ledger(settings: Settings, table: StreamTable) -> Ledger:
    """Read the ledger of the merged table without a JVM; raise ``LedgerError`` if it does not record the progress.

    For one topic of a table that reads several, its progress is that of the topic.
    """
    return _require_progress(table, ledger_of(settings, table.name))


def whole_ledger(settings: Settings, table: StreamTable) -> Ledger:
    """Read the ledger with the whole history: an old RESTORE may have undone the resolution of a rejected record."""
    return _require_progress(table, ledger_of(settings, table.name, whole=True))


def _require_progress(table: StreamTable, ledger: Ledger) -> Ledger:
    """Return the ledger, or raise ``LedgerError`` if it does not record the progress.

    Rows of a log table without a lakehouse commit, such as a copy, would be appended again.
    """
    has_no_commit = table.is_log and ledger.newest is None and not ledger.undone_ends and ledger.exists
    if has_no_commit and holds_files(ledger.uri):
        raise LedgerError(
            f"Log table {table.name} has rows, but no commit in its history records its progress",
            where=ledger.uri,
            action=f"Show and record the progress that the rows contain: lakehouse repair progress {table.name}",
        )
    complete_ledger = require_progress(ledger, table.name)
    complete_ledger = complete_ledger if table.is_log else complete_ledger.merged_by_key()
    commit = ledger.newest.commit if ledger.newest else None
    has_others = commit is not None and bool(commit.other_sources) and table.topic in progress_by_stream(commit)
    return complete_ledger.of_stream(table.topic) if table.topic and (table.topics or has_others) else complete_ledger


def retry_on_conflict(step: Callable[[], T], retried_errors: RetriedErrors = (ConflictError,)) -> T:
    """Run a step, and plan it again after a conflict with another writer, or after ``retried_errors``.

    It gives up after ``_ATTEMPTS`` attempts. Between them it waits at random, so that writers of several machines do
    not meet again.
    """
    for attempt in range(_ATTEMPTS - 1):
        with suppress(*retried_errors), spark_failures():
            return step()
        look_again()
        time.sleep(random.uniform(0, _WAIT * 2**attempt))  # noqa: S311 - no secret
    with spark_failures():
        return step()
