"""How a merged table stands: progress, lag, version and counts; without a JVM."""

from dataclasses import dataclass

from lakehouse.declaration import StreamTable
from lakehouse.errors import DataLossError, DeclarationError, LakehouseError
from lakehouse.ingest.gaps import plan_table
from lakehouse.kafka import look
from lakehouse.ledger.active_files import count_rows
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.positions import Bounds, Progress, SourceState
from lakehouse.operations.open_rejections import Counted, count_rejected
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.storage.table_context import merged_ledger

_LOOK_LIMIT = 1.5  # seconds for the broker


@dataclass(frozen=True)
class PartitionStatus:
    """One partition: next position to merge, what the source holds, and the positions between; ``None``: not known.

    Where the progress is of another topic, or beyond the end, all that the broker holds is ``lag``.
    """

    partition: int
    progress: int | None
    earliest: int | None
    end: int | None
    lag: int | None


@dataclass(frozen=True)
class DerivedStatus:
    """The change feed or a rollup: the version of the merged table it stands for, ``None`` where it stands for none.

    It ``lags`` where it has not seen every row that the merged table holds.
    """

    table: str
    source_version: int | None
    lags: bool


@dataclass(frozen=True)
class Status:
    """One merged table; ``problem`` says in a sentence why the broker's side is not known.

    ``loss`` says which records are gone before they were merged, and what to do: no merge goes on before that, unless
    the declaration accepts the loss. ``None`` where none are, or where nobody knows.
    ``rejected`` is ``None`` where the rejected records cannot be counted without Spark.
    """

    table: str
    uri: str
    bootstrap_servers: str | None
    problem: str | None
    loss: str | None
    partitions: tuple[PartitionStatus, ...]
    rows: int
    ledger: Ledger
    rejected: Counted | None
    derived: tuple[DerivedStatus, ...]

    @property
    def lag(self) -> int | None:
        """Positions still to merge over all partitions; ``None`` where the broker does not tell."""
        return sum(part.lag or 0 for part in self.partitions) if self.problem is None else None

    @property
    def is_up_to_date(self) -> bool:
        """Whether all records are merged, none is lost, derived tables have seen every row, and each commit adds up."""
        lags = any(each.lags for each in self.derived)
        return self.lag == 0 and self.loss is None and not lags and not self.ledger.unaccounted


def status(settings: Settings, table: StreamTable) -> Status:
    """Look at the broker and the table's log; a broker that does not answer is part of the answer."""
    ledger = merged_ledger(settings, table)
    servers = problem = state = None
    try:
        servers = bootstrap_servers(settings)
        state = look(settings, table.topic, limit=_LOOK_LIMIT)
    except LakehouseError as error:
        problem = str(error)
    loss = _loss(table, state, ledger) if state else None
    partitions = _partitions(state, ledger.progress)
    rows, rejected = count_rows(ledger.uri), count_rejected(settings, table, ledger)
    derived = _derived(settings, table, ledger)
    return Status(table.name, ledger.uri, servers, problem, loss, partitions, rows, ledger, rejected, derived)


def _loss(table: StreamTable, state: SourceState, ledger: Ledger) -> str | None:
    try:
        gap = plan_table(table, state, ledger, Bounds()).gap
    except (DataLossError, DeclarationError) as error:
        return str(error)
    return f"{'; '.join(gap.facts)}. {table.name} accepts that: the next merge records it and goes on." if gap else None


def _derived(settings: Settings, table: StreamTable, merged: Ledger) -> tuple[DerivedStatus, ...]:
    consumed = {name: ledger_of(settings, name).consumed for name in table.derived}
    return tuple(
        DerivedStatus(name, seen.version if seen else None, merged.exists and not merged.is_consumed(seen))
        for name, seen in consumed.items()
    )


def _partitions(state: SourceState | None, progress: Progress | None) -> tuple[PartitionStatus, ...]:
    merged = progress.positions if progress else {}
    if state is None:
        return tuple(PartitionStatus(p, position, None, None, None) for p, position in sorted(merged.items()))
    same = progress and progress.source == state.source
    starts = {p: progress.next_position(p) if progress and same else first for p, first in state.earliest.items()}
    return tuple(_partition(p, state, merged.get(p), starts.get(p)) for p in sorted({*state.end, *merged}))


def _partition(partition: int, state: SourceState, progress: int | None, start: int | None) -> PartitionStatus:
    earliest, end = state.earliest.get(partition), state.end.get(partition)
    lag = None
    if end is not None and start is not None and earliest is not None:
        lag = end - (start if start <= end else earliest)
    return PartitionStatus(partition, progress, earliest, end, lag)
