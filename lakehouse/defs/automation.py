"""What runs by itself: a merge job for each table, and a sensor that requests it and reports commits of no run.

The command line writes without Dagster, and a run that fails after a commit does not report it. The history of the
table is the authority. The version that Dagster knows is the one in the table's newest materialization.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs import figures
from lakehouse.defs.checks import StandingResults
from lakehouse.defs.freshness import report_freshness, report_held, report_lag
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.runs import COMMITTED_AT, keys_behind, reason_to_wait, sensor_location, unfinished_run
from lakehouse.defs.specs import CatalogEntry, table_specs
from lakehouse.defs.steps import DATA_VERSION, check_evaluation, table_facts
from lakehouse.defs.waiting import SensorCursor, Waiting, is_unavailable, plan_and_report
from lakehouse.defs.warm_runs import keep_runs_warm
from lakehouse.errors import LakehouseError, StoreUnreachableError
from lakehouse.ingest.topics import named_topics
from lakehouse.kafka.watch import WATCHED
from lakehouse.ledger.audit import Finding, batches_accounted, changes_kept
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.ledger.log import holds_version, open_table
from lakehouse.ledger.log_copies import look_once
from lakehouse.ledger.positions import SourceState, describe_held, source_words
from lakehouse.operations import verify
from lakehouse.settings import Settings
from lakehouse.storage.table_context import merged_ledger

_ROW_COUNTS = ("inserted", "updated", "deleted")
_KINDS_WITHOUT_MERGE = (
    "maintenance",
    "purge",
    "rewrite",
    "acceptance",
    "wait",
)  # these commits add no rows from records or files
# seconds between two ticks: Dagster's own daemon evaluates sensors every five, and no other one rests without a topic
_TICK_INTERVAL, _UNWATCHED_INTERVAL = 2, 4
_POSITION_SCHEMA = dg.TableSchema(columns=[dg.TableColumn(name, "int") for name in ("partition", "earliest", "end")])
_POSITIONS_SCHEMA = dg.TableSchema(columns=[dg.TableColumn("topic", "string"), *_POSITION_SCHEMA.columns])


class CommitReporter:
    """Reports the commits of a declaration's tables to Dagster. The sensor keeps one reporter over all its ticks.

    The reporter remembers the version that Dagster knows of each table. If nothing was written, a tick does not query
    Dagster.
    """

    def __init__(self, catalog_entry: CatalogEntry) -> None:
        self._catalog_entry = catalog_entry
        self._specs = table_specs(catalog_entry)
        self._reported_versions: dict[str, int] = {}

    def report(self, instance: dg.DagsterInstance, settings: Settings, location: str | None) -> None:
        """Report each table that was written since its last report, and its checks that need no Spark session.

        If an unfinished run writes a table, that run reports it. A table that cannot be read is skipped: the steps that
        need it report the error. A second call reports nothing. ``location`` is the code location of the sensor.
        """
        for spec in self._specs:
            try:
                self._report(instance, _ReportedTable(self._catalog_entry, spec, settings), location)
            except StoreUnreachableError:
                return  # the other tables are in the same store, and a tick must end within seconds
            except LakehouseError:
                continue

    def _report(self, instance: dg.DagsterInstance, table: "_ReportedTable", location: str | None) -> None:
        if table.uri in self._reported_versions and not table.differs(self._reported_versions[table.uri]):
            return
        entry = self._catalog_entry
        writer_key = entry.merged_key if table.name == entry.table.rejected_name else table.spec.key
        is_being_written = unfinished_run(instance, writer_key, location, entry.maintain_job) or unfinished_run(
            instance, entry.replayed_key, location
        )
        # Read the version after looking for runs: it then includes what a run reported that has just ended.
        version, table_id = _reported_state(instance, table.spec.key)
        self._reported_versions[table.uri] = version
        if is_being_written or not table.differs(version):
            return
        ledger = table.ledger()
        if table_id not in (None, ledger.table_id):
            version = -1  # all commits of a table that was created again
        _report_commits(instance, table, ledger, version)
        self._reported_versions[table.uri] = ledger.version


def _report_commits(instance: dg.DagsterInstance, table: "_ReportedTable", ledger: Ledger, last_version: int) -> None:
    """Report a table at the version of its ledger, with the commits after the last reported version."""
    key = table.spec.key
    commits = [entry for entry in ledger.entries if entry.version > last_version]
    has_same_rows = 0 <= last_version < ledger.version < ledger.next_change(last_version)
    tags = _reported_tags(instance, key) if has_same_rows else {}
    kinds = ", ".join(f"{kind} ({count})" for kind, count in sorted(Counter(e.commit.kind for e in commits).items()))
    event = dg.AssetMaterialization(
        key,
        description=f"Commits that no Dagster run reported: {kinds or 'commits of other programs'}.",
        metadata={**table.metadata(ledger, commits), **_merged_at(ledger)},
        tags={DATA_VERSION: str(ledger.version), **tags},
    )
    instance.report_runless_asset_event(event)
    for finding in table.findings(ledger, commits):
        instance.report_runless_asset_event(check_evaluation(finding, key))


def _newest_materialization(instance: dg.DagsterInstance, key: dg.AssetKey) -> dg.AssetMaterialization | None:
    event = instance.get_latest_materialization_event(key)
    return event.asset_materialization if event else None


def _reported_state(instance: dg.DagsterInstance, key: dg.AssetKey) -> tuple[int, str | None]:
    """The version of a table that Dagster knows, and the id of the table; -1 and ``None`` if it knows none."""
    newest = _newest_materialization(instance, key)
    metadata = newest.metadata if newest else {}
    version, table_id = metadata.get("table_version"), metadata.get("table_id")
    number = version.value if isinstance(version, dg.IntMetadataValue) else None
    text = table_id.value if isinstance(table_id, dg.TextMetadataValue) else None
    return -1 if number is None else number, text


def known_version(instance: dg.DagsterInstance, key: dg.AssetKey, ledger: Ledger) -> int:
    """The version of a table that Dagster knows when a run starts: the present one if it knows none of this table."""
    version, table_id = _reported_state(instance, key)
    is_known = version >= 0 and table_id in (None, ledger.table_id)
    return min(version, ledger.version) if is_known else ledger.version


def _reported_tags(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str]:
    """The data version that Dagster knows. It stays the same if no row changed since."""
    newest = _newest_materialization(instance, key)
    tags = (newest.tags or {}) if newest else {}
    return {name: value for name, value in tags.items() if name == DATA_VERSION}


def _merged_at(ledger: Ledger) -> dict[str, dg.TimestampMetadataValue]:
    """When rows were last merged. The pause after a failed run ends by this time, not by the time of the report."""
    merged = next((entry for entry in ledger.entries if entry.commit.kind not in _KINDS_WITHOUT_MERGE), None)
    return {COMMITTED_AT: dg.MetadataValue.timestamp(merged.committed_at)} if merged else {}


@dataclass(frozen=True)
class _ReportedTable:
    """A table of a declaration, and what the reporter reports about it."""

    catalog_entry: CatalogEntry
    spec: dg.AssetSpec
    settings: Settings

    @property
    def name(self) -> str:
        return self.spec.key.path[-1]

    @property
    def declaration(self) -> StreamTable:
        return self.catalog_entry.table

    @property
    def uri(self) -> str:
        return self.settings.table_uri(self.name)

    def differs(self, version: int) -> bool:
        """Whether the table has a version after this one, or ends before it: then it was created again, or restored.

        Looks only for the names of two log files. Opens the table if the log has neither of them, or if the version is
        unknown (-1).
        """
        if version >= 0 and holds_version(self.uri, version + 1):
            return True
        if version >= 0 and holds_version(self.uri, version):
            return False
        table = open_table(self.uri)
        return table is not None and table.version() != version

    def ledger(self) -> Ledger:
        if self.name == self.declaration.name:
            return merged_ledger(self.settings, self.declaration)
        return read_ledger(self.uri, self.name)

    def metadata(self, ledger: Ledger, commits: Sequence[Entry]) -> dict[str, Any]:
        """The current state of the table, and what the commits did, as far as the newest part of its history shows."""
        state = {**table_facts(self.spec, self.settings), "table_version": ledger.version}
        declaration = self.declaration
        if self.name == declaration.name:
            return {**state, **figures.count_commits(commits, ledger)}
        if self.name == declaration.rejected_name:
            merged = merged_ledger(self.settings, declaration)
            rejected = sum(entry.metrics.inserted for entry in commits)
            return {**state, **figures.count_rejections(self.settings, declaration, merged, rejected)}
        source = {"source_version": ledger.consumed.version} if ledger.consumed else {}
        counts = {f"rows_{name}": sum(getattr(e.metrics, name) for e in commits) for name in _ROW_COUNTS}
        return {**state, **source, **figures.without_zeros(counts)}

    def findings(self, ledger: Ledger, commits: Sequence[Entry]) -> list[Finding]:
        """The findings of the table's checks that need only its history. The checks of a rollup need its rows."""
        if self.name == self.declaration.name:
            return [batches_accounted(ledger, commits), verify.rejected_share(ledger)]
        if self.name == self.declaration.changes_name and not self.declaration.is_log:
            return [changes_kept(reconciled=any(entry.commit.reconciled for entry in commits))]
        return []


