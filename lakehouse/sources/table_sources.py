"""The source of a table, as it is declared, and topics of Kafka as sources."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from lakehouse.declaration import StreamTable, Tombstone
from lakehouse.declaration.sources import Files, Generated, TableRows
from lakehouse.kafka import MergedEnds, TopicState, read_failures, read_records, read_topic, read_topics, with_lost_ends
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, SourceState
from lakehouse.settings import Settings
from lakehouse.sources.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_states(
    settings: Settings, parts: Sequence[StreamTable], ledgers: Sequence[Ledger], limit: float
) -> Sequence[SourceState]:
    """Look ahead at each source of a table, one for each declaration: the broker is asked once about all topics."""
    if all(part.has_topics for part in parts):
        return read_topic_states(settings, [_topic_source(settings, part) for part in parts], ledgers, limit)
    return [source_of(settings, part).preview_state(ledger, limit) for part, ledger in zip(parts, ledgers, strict=True)]


def source_of(settings: Settings, table: StreamTable) -> Source:
    """Return the source of a table; of one that reads several topics, the declaration of one of them is needed."""
    if isinstance(table.source, TableRows):
        from lakehouse.sources.tables.source import TableSource  # noqa: PLC0415

        return TableSource(settings, table, table.source)
    if isinstance(table.source, Generated):
        from lakehouse.sources.generated_records import GeneratedSource  # noqa: PLC0415

        return GeneratedSource(settings, table, table.source)
    if isinstance(table.source, Files):
        from lakehouse.sources.files.source import FilesSource  # noqa: PLC0415

        return FilesSource(settings, table, table.source)
    return _topic_source(settings, table)


def _topic_source(settings: Settings, table: StreamTable) -> "TopicSource":
    return TopicSource(settings, table.topic, isinstance(table.deletes.when, Tombstone))


def read_topic_states(
    settings: Settings, sources: Sequence["TopicSource"], ledgers: Sequence[Ledger], limit: float
) -> list[TopicState]:
    """Ask the broker about several topics at once, also what open transactions hold back, and then about losses.

    ``ledgers`` are those of the tables that read the topics, if losses matter.
    """
    states = read_topics(settings, [source.topic for source in sources], limit, with_held=True)
    for number, ledger in enumerate(ledgers):
        states[number] = sources[number].with_losses(states[number], ledger, limit, least_lag=1)
    return states


@dataclass(frozen=True)
class TopicSource(Source):
    """One topic; the broker gives each record its offset. ``needs_deletes``: tombstones in it delete rows."""

    times_may_go_back: ClassVar[bool] = True

    settings: Settings
    topic: str
    needs_deletes: bool = False

    def read_state(self, ledger: Ledger | None, limit: float) -> TopicState:
        """Ask the broker, as ``read_topic`` does, and whether any partition lost records that were merged."""
        state = read_topic(self.settings, self.topic, limit)
        return self.with_losses(state, ledger, limit) if ledger else state

    def preview_state(self, ledger: Ledger | None, limit: float) -> TopicState:
        """Ask the broker, like ``read_state``, but only of partitions with new records whether they lost others."""
        (state,) = read_topic_states(self.settings, [self], [ledger] if ledger else [], limit)
        return state

    def read_state_after(self, ledger: Ledger | None, limit: float) -> TopicState:  # noqa: ARG002 - the plan asked about losses
        """Ask the broker, as ``read_topic`` does."""
        return read_topic(self.settings, self.topic, limit)

    def with_losses(self, state: TopicState, ledger: Ledger, limit: float, least_lag: int = 0) -> TopicState:
        """Return the state with what only its records show, as ``with_lost_ends`` does."""
        if ledger.progress is None:
            return state
        last_records = ledger.last_commit.last_records if ledger.last_commit else {}
        history = partial(ledger.last_records, state.source)
        merged_ends = MergedEnds(ledger.progress, last_records, history, least_lag, self.needs_deletes)
        return with_lost_ends(self.settings, state, merged_ends, limit)

    def read(self, spark: "SparkSession", plan: Plan, ledger: Ledger | None) -> "DataFrame":  # noqa: ARG002
        """Read the plan, as ``read_records`` does."""
        return read_records(spark, self.settings, plan)

    def failures(self, plan: Plan, command: str) -> AbstractContextManager[None]:
        """Explain a failure, as ``read_failures`` does."""
        return read_failures(plan, command)
