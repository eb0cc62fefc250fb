"""How a merged table stands: progress, lag, version and counts; without a JVM."""

from dataclasses import dataclass

from lakehouse.declaration import StreamTable
from lakehouse.delta.active import count_rows
from lakehouse.delta.engine import merged_ledger
from lakehouse.delta.ledger import Ledger
from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings
from lakehouse.settings.broker import bootstrap_servers
from lakehouse.topic import look
from lakehouse.topic.offsets import TopicState


@dataclass(frozen=True)
class PartitionStatus:
    """One partition: next offset to merge, what the broker holds, and the offsets between; ``None``: not known."""

    partition: int
    progress: int | None
    earliest: int | None
    end: int | None
    lag: int | None


@dataclass(frozen=True)
class Status:
    """One merged table; ``problem`` says in a sentence why the broker's side is not known."""

    table: str
    uri: str
    bootstrap_servers: str | None
    problem: str | None
    partitions: tuple[PartitionStatus, ...]
    rows: int
    ledger: Ledger

    @property
    def lag(self) -> int | None:
        """Offsets still to merge over all partitions; ``None`` where the broker does not tell."""
        return sum(part.lag or 0 for part in self.partitions) if self.problem is None else None


def status(settings: Settings, table: StreamTable) -> Status:
    """Look at the broker and the table's log; a broker that does not answer is part of the answer."""
    ledger = merged_ledger(settings, table)
    servers = problem = state = None
    try:
        servers = bootstrap_servers(settings)
        state = look(settings, table.topic, limit=1.5)
    except LakehouseError as error:
        problem = str(error)
    partitions = _partitions(state, dict(ledger.progress.offsets) if ledger.progress else {})
    return Status(table.name, ledger.uri, servers, problem, partitions, count_rows(ledger.uri), ledger)


def _partitions(state: TopicState | None, progress: dict[int, int]) -> tuple[PartitionStatus, ...]:
    if state is None:
        return tuple(PartitionStatus(p, offset, None, None, None) for p, offset in sorted(progress.items()))
    known = sorted({*state.end, *progress})
    return tuple(_partition(p, state, progress.get(p)) for p in known)


def _partition(partition: int, state: TopicState, progress: int | None) -> PartitionStatus:
    earliest, end = state.earliest.get(partition), state.end.get(partition)
    start = progress if progress is not None else earliest
    lag = max(0, end - start) if end is not None and start is not None else None
    return PartitionStatus(partition, progress, earliest, end, lag)