def build_automation(
    entry: CatalogEntry, check_keys: Iterable[dg.AssetCheckKey], checks: Sequence[dg.AssetChecksDefinition]
) -> dg.Definitions:
    """Build the merge job of a table, and the sensor that requests it and keeps the results of its checks current."""
    table = entry.table
    separate_checks = dg.AssetSelection.checks(*checks[1:])
    job = dg.define_asset_job(
        entry.merge_job,
        executor_def=dg.in_process_executor,
        selection=dg.AssetSelection.assets(*entry.merge_job_keys) - separate_checks,
        description=f"Merges the new records of {table.topic_text} and updates all derived tables,"
        " in one process and one Spark session. Also checks the rows that the run touched.",
    )

    topics = " ".join(part.topic for part in named_topics(table)) if table.has_topics else ""
    reporter, standing_results = CommitReporter(entry), StandingResults(check_keys)

    @dg.sensor(
        name=entry.sensor,
        job=job,
        minimum_interval_seconds=_TICK_INTERVAL if topics else _UNWATCHED_INTERVAL,
        metadata={WATCHED: topics} if topics else None,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Requests a run of {job.name} while {table.topic_text} has records that are not merged.",
    )
    def evaluate(context: dg.SensorEvaluationContext, lakehouse: LakehouseResource) -> dg.SensorResult:
        try:
            return _tick(context, lakehouse, entry, reporter)
        finally:
            standing_results.repeat(context.instance)

    return dg.Definitions(jobs=[job], sensors=[evaluate])


