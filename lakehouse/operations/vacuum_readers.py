"""The readers that VACUUM of a table waits for: derived tables, and exports of changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakehouse.declaration import Export, StreamTable
from lakehouse.exports import progress
from lakehouse.ledger.ledger import ledger_of
from lakehouse.operations.layouts import derived_layouts
from lakehouse.settings import Settings


@dataclass(frozen=True)
class VacuumReaders:
    """The readers of one table of a declaration; ``errors`` says why an update of a derived table failed.

    ``exports`` may also be those of other tables.
    """

    settings: Settings
    table: StreamTable
    name: str
    errors: Mapping[str, str]
    exports: Sequence[Export] = ()

    def reason_to_wait(self) -> str | None:
        """Why VACUUM has to wait; ``None`` if the readers have read all changes that it could remove."""
        return next(self._reasons(), None)

    def _reasons(self) -> Iterator[str]:
        if self.name == self.table.name:
            yield from self._reasons_of_derived_tables()
        for export in self.exports:
            reason = export.of == self.name and progress.reason_to_wait(self.settings, export, self.table.retention)
            if reason:
                yield reason

    def _reasons_of_derived_tables(self) -> Iterator[str]:
        ledger = ledger_of(self.settings, self.name)
        for layout in derived_layouts(self.settings, self.table):
            consumed = ledger_of(self.settings, layout.name).consumed
            if progress.is_overdue(ledger, consumed, self.table.retention):
                has_read = f"has read {self.name} only up to version {consumed.version}" if consumed else None
                cause = f": {self.errors[layout.name]}" if layout.name in self.errors else "."
                yield f"{layout.name} {has_read or f'has not read {self.name}'}{cause}"
