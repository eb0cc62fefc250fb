"""An open transaction in the database of a sink, and the progress that it reads there. Without DuckDB."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

from lakehouse.declaration.sink import DatabaseTable, Sink
from lakehouse.errors import SettingsError, TableError
from lakehouse.ledger.commit_values import Consumed
from lakehouse.settings import Settings

PATIENCE = 120
"""Seconds to wait for another run of the sink."""
PROGRESS = "lakehouse_progress"
REFUSED_ACTION = "It wrote all or nothing. Correct that, and run it again: it continues from what the target has."


class TargetProgress(NamedTuple):
    """What a target has: ``consumed`` is the version of the table, ``columns`` and ``identity`` are those written."""

    consumed: Consumed
    columns: Sequence[str]
    identity: Sequence[str]


class DatabaseSession(ABC):
    """A transaction in the database of a sink, which is committed at the end, or rolled back after an error."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    @abstractmethod
    def run(self, statement: str, values: Mapping[str, Any] | None = None) -> int:
        """Run a statement; return the number of rows that it wrote or deleted."""

    @abstractmethod
    def rows(self, query: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""

    @abstractmethod
    def find_progress(self) -> tuple[bool, tuple[Any, ...] | None]:
        """Find whether the target exists, and its row of the progress, in the order of ``PROGRESS_COLUMNS``."""

    @abstractmethod
    def stored_types(self) -> Mapping[str, str]:
        """The columns that the target has now; none if it does not exist."""

    @abstractmethod
    def progress_value(self, names: Iterable[str]) -> Any:
        """Return names of columns as a value of the progress."""

    @cached_property
    def progress(self) -> TargetProgress | None:
        """What the target has; ``None`` if it does not exist. ``TableError`` if it belongs to something else."""
        exists, row = self.find_progress()
        place = self.sink.to.place
        problem = "exists already, and no sink created it" if exists and not row else ""
        if row and row[0] != self.sink.name:
            problem = f"is written by the sink {row[0]}"
        if problem:
            action = f"Choose another name, or drop that table and its row in {PROGRESS}, if there is one."
            raise TableError(f"Sink {self.sink.name}: {place} {problem}", action=action)
        if row is None or not exists:
            return None
        _, table_id, version, commit, columns, identity = row
        return TargetProgress(Consumed(table_id=table_id, version=version, commit=commit), columns, identity)


def table_of(sink: Sink) -> DatabaseTable:
    """Return the target of a sink, if that is a table of a database."""
    return cast("DatabaseTable", sink.to)


def url_of(settings: Settings, sink: Sink) -> str:
    """Return the secret URL of the database of a sink. ``SettingsError`` if no setting names it."""
    table = table_of(sink)
    url = settings.sink_addresses.get(table.database)
    if url is None or url.partition(":")[0] not in table.schemes:
        state = (
            "which LAKEHOUSE_SINK_URLS does not name" if url is None else f"which is not a database of {table.product}"
        )
        example = f'{{"{table.database}": "{table.schemes[0]}://USER:PASSWORD@HOST/DATABASE"}}'
        raise SettingsError(f"Sink {sink.name} writes to {table.database}, {state}", action=f"Set it: {example}")
    return url


def bracketed(name: str) -> str:
    """Return a name as SQL Server quotes it."""
    return f"[{name.replace(']', ']]')}]"
