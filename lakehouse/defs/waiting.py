"""The records that wait to be merged into a table, and what its sensor remembers between two ticks.

A broker, a topic or a store of files that is unavailable recovers without help. Any other problem, such as a broker
that refuses access or a folder that does not exist, stops the table until a person acts, and the table must not look
idle. So the tick of the sensor fails, and a check of the merged asset shows the reason until the problem is solved.

The cursor decides nothing about what is merged: a lost cursor loses no record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import dagster as dg
from dagster._core.scheduler.instigation import InstigatorType, SensorInstigatorData
from pydantic import BaseModel, ConfigDict, ValidationError

from lakehouse.declaration import StreamTable
from lakehouse.declaration.vocabulary import fingerprint_of
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.specs import CatalogEntry
from lakehouse.defs.steps import check_result, report_if_changed
from lakehouse.errors import BrokerError, BrokerRefusedError, LakehouseError, SourceUnreachableError, TopicError
from lakehouse.ingest.gaps import plan_table
from lakehouse.ingest.topics import split_by_topic, with_start
from lakehouse.ledger.audit import Finding, finding
from lakehouse.ledger.planning import Bounds
from lakehouse.ledger.positions import HeldPart, Plan, SourceId, SourceState, source_words
from lakehouse.operations.status import find_unaccepted, reason_to_accept
from lakehouse.settings import Settings
from lakehouse.sources.table_sources import read_states
from lakehouse.storage.table_context import merged_ledger

CHECK = "batch_can_be_planned"
_LOOK_LIMIT = 3.0  # seconds for the broker; a tick ends within five seconds, even if the broker does not answer
_DOC = (
    "The next batch can be planned: the settings are valid, the history of the table records its progress, the topic"
    " still has every record after it, and no change of the declaration waits for a person. If the check fails, merging"
    " stops until you act; the result says what to do. It only warns if the broker, the topic or a store of files is"
    " unavailable. The sensor also reports this check whenever its result changes."
)
_STATEMENT = "settings, table and topic fit together, and no record was lost before it was merged"
_SIGHTINGS_PER_PROMISE = 10  # the wait of a record is measured to within a tenth of the promised time
_MAX_SIGHTINGS, _FEWEST_SIGHTINGS = 30, 4
_MAX_OFFSETS = 1_500  # of all sightings together: Dagster stores the cursor with every tick
_MAX_HELD = 30  # the oldest of what is held
_PAUSE = 60.0  # seconds without a tick after which the silence of a broker is counted from zero


def is_unavailable(error: Exception) -> bool:
    """Whether an error only means that the broker, the topic or the store of files is unavailable now."""
    is_away = isinstance(error, (BrokerError, SourceUnreachableError, TopicError))
    return is_away and not isinstance(error, BrokerRefusedError)


@dataclass(frozen=True)
class Waiting:
    """The state of each topic of a table, and the plan of one merge of all its waiting records.

    ``unaccepted`` says why only a person starts that merge; ``None`` if sensors do.
    """

    topics: tuple[tuple[SourceState, Plan], ...]
    unaccepted: str | None = None

    @property
    def span(self) -> int:
        """The number of offsets, or of files, to merge."""
        return sum(source_words(plan.source).count(plan.span) for _, plan in self.topics)

    @property
    def is_idle(self) -> bool:
        """Whether no topic has anything to commit."""
        return all(plan.is_idle for _, plan in self.topics)

    @property
    def held_parts(self) -> tuple[HeldPart, ...]:
        """What the sources have and no batch reads yet."""
        return tuple(part for state, _ in self.topics for part in state.held_parts)

    @property
    def held_count(self) -> int:
        """The number of offsets, or of files, that no batch reads yet."""
        return sum(part.count for part in self.held_parts)

    @property
    def source(self) -> str:
        """The source; of several, the hashes of all."""
        return self.topics[0][0].source.text if len(self.topics) == 1 else " ".join(sorted(self.end))

    @property
    def end(self) -> dict[str, dict[int, int]]:
        """The end of each partition, by a hash of its source."""
        return {source_hash(state.source): dict(state.end) for state, _ in self.topics}

    @property
    def starts(self) -> dict[str, dict[int, int]]:
        """The next offset to merge of each partition, by a hash of its source."""
        return {
            source_hash(plan.source): {part.partition: part.start for part in plan.ranges} for _, plan in self.topics
        }


def source_hash(source: SourceId) -> str:
    """A short name of a source, for the cursor."""
    return fingerprint_of(source.text)


def plan_waiting_records(settings: Settings, table: StreamTable, limit: float = _LOOK_LIMIT) -> Waiting:
    """Read the states of all topics within ``limit`` seconds, and plan one merge of all waiting records, without a JVM.

    Raises an error for which ``is_unavailable`` is true if the broker or a topic is unavailable. Any other error
    requires a person to act.
    """
    parts = split_by_topic(settings, table, limit)
    # Read the progress first: otherwise a run that commits in between would seem to be ahead of the topic.
    ledgers = [merged_ledger(settings, part) for part in parts]
    planned_topics = []
    for part, ledger, state in zip(parts, ledgers, read_states(settings, parts, ledgers, limit), strict=True):
        started_state = with_start(settings, part, ledger, state, limit)
        planned_topics.append((started_state, plan_table(part, started_state, ledger, Bounds())))
    return Waiting(tuple(planned_topics))


def plan_and_report(instance: dg.DagsterInstance, lakehouse: LakehouseResource, entry: CatalogEntry) -> Waiting:
    """Plan a merge of all waiting records, and report to the planning check if its result changed; errors propagate.

    Reports at once, because a failed tick loses its events. An unavailable broker or topic is not reported: it says
    nothing about the table.
    """
    try:
        waiting, result = _plan(lakehouse.settings, entry.table)  # a setting may be invalid
    except Exception as error:
        if not is_unavailable(error):
            report_if_changed(instance, _failure(error), entry.merged_key)
        raise
    report_if_changed(instance, result, entry.merged_key)
    return waiting


def _plan(settings: Settings, table: StreamTable) -> tuple[Waiting, Finding]:
    """Plan a merge, and check that a sensor may request it. A new table waits for a person, and does not fail."""
    waiting = plan_waiting_records(settings, table)
    changes = find_unaccepted(settings, table)
    reason = reason_to_accept(table, changes)
    problems = [reason] if reason and changes is not None else []
    return replace(waiting, unaccepted=reason), finding(CHECK, problems, _STATEMENT)


def planning_check(entry: CatalogEntry) -> dg.AssetChecksDefinition:
    """The same check on request in the UI. It warns if the broker or the topic is unavailable."""
    key = entry.merged_key

    @dg.asset_check(name=CHECK, asset=key, description=entry.check_doc(CHECK, _DOC))
    def check(lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        try:
            _, result = _plan(lakehouse.settings, entry.table)
        except LakehouseError as error:
            return check_result(_failure(error), key, is_warning=is_unavailable(error))
        return check_result(result, key)

    return check


def _failure(error: Exception) -> Finding:
    has_advice = isinstance(error, LakehouseError)
    return Finding(CHECK, passed=False, detail=str(error) if has_advice else f"{type(error).__name__}: {error}")


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
    is_idle: bool = False
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
        return self.model_copy(update={"seen_at": seen_at, "ticked_at": now, "is_blind": True, "is_idle": False})

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
