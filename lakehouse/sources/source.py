"""What every source can do, and the source of a table."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from lakehouse.declaration import StreamTable
from lakehouse.declaration.generated import Generated
from lakehouse.declaration.table_rows import TableRows
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, SourceId, SourceState
from lakehouse.settings import Settings
from lakehouse.sources.records import Undecoded
from lakehouse.storage.table_context import TableContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Source(ABC):
    """Where the records of a table come from.

    A source has an identity and numbered partitions. Each record has a position in its partition. Positions only grow,
    and may have holes. A position always has the same record, as long as the source holds it.
    """

    @abstractmethod
    def look(self, ledger: Ledger | None, limit: float) -> SourceState:
        """Return the identity of the source, and the positions that it holds, within ``limit`` seconds; writes nothing.

        ``ledger`` is that of the table if what is gone matters only after its progress.
        """

    def look_ahead(self, ledger: Ledger | None, limit: float) -> SourceState:
        """Return what ``look`` will return once a run has taken stock; writes nothing. No batch may be read by it."""
        return self.look(ledger, limit)

    def take_stock(self, context: TableContext, ledger: Ledger, limit: float) -> SourceState:  # noqa: ARG002
        """Give positions to records that have none yet, and look: before a run plans a batch."""
        return self.look(ledger, limit)

    @abstractmethod
    def read(self, spark: "SparkSession", plan: Plan, ledger: Ledger | None) -> "DataFrame | Undecoded":
        """Return the records in the ranges of a plan: one row for each, with ``staged.PLACE`` and ``staged.RAW``.

        ``ledger`` is the one that the plan was made on, if what it reads was not merged before.
        """

    @abstractmethod
    def failures(self, plan: Plan, command: str) -> AbstractContextManager[None]:
        """Turn a failure to read a plan into an error that says what to do; ``command`` continues."""

    def identity(self, ledger: Ledger | None, limit: float) -> SourceId:
        """Return the identity of the source after a plan was read; raises what ``look`` raises."""
        return self.look(ledger, limit).source

    def consumed(self, plan: Plan) -> dict[str, Consumed]:  # noqa: ARG002
        """Return the version up to which a plan reads each table that the source consists of, if it is a table."""
        return {}


def look_at_each(
    settings: Settings, parts: Sequence[StreamTable], ledgers: Sequence[Ledger], limit: float
) -> Sequence[SourceState]:
    """Look ahead at each source of a table, one for each declaration: the broker is asked once about all topics."""
    if all(part.source is None for part in parts):
        from lakehouse.sources.topic import look_at_topics  # noqa: PLC0415 - a client of Kafka is slow to import

        return look_at_topics(settings, [part.topic for part in parts], limit)
    return [source_of(settings, part).look_ahead(ledger, limit) for part, ledger in zip(parts, ledgers, strict=True)]


def source_of(settings: Settings, table: StreamTable) -> Source:
    """Return the source of a table; of one that reads several topics, the declaration of one of them is needed."""
    if table.source is None:
        from lakehouse.sources.topic import TopicSource  # noqa: PLC0415 - a client of Kafka is slow to import

        return TopicSource(settings, table.topic)
    if isinstance(table.source, TableRows):
        from lakehouse.sources.tables.source import TableSource  # noqa: PLC0415

        return TableSource(settings, table, table.source)
    if isinstance(table.source, Generated):
        from lakehouse.sources.generated.source import GeneratedSource  # noqa: PLC0415

        return GeneratedSource(settings, table, table.source)
    from lakehouse.sources.files.source import FilesSource  # noqa: PLC0415

    return FilesSource(settings, table, table.source)
