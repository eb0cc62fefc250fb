"""The records that wait to be merged into a table, for the sensor and for a check that shows why planning fails.

A broker, a topic or a store of files that is unavailable recovers without help. Any other problem, such as a broker
that refuses access or a folder that does not exist, stops the table until a person acts, and the table must not look
idle. So the tick of the sensor fails, and a check of the merged asset shows the reason until the problem is solved.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.declaration.vocabulary import fingerprint_of
from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.results import check_result, report_if_changed
from lakehouse.errors import BrokerError, BrokerRefusedError, LakehouseError, SourceUnreachableError, TopicError
from lakehouse.ingest.gaps import plan_table
from lakehouse.ingest.topics import split_by_topic, with_start
from lakehouse.ledger.audit import Finding, finding
from lakehouse.ledger.planning import Bounds
from lakehouse.ledger.positions import HeldPart, Plan, SourceId, SourceState, source_words
from lakehouse.settings import Settings
from lakehouse.sources.table_sources import read_states
from lakehouse.storage.table_context import merged_ledger

CHECK = "batch_can_be_planned"
_LOOK_LIMIT = 3.0  # seconds for the broker; a tick ends within five seconds, even if the broker does not answer
_DOC = (
    "The next batch can be planned: the settings are valid, the history of the table records its progress, and the"
    " topic still has every record after it. If the check fails, merging stops until you act; the result says what to"
    " do. It only warns if the broker, the topic or a store of files is unavailable. The sensor also reports this check"
    " whenever its result changes."
)
_STATEMENT = "settings, table and topic fit together, and no record was lost before it was merged"


def is_unavailable(error: Exception) -> bool:
    """Whether an error only means that the broker, the topic or the store of files is unavailable now."""
    is_away = isinstance(error, (BrokerError, SourceUnreachableError, TopicError))
    return is_away and not isinstance(error, BrokerRefusedError)


@dataclass(frozen=True)
class Waiting:
    """The state of each topic of a table, and the plan of one merge of all its waiting records."""

    topics: tuple[tuple[SourceState, Plan], ...]

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


@contextmanager
def report_planning(instance: dg.DagsterInstance, entry: CatalogEntry) -> Iterator[None]:
    """Report to the planning check whether the code inside succeeds, if the result changed; errors propagate.

    Reports at once, because a failed tick loses its events. An unavailable broker or topic is not reported: it says
    nothing about the table.
    """
    try:
        yield
    except Exception as error:
        if not is_unavailable(error):
            report_if_changed(instance, _failure(error), entry.merged_key)
        raise
    report_if_changed(instance, finding(CHECK, [], _STATEMENT), entry.merged_key)


def planning_check(entry: CatalogEntry) -> dg.AssetChecksDefinition:
    """The same check on request in the UI. It warns if the broker or the topic is unavailable."""
    key = entry.merged_key

    @dg.asset_check(name=CHECK, asset=key, description=entry.check_doc(CHECK, _DOC))
    def check(lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        try:
            plan_waiting_records(lakehouse.settings, entry.table)
        except LakehouseError as error:
            return check_result(_failure(error), key, is_warning=is_unavailable(error))
        return check_result(finding(CHECK, [], _STATEMENT), key)

    return check


def _failure(error: Exception) -> Finding:
    has_advice = isinstance(error, LakehouseError)
    return Finding(CHECK, passed=False, detail=str(error) if has_advice else f"{type(error).__name__}: {error}")
