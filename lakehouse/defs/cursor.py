"""What the sensor of a table remembers between two ticks, as JSON in its cursor.

The cursor decides nothing about what is merged: a lost cursor loses no record.
"""

from collections.abc import Mapping
from datetime import timedelta

import dagster as dg
from dagster._core.scheduler.instigation import InstigatorType, SensorInstigatorData
from pydantic import BaseModel, ConfigDict, ValidationError

from lakehouse.declaration.vocabulary import fingerprint_of
from lakehouse.defs.waiting import Waiting
from lakehouse.ledger.positions import HeldPart

_SIGHTINGS_PER_PROMISE = 10  # the wait of a record is measured to within a tenth of the promised time
_MAX_SIGHTINGS, _FEWEST_SIGHTINGS = 30, 4
_MAX_OFFSETS = 1_500  # of all sightings together: Dagster stores the cursor with every tick
_MAX_HELD = 30  # the oldest of what is held
_PAUSE = 60.0  # seconds without a tick after which the silence of a broker is counted from zero


class Sighting(BaseModel):
    """The end offsets that a tick saw, by a hash of their topic: records before them existed ``at`` (since 1970)."""

    model_config = ConfigDict(frozen=True)

    at: float
    end: dict[str, dict[int, int]]

    def has_waiting_records(self, starts: Mapping[str, Mapping[int, int]]) -> bool:
        """Whether a record that existed then is not merged yet; ``starts`` are the next offsets to merge."""
        ends = ((starts.get(source, {}), item) for source, part in self.end.items() for item in part.items())
        return any(part_starts.get(partition, end) < end for part_starts, (partition, end) in ends)


class SensorCursor(BaseModel):
    """What a tick leaves for the next one.

    ``seen_at`` is when a tick last saw the topic, or the first tick since the sensor runs if none did; ``None`` before
    the first tick. ``ticked_at`` is when a tick last stored this; ``is_blind`` if it did not see the topic.
    ``sightings`` are of records that were not merged at the last tick, the oldest first. ``held_times`` is since when
    something is held, by a hash of its name: of the oldest.
    """

    model_config = ConfigDict(frozen=True)

    source: str = ""
    end: dict[str, dict[int, int]] = {}
    seen_at: float | None = None
    ticked_at: float | None = None
    is_blind: bool = False
    sightings: tuple[Sighting, ...] = ()
    held_times: dict[str, float] = {}

    @classmethod
    def parse(cls, text: str | None) -> "SensorCursor":
        """Parse a cursor; an empty one if there is none, or if it has another form."""
        try:
            return cls.model_validate_json(text or "{}")
        except ValidationError:
            return cls()

    @property
    def text(self) -> str:
        """The cursor as JSON."""
        return self.model_dump_json()

    def is_at(self, waiting: Waiting) -> bool:
        """Whether the topic has the same end offsets as at the last tick."""
        return self.source == waiting.source and self.end == waiting.end

    def without_sight(self, now: float) -> "SensorCursor":
        """The cursor after a tick that did not see the topic.

        Silence counts from the last tick that saw it. After a pause in which no tick ran, it counts from the first tick
        that did not see it, however seldom ticks run.
        """
        has_paused = self.ticked_at is None or not 0 <= now - self.ticked_at <= _PAUSE
        is_new = self.seen_at is None or (has_paused and not self.is_blind)
        seen_at = now if self.seen_at is None or is_new else min(self.seen_at, now)
        return self.model_copy(update={"seen_at": seen_at, "ticked_at": now, "is_blind": True})

    def after(self, waiting: Waiting, now: float, fresh: timedelta | None) -> "SensorCursor":
        """The cursor after a tick at ``now``, which saw the topic and planned to merge all waiting records.

        Without a promise, ``fresh``, no sighting is kept. A clock that was set back does not make records younger than
        they were, except by the time that it was set back.
        """
        end = waiting.end
        sightings = self._waiting(waiting, now) if fresh else ()
        if fresh:
            is_due = not sightings or now - sightings[-1].at >= fresh.total_seconds() / _SIGHTINGS_PER_PROMISE
            sightings = (*sightings, Sighting(at=now, end=end)) if waiting.span and is_due else sightings
        sightings = _thinned(sightings, sum(map(len, end.values())))
        held_times = self._held_times(waiting, now)
        return SensorCursor(
            source=waiting.source, end=end, seen_at=now, ticked_at=now, sightings=sightings, held_times=held_times
        )

    def held_since(self, part: HeldPart, now: float) -> float:
        """Since when a part of the source is held, as far as the cursor remembers it."""
        return min(self.held_times.get(fingerprint_of(part.name), now), now)

    def _held_times(self, waiting: Waiting, now: float) -> dict[str, float]:
        since = {fingerprint_of(part.name): self.held_since(part, now) for part in waiting.held_parts}
        oldest = sorted(since.items(), key=lambda item: (item[1], item[0]))
        return dict(oldest[:_MAX_HELD])

    def _waiting(self, waiting: Waiting, now: float) -> tuple[Sighting, ...]:
        """The sightings of records that are not merged yet."""
        starts = waiting.starts
        sightings = (sighting for sighting in self.sightings if sighting.has_waiting_records(starts))
        return tuple(sighting.model_copy(update={"at": min(sighting.at, now)}) for sighting in sightings)


def _thinned(sightings: tuple[Sighting, ...], partitions: int) -> tuple[Sighting, ...]:
    """Keep a cursor small while nothing is merged: beyond the maximum, every second sighting after the oldest goes."""
    maximum = max(_FEWEST_SIGHTINGS, min(_MAX_SIGHTINGS, _MAX_OFFSETS // max(1, partitions)))
    return sightings if len(sightings) <= maximum else (sightings[0], *sightings[2::2])


def read_cursor(instance: dg.DagsterInstance, sensor: str, location: str | None) -> SensorCursor:
    """Read what the sensor of this name remembers, from its newest tick; an empty cursor if it never ran.

    Reads the sensor of the code location ``location``; ``None`` means all.
    """
    if instance.schedule_storage is None:  # an instance of a test
        return SensorCursor()
    states = instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)
    own_states = [state for state in states if location in (None, state.origin.repository_origin.get_label())]
    data = [state.instigator_data for state in own_states if state.instigator_name == sensor]
    ticks = [part for part in data if isinstance(part, SensorInstigatorData)]
    newest = max(ticks, key=lambda part: part.last_tick_timestamp or 0.0, default=None)
    return SensorCursor.parse(newest.cursor if newest else None)
