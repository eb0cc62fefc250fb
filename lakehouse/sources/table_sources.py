"""What every source can do, and the source of a table, as it is declared. A topic of Kafka is one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from lakehouse.declaration import StreamTable, Tombstone
from lakehouse.declaration.sources import Files, Generated, TableRows
from lakehouse.kafka import MergedEnds, TopicState, read_failures, read_records, read_topic, read_topics, with_lost_ends
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, SourceState
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Judge(NamedTuple):
    """How records are decoded in Spark's workers.

    ``decode`` turns arrays of values, or tuples of those and of other ``parts``, into arrays of verdicts of the SQL
    type ``type``, in order. An array may become several. With ``needs_raw``, later steps read the raw parts of valid
    records. ``finish`` turns the decoded batches of a reader into those that it gives to Spark.
    """

    decode: Any
    type: str
    parts: Sequence[str]
    needs_raw: bool = True
    finish: Any = None


class Undecoded(Protocol):
    """Records that their readers decode, so that their bytes need not go through Spark."""

    @property
    def size(self) -> int:
        """Bytes of the files that hold them."""
        ...

    def judged(self, judge: Judge) -> "DataFrame":
        """Return a row for each record: ``staged.PLACE``, ``staged.RAW`` and ``staged.VERDICT``.

        Without ``needs_raw``, the raw parts of valid records are NULL.
        """
        ...


class Source(ABC):
    """Where the records of a table come from.

    A source has an identity and numbered partitions. Each record has a position in its partition. Positions only grow,
    and may have holes. A position always has the same record, as long as the source holds it.
    """

    times_may_go_back: ClassVar[bool] = False
    """Whether a record may have a time before that of an earlier record of its partition."""

    @property
    def unordered_group(self) -> str:
        """What records have in common whose order is arbitrary, in SQL; empty if the source orders all of them."""
        return ""

    @abstractmethod
    def read_state(self, ledger: Ledger | None, limit: float) -> SourceState:
        """Return the identity of the source, and the positions that it holds, within ``limit`` seconds; writes nothing.

        ``ledger`` is that of the table if what is gone matters only after its progress.
        """

    def preview_state(self, ledger: Ledger | None, limit: float) -> SourceState:
        """Preview the state after new records are registered; writes nothing. Never plan a read from it."""
        return self.read_state(ledger, limit)

    def register_state(self, context: TableContext, ledger: Ledger, limit: float) -> SourceState:  # noqa: ARG002
        """Give positions to records that have none yet, and read the state: before a run plans a batch."""
        return self.read_state(ledger, limit)

    @abstractmethod
    def read(self, spark: "SparkSession", plan: Plan, ledger: Ledger | None) -> "DataFrame | Undecoded":
        """Return the records in the ranges of a plan: one row for each, with ``staged.PLACE`` and ``staged.RAW``.

        ``ledger`` is the one that the plan was made on, if what it reads was not merged before.
        """

    @abstractmethod
    def failures(self, plan: Plan, command: str) -> AbstractContextManager[None]:
        """Turn a failure to read a plan into an error that says what to do; ``command`` continues."""

    def read_state_after(self, ledger: Ledger | None, limit: float) -> SourceState:
        """Read the state again after a plan was read, for the identity; it may lack positions that the source holds.

        Raises what ``read_state`` raises.
        """
        return self.read_state(ledger, limit)

    def consumed(self, plan: Plan) -> dict[str, Consumed]:  # noqa: ARG002
        """Return the version up to which a plan reads each table that the source consists of, if it is a table."""
        return {}


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
