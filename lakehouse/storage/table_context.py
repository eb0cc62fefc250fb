"""What every step works with, and how it is run again where another writer was first."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lakehouse.declaration import StreamTable
from lakehouse.errors import ConflictError, LedgerError, NotConsumedError
from lakehouse.ledger.active_files import holds_files
from lakehouse.ledger.ledger import Ledger, ledger_of, require_told
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.spark_failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.storage.stored_table import StoredTable

_ATTEMPTS = 5  # plans made before a batch gives way to other writers
T = TypeVar("T")
Passing = tuple[type[Exception], ...]


@dataclass(frozen=True)
class TableContext:
    """A session, the settings, the table and who asked."""

    spark: "SparkSession"
    settings: Settings
    table: StreamTable
    run: str = "cli"

    @property
    def merged(self) -> "StoredTable":
        """The merged table, whose ledger has to tell its progress, as that of ``ledger``."""
        return replace(self.stored(merged_layout), require=partial(_told, self.table))

    def stored(self, layout_of: Callable[[StreamTable, Settings], Layout]) -> "StoredTable":
        """One of the tables that the declaration asks for, by the function that returns its layout."""
        from lakehouse.storage.stored_table import StoredTable  # noqa: PLC0415 - who has no session imports no Spark

        return StoredTable(self.spark, layout_of(self.table, self.settings))

    def ledger(self) -> Ledger:
        """Read the merged table's ledger."""
        return merged_ledger(self.settings, self.table)

    def require_consumed(self) -> None:
        """Raise ``NotConsumedError`` where a derived table has not read all there is of the merged one."""
        merged = self.ledger()
        for name in self.table.derived:
            derived = ledger_of(self.settings, name)
            if derived.exists and not merged.is_consumed(derived.consumed):
                raise NotConsumedError(
                    f"Columns of {self.table.name} are widened once {name} has read what is there before",
                    where=merged.uri,
                    action=f"Merge it with all that derives from it: lakehouse merge {self.table.name}",
                )


def merged_ledger(settings: Settings, table: StreamTable) -> Ledger:
    """Read the ledger of the merged table, without a JVM; ``LedgerError`` where it does not tell the progress."""
    return _told(table, ledger_of(settings, table.name))


def whole_ledger(settings: Settings, table: StreamTable) -> Ledger:
    """The whole history: a RESTORE of long ago may have undone what resolved a record."""
    return _told(table, ledger_of(settings, table.name, whole=True))


def _told(table: StreamTable, ledger: Ledger) -> Ledger:
    """Return the ledger, or raise ``LedgerError`` where it does not tell the progress.

    Rows of a log table that no commit of ours tells of, as of a copy, would be appended again.
    """
    unknown = table.is_log and ledger.newest is None and not ledger.reread and ledger.exists
    if unknown and holds_files(ledger.uri):
        raise LedgerError(
            f"Log table {table.name} holds rows, and its history holds no commit that tells how far it was read",
            where=ledger.uri,
            action=f"See and record what the rows themselves say with: lakehouse recover-progress {table.name}",
        )
    told = require_told(ledger, table.name)
    return told if table.is_log else told.merged_by_key()


def again(step: Callable[[], T], passing: Passing = (ConflictError,)) -> T:
    """Run a step, and plan it again where another writer was first, or after such errors: so many times."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(*passing), spark_failures():
            return step()
    with spark_failures():
        return step()
