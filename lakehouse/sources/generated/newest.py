"""The newest generated records, for display."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import nlargest

from lakehouse.declaration.generated import Generated
from lakehouse.decoding.generated import microseconds_of, value_writer
from lakehouse.ledger.positions import SourceState
from lakehouse.sources.generated.look import start_of


@dataclass(frozen=True)
class GeneratedRecord:
    """One generated record: its place, and its time in microseconds since 1970."""

    partition: int
    position: int
    microseconds: int
    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def shown_place(self) -> dict[str, str | int]:
        """Where it is in the generator, by name."""
        return {"partition": self.partition, "position": self.position}

    @property
    def milliseconds(self) -> int:
        """When it was made, since 1970, UTC."""
        return self.microseconds // 1_000

    @property
    def time(self) -> datetime:
        """When it was made, UTC."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.microseconds)


def newest_records(generated: Generated, state: SourceState, count: int) -> list[GeneratedRecord]:
    """Return the last records that exist, at most ``count``, the newest last; computes them, and reads nothing."""
    start, write = start_of(state.source, generated) or 0, value_writer(generated.fields, generated.seed)
    places = (
        (position * generated.partitions + partition, partition, position)
        for partition, end in state.end.items()
        for position in range(max(end - count, 0), end)
    )
    return [
        GeneratedRecord(partition, position, start + microseconds_of(number, generated.rate), write(number))
        for number, partition, position in sorted(nlargest(count, places))
    ]
