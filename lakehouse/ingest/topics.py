"""The topics of a table, each as a declaration of its own, and where a new table begins in them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from lakehouse.declaration import StreamTable, TopicPattern
from lakehouse.declaration.sources import start_time
from lakehouse.errors import DeclarationError, TopicError
from lakehouse.kafka import PATIENCE, offsets_at, topic_names
from lakehouse.ledger.commit_infos import progress_by_stream
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.positions import Positions, SourceState
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext


def split_by_topic(settings: Settings, table: StreamTable, limit: float = PATIENCE) -> list[StreamTable]:
    """Return the declaration for each topic of a table, in the declared order, or by name if a pattern names them.

    Those of a pattern are the topics that the broker has, and those with progress: a topic that is gone is missed. The
    broker is asked only then, for at most ``limit`` seconds. Raises ``BrokerError``, and ``TopicError`` if no topic
    matches.
    """
    if table.topic or not isinstance(table.topics, TopicPattern):
        return named_topics(table)
    names = {*topic_names(settings, limit), *topics_with_progress(ledger_of(settings, table.name))}
    matching_names = table.topics.matching(names)
    if not matching_names:
        raise TopicError(
            f"No topic on this broker matches {table.topics.pattern}",
            action="Correct TopicPattern(...) in the declaration or the broker's address, or create a topic.",
        )
    return [table.in_topic(name) for name in matching_names]


def known_topics(settings: Settings, table: StreamTable) -> list[StreamTable]:
    """Return the declaration for each topic of a table that is known without asking the broker."""
    if table.topic or not isinstance(table.topics, TopicPattern):
        return named_topics(table)
    names = table.topics.matching(topics_with_progress(ledger_of(settings, table.name)))
    return [table.in_topic(name) for name in names]


def named_topics(table: StreamTable) -> list[StreamTable]:
    """Return the declaration for each topic that it names; none for a pattern."""
    names = () if isinstance(table.topics, TopicPattern) else table.topics
    return [table] if table.topic or not table.has_topics else [table.in_topic(name) for name in names]


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


def with_start(
    settings: Settings, table: StreamTable, ledger: Ledger, state: SourceState, limit: float = PATIENCE
) -> SourceState:
    """Return the state of the topic with the offset at which a new table begins each partition.

    The offset is 0 if the partition is read from its first record. Without a declared start, and once the table has
    progress, the state is unchanged. Only a start at a time asks the broker, for at most ``limit`` seconds. Raises
    ``BrokerError``, and ``DeclarationError`` if the topic does not have a partition or an offset that is declared.
    """
    if table.start is None or ledger.progress is not None:
        return state
    if isinstance(table.start, Mapping):
        starts = _named_positions(table, table.start, state)
        if not ledger.lost_progress_of(state.source):  # else merged records may have expired since, which is a gap
            _require_present(table, starts, state)
        return replace(state, starts=starts)
    time = start_time(table.start)
    return replace(state, starts=_positions_at(settings, state, time, limit) if time else state.end)


def first_positions(ledger: Ledger) -> dict[int, int]:
    """Return the first offset of each partition of which the table left out offsets on purpose."""
    return {part.partition: part.end for part in ledger.left_out}


def _named_positions(table: StreamTable, positions: Positions, state: SourceState) -> Positions:
    for partition, position in sorted(positions.items()):
        end = state.end.get(partition)
        if end is None or position > end:
            fact = "does not exist" if end is None else f"ends at offset {end}"
            raise _wrong_start(table, partition, position, fact)
    return {partition: positions.get(partition, 0) for partition in state.end}


def _require_present(table: StreamTable, starts: Positions, state: SourceState) -> None:
    """Raise if a record at a declared offset has expired; 0 is the first record that the topic still holds."""
    for partition, position in starts.items():
        earliest = state.earliest[partition]
        if 0 < position < earliest:
            fact = f"begins at offset {earliest}: records before it have expired"
            raise _wrong_start(table, partition, position, fact)


def _wrong_start(table: StreamTable, partition: int, position: int, fact: str) -> DeclarationError:
    return DeclarationError(
        f"Table {table.name} starts at offset {position} of partition {partition}, but the partition {fact}",
        where=table.place_text,
        action="Nothing was merged. Correct start= in the declaration: 0 is the first record that the topic holds.",
    )


def _positions_at(settings: Settings, state: SourceState, time: datetime, limit: float) -> Positions:
    """Return the first offset with this time or a later one, or the end; 0 if expired records may have had such a time.

    A record of an open transaction is beyond the end; the partition then begins at the end.
    """
    found_positions = offsets_at(settings, state.stream, state.end, time, limit)
    starts = {partition: min(found_positions.get(partition, end), end) for partition, end in state.end.items()}
    return {partition: start if start > state.earliest[partition] else 0 for partition, start in starts.items()}
