"""The source of a table, as it is declared."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakehouse.declaration import StreamTable, Tombstone
from lakehouse.declaration.sources import Files, Generated, TableRows
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import SourceState
from lakehouse.settings import Settings
from lakehouse.sources.source import Source

if TYPE_CHECKING:
    from lakehouse.sources.topic import TopicSource


def read_states(
    settings: Settings, parts: Sequence[StreamTable], ledgers: Sequence[Ledger], limit: float
) -> Sequence[SourceState]:
    """Look ahead at each source of a table, one for each declaration: the broker is asked once about all topics."""
    if all(part.has_topics for part in parts):
        from lakehouse.sources.topic import read_topic_states  # noqa: PLC0415 - a client of Kafka is slow to import

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
    from lakehouse.sources.topic import TopicSource  # noqa: PLC0415 - a client of Kafka is slow to import

    return TopicSource(settings, table.topic, isinstance(table.deletes.when, Tombstone))
