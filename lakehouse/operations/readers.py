"""The readers of tables: what each has consumed, what is new for it, and for which of them VACUUM waits.

All is read from the logs of tables, the manifests of exports and the targets of sinks, without DuckDB or a JVM.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakehouse.declaration import StreamTable, View
from lakehouse.declaration.sink import Outlet
from lakehouse.declaration.view import find_inputs, fingerprint_view
from lakehouse.errors import LakehouseError, TableError
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.versions import count_rows
from lakehouse.settings import Settings
from lakehouse.sinks.progress import reason_to_wait


@dataclass(frozen=True)
class DerivedStatus:
    """The change feed or a rollup: the version of the merged table that it has read, ``None`` if it has read none.

    ``lags`` is true if it has not read every row of the merged table.
    """

    table: str
    source_version: int | None
    lags: bool


def derived_status(settings: Settings, table: StreamTable, merged: Ledger) -> tuple[DerivedStatus, ...]:
    """Read the status of each table that is derived from the merged one."""
    return tuple(
        DerivedStatus(name, consumption.version, merged.exists and not consumption.is_current)
        for name, consumption in _derived_consumptions(settings, table, merged).items()
    )


def _derived_consumptions(settings: Settings, table: StreamTable, merged: Ledger) -> dict[str, Consumption]:
    return {name: Consumption(merged, ledger_of(settings, name).consumed) for name in table.derived}


@dataclass(frozen=True)
class ViewStatus:
    """The status of a view; of a plain one, everything but its name and ``materialized`` is empty.

    ``computed_from`` has the version of each table that its rows were computed from. ``news`` names the tables with
    rows that it has not read, or the view itself if its query or its own table changed since. ``problem`` is a
    sentence that says why news cannot be found.
    """

    view: str
    materialized: bool
    uri: str = ""
    version: int | None = None
    rows: int | None = None
    committed_at: datetime | None = None
    computed_from: Mapping[str, int] = field(default_factory=dict)
    news: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def is_up_to_date(self) -> bool:
        """Whether its rows are those of the newest versions of its tables."""
        return not self.news and self.problem is None


def view_status(settings: Settings, view: View, views: Sequence[View]) -> ViewStatus:
    """Read the status of a view. A table that does not exist is part of the status, not an error."""
    if not view.materialized:
        return ViewStatus(view.name, materialized=False)
    own_ledger = ledger_of(settings, view.name)
    news: tuple[str, ...] = ()
    problem = None
    try:
        news = find_news(view, views, own_ledger, view_consumptions(settings, view, views, own_ledger))
    except LakehouseError as error:
        problem = str(error)
    newest = own_ledger.newest
    return ViewStatus(
        view.name,
        materialized=True,
        uri=own_ledger.uri,
        version=own_ledger.version if own_ledger.exists else None,
        rows=count_rows(own_ledger.uri) if own_ledger.exists else None,
        committed_at=newest.committed_at if newest else None,
        computed_from={name: read.version for name, read in newest.commit.consumed_tables.items()} if newest else {},
        news=news,
        problem=problem,
    )


def find_news(
    view: View, views: Sequence[View], own_ledger: Ledger, consumptions: Mapping[str, Consumption]
) -> tuple[str, ...]:
    """Return the names of the tables with rows that are not consumed; that of the view if it has to be stored."""
    newest = own_ledger.newest
    is_ours = newest is not None and newest.version == own_ledger.rows_version
    fingerprint = fingerprint_view(view, find_inputs(view, views))
    if newest is None or not is_ours or newest.commit.declaration != fingerprint:
        return (view.name,)
    return tuple(name for name, consumption in consumptions.items() if not consumption.is_current)


def view_consumptions(
    settings: Settings, view: View, views: Sequence[View], own_ledger: Ledger
) -> dict[str, Consumption]:
    """Return how far a materialized view is in each of the tables that it is computed from.

    Raises ``TableError`` if one of them does not exist yet.
    """
    ledgers = {name: ledger_of(settings, name) for name in find_inputs(view, views).tables}
    for name, ledger in ledgers.items():
        if not ledger.exists:
            message = f"View {view.name} reads {name}, which does not exist yet"
            raise TableError(message, where=ledger.uri, action="Create it first, by a merge or by loading its file.")
    consumed = own_ledger.newest.commit.consumed_tables if own_ledger.newest else {}
    return {name: Consumption(ledger, consumed.get(name)) for name, ledger in ledgers.items()}


@dataclass(frozen=True)
class VacuumReaders:
    """The readers that VACUUM of one table of a declaration waits for: derived tables, exports of changes and sinks.

    ``errors`` says why an update of a derived table failed. ``outlets`` may also be those of other tables.
    """

    settings: Settings
    table: StreamTable
    name: str
    errors: Mapping[str, str]
    outlets: Sequence[Outlet] = ()

    def reason_to_wait(self) -> str | None:
        """Why VACUUM has to wait; ``None`` if the readers have read all changes that it could remove."""
        return next(self._reasons(), None)

    def _reasons(self) -> Iterator[str]:
        retention = self.table.upkeep.retention
        if self.name == self.table.name:
            consumptions = _derived_consumptions(self.settings, self.table, ledger_of(self.settings, self.name))
            for name, consumption in consumptions.items():
                if consumption.is_overdue(retention):
                    only = "" if consumption.version is None else f" only up to version {consumption.version}"
                    has_read = f"has read {self.name}{only}" if only else f"has not read {self.name}"
                    yield f"{name} {has_read}{f': {self.errors[name]}' if name in self.errors else '.'}"
        for outlet in self.outlets:
            if outlet.of == self.name and (reason := reason_to_wait(self.settings, outlet, retention)):
                yield reason
