"""The checks of what a declaration promises: ``fresh``, how long a record waits, and ``max_lag``, how many wait.

The tick of the sensor measures and reports them whenever their result changes. They do not need a run: they fail if no
run succeeds or if the broker is silent, and they pass on a quiet topic.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs.ended_runs import run_location
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.specs import CatalogEntry
from lakehouse.defs.steps import check_result, report_if_changed
from lakehouse.defs.waiting import SensorCursor, Waiting, plan_waiting_records, read_cursor
from lakehouse.errors import LakehouseError
from lakehouse.ledger.audit import Finding, finding
from lakehouse.settings import Settings

HELD_CHECK = "nothing_held_back"
_PATIENCE = 600.0  # seconds in which files settle, and transactions end
_FACT = "no file or record is left out, or held back for longer than ten minutes"
FRESH = "records_fresh"
LAG = "lag_within_limit"


def can_hold(entry: CatalogEntry) -> bool:
    """Whether the source of a table may have something that no batch can read."""
    return entry.table.has_topics or entry.table.reads_files


def report_held(
    instance: dg.DagsterInstance, entry: CatalogEntry, waiting: Waiting, cursor: SensorCursor, now: float
) -> None:
    """Report whether something is held back, if that changed; ``cursor`` is from the newest tick."""
    if can_hold(entry):
        report_if_changed(instance, _finding(waiting, cursor, now), entry.merged_key)


def held_checks(entry: CatalogEntry) -> list[dg.AssetChecksDefinition]:
    """The same check on request in the UI; none if the source of the table can hold nothing back."""
    key, noun = entry.merged_key, entry.table.position_noun
    doc = (
        f"Each {noun} of {entry.table.topic_text} can be read. The check fails if files cannot be read, and if files or"
        " records are held back for longer than ten minutes: by a file that changes all the time, or by an open"
        " transaction. The sensor also reports this check whenever its result changes."
    )

    @dg.asset_check(name=HELD_CHECK, asset=key, description=entry.check_doc(HELD_CHECK, doc))
    def check(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        with explained():
            waiting = plan_waiting_records(lakehouse.settings, entry.table)
        cursor = read_cursor(context.instance, entry.sensor, run_location(context.run))
        return check_result(_finding(waiting, cursor, time.time()), key)

    return [check] if can_hold(entry) else []


def _finding(waiting: Waiting, cursor: SensorCursor, now: float) -> Finding:
    return finding(HELD_CHECK, list(_problems(waiting, cursor, now)), _FACT)


def _problems(waiting: Waiting, cursor: SensorCursor, now: float) -> Iterator[str]:
    for part in waiting.held_parts:
        since = cursor.held_since(part, now)
        if not part.passes or now - since > _PATIENCE:
            yield f"{part.text}, since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M} UTC."


def report_lag(instance: dg.DagsterInstance, entry: CatalogEntry, lag: int | None) -> None:
    """Report whether at most the declared number of offsets waits, if that changed; ``None`` if it is unknown."""
    if entry.table.promise.max_lag is not None:
        report_if_changed(instance, _lag_finding(entry.table, lag), entry.merged_key)


def report_freshness(instance: dg.DagsterInstance, entry: CatalogEntry, cursor: SensorCursor, now: float) -> None:
    """Report whether no record waits longer than declared, if that changed; ``cursor`` is from the newest tick."""
    if entry.table.promise.fresh is not None:
        report_if_changed(instance, _fresh_finding(entry.table, cursor, now), entry.merged_key)


def promise_checks(entry: CatalogEntry) -> list[dg.AssetChecksDefinition]:
    """The same checks on request in the UI; none if the declaration promises nothing.

    ``records_fresh`` is computed from what the sensor remembers, because only the sensor knows since when records wait.
    """
    table, key = entry.table, entry.merged_key
    specs = [entry.check_spec(name, table.name, doc) for name, doc in _docs(table).items()]
    if not specs:
        return []

    @dg.multi_asset_check(name=f"{table.name}_promises", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> Iterator[dg.AssetCheckResult]:
        names = {check_key.name for check_key in context.selected_asset_check_keys}
        if FRESH in names:
            cursor = read_cursor(context.instance, entry.sensor, run_location(context.run))
            yield check_result(_fresh_finding(table, cursor, time.time()), key)
        if LAG in names:
            yield check_result(_lag_finding(table, _find_lag(lakehouse.settings, table)), key)

    return [check]


def _find_lag(settings: Settings, table: StreamTable) -> int | None:
    """The offsets to merge, also those that are held back; ``None`` if no batch can be planned now."""
    try:
        waiting = plan_waiting_records(settings, table)
        return waiting.span + waiting.held_count
    except LakehouseError:
        return None


def _docs(table: StreamTable) -> dict[str, str]:
    docs = {}
    if table.promise.fresh is not None:
        docs[FRESH] = (
            f"No record of {table.topic_text} waits longer than {table.promise.fresh} to be merged. The sensor"
            " measures from when it first saw a record. It fails if runs fail or are too slow, if the broker does not"
            " answer, and if records are held back."
        )
    if table.promise.max_lag is not None:
        docs[LAG] = f"At most {table.promise.max_lag:,} {table.position_noun}s of {table.topic_text} wait to be merged."
    return docs


def _lag_finding(table: StreamTable, lag: int | None) -> Finding:
    if lag is None:
        return Finding(LAG, False, "The lag is unknown: no batch can be planned. See the last tick of the sensor.")
    return Finding(
        LAG,
        lag <= (table.promise.max_lag or 0),
        f"Offsets to merge: {lag:,}; declared max_lag: {table.promise.max_lag:,}.",
    )


def _fresh_finding(table: StreamTable, cursor: SensorCursor, now: float) -> Finding:
    limit = table.promise.fresh.total_seconds() if table.promise.fresh else 0
    oldest = min((sighting.at for sighting in cursor.sightings), default=now)
    held_since = min(cursor.held_times.values(), default=now)
    if cursor.seen_at is None:
        text = f"No tick of the sensor has seen {table.topic_text} yet. See the sensor's last tick."
    elif now - oldest > limit:
        text = (
            f"Records wait since {_utc(oldest)}, longer than {table.promise.fresh}. See the runs of merge_{table.name}."
        )
    elif now - held_since > limit:
        time = _utc(held_since)
        text = f"What no batch can read waits since {time}, longer than {table.promise.fresh}. See {HELD_CHECK}."
    elif now - cursor.seen_at > limit:
        text = f"No tick of the sensor has seen {table.topic_text} since {_utc(cursor.seen_at)}. See its last tick."
    else:
        return Finding(FRESH, True, f"No record waits longer than {table.promise.fresh}.")
    return Finding(FRESH, False, text)


def _utc(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC"