@look_once()
def _tick(
    context: dg.SensorEvaluationContext, lakehouse: LakehouseResource, entry: CatalogEntry, reporter: CommitReporter
) -> dg.SensorResult:
    """Report what changed and request a run if records wait; the tick is skipped while the source is unavailable."""
    instance, cursor, now = context.instance, SensorCursor.parse(context.cursor), time.time()
    location = sensor_location(context)
    if location and isinstance(instance.run_launcher, dg.DefaultRunLauncher):
        keep_runs_warm()
    try:
        waiting = plan_and_report(instance, lakehouse, entry)
        reporter.report(instance, lakehouse.settings, location)
        request = _request_run(instance, entry, waiting, location)
    except Exception as error:
        is_skipped = is_unavailable(error)
        cursor = cursor.without_sight(now) if is_skipped else cursor
        report_freshness(instance, entry, cursor, now)
        report_lag(instance, entry, None)
        if not is_skipped:
            raise
        reporter.report(instance, lakehouse.settings, location)
        return dg.SensorResult(skip_reason=str(error), cursor=cursor.text)
    next_cursor = cursor.after(waiting, now, entry.table.promise.fresh)
    report_freshness(instance, entry, next_cursor, now)
    report_lag(instance, entry, waiting.span + waiting.held_count)
    report_held(instance, entry, waiting, next_cursor, now)
    is_idle = waiting.is_idle and not waiting.held_parts and isinstance(request, str)
    return dg.SensorResult(
        run_requests=[request] if isinstance(request, dg.RunRequest) else None,
        skip_reason=request if isinstance(request, str) else None,
        asset_events=[_topic_event(entry, waiting)] if entry.has_own_topic and not cursor.is_at(waiting) else [],
        cursor=next_cursor.model_copy(update={"is_idle": is_idle}).text,
    )


