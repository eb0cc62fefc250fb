"""The topics of a table that reads several: the declaration for each of them, as ``in_topic`` returns it.

A table that reads no topic has one source: its own declaration is that of the source.
"""

from collections.abc import Sequence
from dataclasses import replace

from lakehouse.declaration import StreamTable, TopicPattern
from lakehouse.errors import TopicError
from lakehouse.kafka import PATIENCE, topic_names
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.several_sources import progress_by_stream
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext


def split_by_topic(settings: Settings, table: StreamTable, limit: float = PATIENCE) -> list[StreamTable]:
    """Return the declaration for each topic of a table, in the declared order, or by name if a pattern names them.

    Those of a pattern are the topics that the broker has, and those with progress: a topic that is gone is missed. The
    broker is asked only then, for at most ``limit`` seconds. Raises ``BrokerError``, and ``TopicError`` if no topic
    matches.
    """
    if table.source or table.topic or not isinstance(table.topics, TopicPattern):
        return named_topics(table)
    names = {*topic_names(settings, limit), *topics_with_progress(ledger_of(settings, table.name))}
    matching_names = table.topics.matching(names)
    if not matching_names:
        raise TopicError(
            f"No topic on this broker matches {table.topics.pattern}",
            action="Correct topics= in the declaration or the broker's address, or create a topic.",
        )
    return _each_topic(table, matching_names)


def known_topics(settings: Settings, table: StreamTable) -> list[StreamTable]:
    """Return the declaration for each topic of a table that is known without asking the broker."""
    if table.topic or not isinstance(table.topics, TopicPattern):
        return named_topics(table)
    return _each_topic(table, table.topics.matching(topics_with_progress(ledger_of(settings, table.name))))


def named_topics(table: StreamTable) -> list[StreamTable]:
    """Return the declaration for each topic that it names; none for a pattern."""
    names = () if isinstance(table.topics, TopicPattern) else table.topics
    return [table] if table.topic or table.source else _each_topic(table, names)


def _each_topic(table: StreamTable, names: Sequence[str]) -> list[StreamTable]:
    return [table.in_topic(name) for name in names]


def topics_with_progress(ledger: Ledger) -> list[str]:
    """Return the names of the topics of which the newest commit has the progress, sorted."""
    return sorted(filter(None, progress_by_stream(ledger.newest.commit if ledger.newest else None)))


def split_context(context: TableContext, limit: float = PATIENCE) -> list[TableContext]:
    """Return the context for each topic of its table, like ``split_by_topic``."""
    return [replace(context, table=table) for table in split_by_topic(context.settings, context.table, limit)]


def reads_topic_of(table: StreamTable, name: str) -> bool:
    """Whether a table reads the topic of that name, if there is such a topic."""
    if isinstance(table.topics, TopicPattern):
        return bool(table.topics.matching([name]))
    return name in (table.topics or [table.topic])
