"""What runs by itself: a job for each table, and a sensor that asks for it when records are waiting."""

import hashlib
import json
from datetime import UTC, datetime

import dagster as dg

from lakehouse.defs.catalog_entries import Listed
from lakehouse.defs.checks import checks_of_their_own
from lakehouse.defs.reported import CommitReporter
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.results import DATA_VERSION
from lakehouse.defs.retries import is_behind, reason_to_wait
from lakehouse.defs.runs import unfinished_run
from lakehouse.defs.waiting import alarming, is_away, look_ahead
from lakehouse.errors import LakehouseError
from lakehouse.kafka import TopicState
from lakehouse.ledger.positions import Plan

_INTERVAL = 4  # seconds between two ticks: Dagster's daemon looks every five
_POSITIONS = dg.TableSchema(columns=[dg.TableColumn(name, "int") for name in ("partition", "earliest", "end")])


def automation_of(listed: Listed) -> dg.Definitions:
    """The job of a table and the sensor that asks for it."""
    table = listed.table
    job = dg.define_asset_job(
        listed.merge_job,
        executor_def=dg.in_process_executor,
        selection=dg.AssetSelection.assets(*listed.written) - dg.AssetSelection.checks(*checks_of_their_own(listed)),
        description=f"Merge what is new in topic {table.topic} and bring everything derived from it up to date: "
        "one process and one Spark session. What the run touched is checked with it.",
    )

    reporter = CommitReporter(listed)

    @dg.sensor(
        name=f"{table.name}_sensor",
        job=job,
        minimum_interval_seconds=_INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Asks for a run of {job.name} while topic {table.topic} holds records that are not merged.",
    )
    def watch(context: dg.SensorEvaluationContext, lakehouse: LakehouseResource) -> dg.SensorResult:
        try:
            with alarming(context.instance, listed):
                state, plan = look_ahead(lakehouse.settings, table)
        except LakehouseError as error:
            if not is_away(error):
                raise
            reporter.report(context.instance, lakehouse.settings)
            return dg.SensorResult(skip_reason=str(error))
        reporter.report(context.instance, lakehouse.settings)
        wanted = _request(context.instance, listed, plan)
        return dg.SensorResult(
            run_requests=[wanted] if isinstance(wanted, dg.RunRequest) else None,
            skip_reason=wanted if isinstance(wanted, str) else None,
            asset_events=_moved(context.cursor, listed, state),
            cursor=_written(state),
        )

    return dg.Definitions(jobs=[job], sensors=[watch])


def _request(instance: dg.DagsterInstance, listed: Listed, plan: Plan) -> dg.RunRequest | str:
    """Ask for a run, which merges what is there when it starts, or say why not.

    No run key: a failed run is asked for again, later. Also where nothing waits: it may have failed behind its merge,
    and what derives from the table is behind.
    """
    table, job, key = listed.table, listed.merge_job, listed.merged
    idle = not plan.span and not plan.gap
    now = datetime.now(UTC)
    if idle and not is_behind(instance, job, listed.written, now):
        return f"Nothing to merge: {table.name} has every record of topic {table.topic}."
    run = unfinished_run(instance, key)
    if run:
        state = run.status.value.lower().replace("_", " ")
        return f"{plan.span:,} offsets wait; run {run.run_id[:8]} of {run.job_name} ({state}) is to merge {table.name}."
    reason = reason_to_wait(instance, job, key, now)
    if reason:
        return f"{plan.span:,} offsets wait; {reason}"
    return dg.RunRequest(tags={"lakehouse/topic": table.topic, "lakehouse/lag": str(plan.span)})


def _written(state: TopicState) -> str:
    """The ends as a cursor: only there to report a topic when it moved."""
    ends = {str(partition): end for partition, end in sorted(state.end.items())}
    return json.dumps({"source": state.source.text, "end": ends})


def _moved(cursor: str | None, listed: Listed, state: TopicState) -> list[dg.AssetMaterialization]:
    written = _written(state)
    if cursor == written:
        return []
    positions = [
        dg.TableRecord({"partition": partition, "earliest": state.earliest[partition], "end": end})
        for partition, end in sorted(state.end.items())
    ]
    event = dg.AssetMaterialization(
        listed.key(listed.topic),
        description=f"Topic {listed.table.topic} has moved.",
        metadata={
            "offsets": dg.MetadataValue.table(positions, schema=_POSITIONS),
            "positions": sum(end - state.earliest[partition] for partition, end in state.end.items()),
            **state.ids,
        },
        tags={DATA_VERSION: hashlib.sha256(written.encode()).hexdigest()[:12]},
    )
    return [event]