def _request_run(
    instance: dg.DagsterInstance, entry: CatalogEntry, waiting: Waiting, location: str | None
) -> dg.RunRequest | str:
    """Request a run, which merges all records that are in the topic when it starts, or return the skip reason.

    The request has no run key, so that the sensor can request a failed run again. A run is also requested if no records
    are waiting but the last run failed. If it had merged, only the derived tables are behind, and only they are
    written: the sensor reports its commit, and no run does so again.
    """
    table, job, key = entry.table, entry.merge_job, entry.merged_key
    now = datetime.now(UTC)
    behind = keys_behind(instance, job, entry.merge_job_keys, now, location) if waiting.is_idle else []
    if waiting.is_idle and not behind:
        if waiting.held_parts:
            return f"Nothing to merge now. {describe_held(waiting.held_parts, table.position_noun)}"
        return f"Nothing to merge: every record of {table.topic_text} is merged or rejected."
    noun = f"{table.position_noun.capitalize()}s"
    runs = (unfinished_run(instance, written_key, location) for written_key in dict.fromkeys([key, *behind]))
    run = next(filter(None, runs), None)
    if run:
        status = run.status.value.lower().replace("_", " ")
        running = f"Run {run.run_id[:8]} of {run.job_name} ({status}) is merging {table.name}."
        return f"{noun} to merge: {waiting.span:,}. {running}"
    reason = waiting.unaccepted or reason_to_wait(instance, job, key, now, location)
    if reason:
        return f"{noun} to merge: {waiting.span:,}. {reason}"
    topic = {"lakehouse/topic": table.topic} if table.topic else {}
    selection = behind if behind and key not in behind else None
    return dg.RunRequest(tags={**topic, "lakehouse/lag": str(waiting.span)}, asset_selection=selection)


def _held_positions(state: SourceState) -> list[tuple[int, int, int]]:
    """Each partition, with the first and the end of what it holds, as the source counts it."""
    count = source_words(state.source).count
    return [(partition, count(state.earliest[partition]), count(end)) for partition, end in sorted(state.end.items())]


def _topic_event(entry: CatalogEntry, waiting: Waiting) -> dg.AssetMaterialization:
    """The event of a topic whose end offsets changed; its data version is made of its identity and these offsets.

    If the table reads several topics, the event is about all of them.
    """
    states = [state for state, _ in waiting.topics]
    has_several = bool(entry.table.topics)
    positions = [
        dg.TableRecord(
            {**({"topic": state.stream} if has_several else {}), "partition": partition, "earliest": first, "end": end}
        )
        for state in states
        for partition, first, end in _held_positions(state)
    ]
    noun = source_words(states[0].source).position
    version = f"{waiting.source} {sorted(waiting.end.items())}"
    return dg.AssetMaterialization(
        entry.key(entry.topic_name),
        description=f"The end of {entry.table.topic_text} changed.",
        metadata={
            f"{noun}s": dg.MetadataValue.table(
                positions, schema=_POSITIONS_SCHEMA if has_several else _POSITION_SCHEMA
            ),
            f"{noun}s_held": sum(end - first for state in states for _, first, end in _held_positions(state)),
            "lag": waiting.span,
            **({"topics": len(states)} if has_several else states[0].ids),
        },
        tags={DATA_VERSION: hashlib.sha256(version.encode()).hexdigest()[:12]},
    )
