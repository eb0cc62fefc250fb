"""The declared start of a new table: looked up in the topic once, before the first batch, and recorded in a commit.

A table that has progress ignores the declared start.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from lakehouse.declaration import StreamTable
from lakehouse.declaration.start import start_time
from lakehouse.errors import DeclarationError
from lakehouse.kafka import PATIENCE, offsets_at
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Positions, SourceState
from lakehouse.settings import Settings


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
