"""What is new for a materialized view, and its status: from the logs of its tables alone, without DuckDB or a JVM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakehouse.declaration import View
from lakehouse.declaration.view import find_inputs, fingerprint_view
from lakehouse.errors import LakehouseError, TableError
from lakehouse.ledger.active_files import count_rows
from lakehouse.ledger.consumption import is_consumed
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.settings import Settings


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
        news = find_news(view, views, own_ledger, read_table_ledgers(settings, view, views))
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
    view: View, views: Sequence[View], own_ledger: Ledger, table_ledgers: Mapping[str, Ledger]
) -> tuple[str, ...]:
    """Return the names of the tables with rows that are not consumed; that of the view if it has to be stored."""
    newest = own_ledger.newest
    is_ours = newest is not None and newest.version == own_ledger.rows_version
    fingerprint = fingerprint_view(view, find_inputs(view, views))
    if newest is None or not is_ours or newest.commit.declaration != fingerprint:
        return (view.name,)
    consumed = newest.commit.consumed_tables
    return tuple(name for name, ledger in table_ledgers.items() if not is_consumed(ledger, consumed.get(name)))


def require_local_tables(settings: Settings, view: View) -> None:
    """Raise ``TableError`` if the tables are not on a local disk."""
    if not settings.store.is_path:
        message = f"View {view.name} can be materialized only if the tables are on a local disk"
        raise TableError(message, where=settings.tables_root, action="Remove materialized=True from it.")


def read_table_ledgers(settings: Settings, view: View, views: Sequence[View]) -> dict[str, Ledger]:
    """Return the ledgers of the tables that a materialized view is computed from.

    Raises ``TableError`` if one of them does not exist yet, or if the tables are not on a local disk.
    """
    require_local_tables(settings, view)
    ledgers = {name: ledger_of(settings, name) for name in find_inputs(view, views).tables}
    for name, ledger in ledgers.items():
        if not ledger.exists:
            message = f"View {view.name} reads {name}, which does not exist yet"
            raise TableError(message, where=ledger.uri, action="Create it first, by a merge or by loading its file.")
    return ledgers
