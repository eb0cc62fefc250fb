"""What runs by itself: a merge job for each table, and a sensor that requests it if records are waiting."""

import hashlib
import time
from datetime import UTC, datetime

import dagster as dg

from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.checks import build_separate_checks
from lakehouse.defs.cursor import SensorCursor
from lakehouse.defs.freshness import report_freshness, report_held, report_lag
from lakehouse.defs.reported import CommitReporter
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.results import DATA_VERSION
from lakehouse.defs.runs import keys_behind, reason_to_wait, sensor_location, unfinished_run
from lakehouse.defs.waiting import Waiting, is_unavailable, plan_waiting_records, report_planning
from lakehouse.ledger.positions import SourceState, describe_held, source_words

_TICK_INTERVAL = 4  # seconds between two ticks: Dagster's daemon evaluates sensors every five
_POSITION_SCHEMA = dg.TableSchema(columns=[dg.TableColumn(name, "int") for name in ("partition", "earliest", "end")])
_POSITIONS_SCHEMA = dg.TableSchema(columns=[dg.TableColumn("topic", "string"), *_POSITION_SCHEMA.columns])


def build_automation(entry: CatalogEntry) -> dg.Definitions:
    """Build the merge job of a table and the sensor that requests it."""
    table = entry.table
    separate_checks = dg.AssetSelection.checks(*build_separate_checks(entry))
    job = dg.define_asset_job(
        entry.merge_job,
        executor_def=dg.in_process_executor,
        selection=dg.AssetSelection.assets(*entry.merge_job_keys) - separate_checks,
        description=f"Merges the new records of {table.topic_text} and updates all derived tables,"
        " in one process and one Spark session. Also checks the rows that the run touched.",
    )

    reporter = CommitReporter(entry)

    @dg.sensor(
        name=entry.sensor,
        job=job,
        minimum_interval_seconds=_TICK_INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Requests a run of {job.name} while {table.topic_text} has records that are not merged.",
    )
    def evaluate(context: dg.SensorEvaluationContext, lakehouse: LakehouseResource) -> dg.SensorResult:
        return _tick(context, lakehouse, entry, reporter)

    return dg.Definitions(jobs=[job], sensors=[evaluate])


def _tick(
    context: dg.SensorEvaluationContext, lakehouse: LakehouseResource, entry: CatalogEntry, reporter: CommitReporter
) -> dg.SensorResult:
    """Report what changed and request a run if records wait; the tick is skipped while the source is unavailable."""
    instance, cursor, now = context.instance, SensorCursor.parse(context.cursor), time.time()
    location = sensor_location(context)
    try:
        with report_planning(instance, entry):
            waiting = plan_waiting_records(lakehouse.settings, entry.table)
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
    return dg.SensorResult(
        run_requests=[request] if isinstance(request, dg.RunRequest) else None,
        skip_reason=request if isinstance(request, str) else None,
        asset_events=[] if cursor.is_at(waiting) else [_topic_event(entry, waiting)],
        cursor=next_cursor.text,
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
    reason = reason_to_wait(instance, job, key, now, location)
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
