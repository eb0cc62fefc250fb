"""The checks of what a declaration promises: ``fresh``, how long a record waits, and ``max_lag``, how many wait.

The tick of the sensor measures and reports them whenever their result changes. They do not need a run: they fail if no
run succeeds or if the broker is silent, and they pass on a quiet topic.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg

from lakehouse.declaration import StreamTable
from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.cursor import SensorCursor
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.results import check_result, report_if_changed
from lakehouse.defs.waiting import look_ahead
from lakehouse.ledger.audit import Finding

FRESH = "records_fresh"
LAG = "lag_within_limit"


def report_lag(instance: dg.DagsterInstance, entry: CatalogEntry, lag: int) -> None:
    """Report whether at most the declared number of offsets waits, if that changed."""
    if entry.table.max_lag is not None:
        report_if_changed(instance, _lag_finding(entry.table, lag), entry.merged_key)


def report_freshness(instance: dg.DagsterInstance, entry: CatalogEntry, cursor: SensorCursor, now: float) -> None:
    """Report whether no record waits longer than declared, if that changed; ``cursor`` is from the newest tick."""
    if entry.table.fresh is not None:
        report_if_changed(instance, _fresh_finding(entry.table, cursor, now), entry.merged_key)


def promise_checks(entry: CatalogEntry) -> list[dg.AssetChecksDefinition]:
    """The same checks on request in the UI; none if the declaration promises nothing.

    On request, ``records_fresh`` passes if nothing waits. Otherwise it repeats the last result of the sensor, because
    only the sensor knows since when records wait.
    """
    table, key = entry.table, entry.merged_key
    specs = [dg.AssetCheckSpec(name, asset=key, description=doc) for name, doc in _docs(table).items()]
    if not specs:
        return []

    @dg.multi_asset_check(name=f"{table.name}_promises", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> Iterator[dg.AssetCheckResult]:
        with explained():
            _, plan = look_ahead(lakehouse.settings, table)
        for check_key in context.selected_asset_check_keys:
            is_lag = check_key.name == LAG
            finding = _lag_finding(table, plan.span) if is_lag else _repeated(context.instance, check_key, plan.span)
            yield check_result(finding, key)

    return [check]


def _docs(table: StreamTable) -> dict[str, str]:
    docs = {}
    if table.fresh is not None:
        docs[FRESH] = (
            f"No record of topic {table.topic} waits longer than {table.fresh} to be merged. The sensor measures from"
            " when it first saw a record. It fails if runs fail or are too slow, and if the broker does not answer."
        )
    if table.max_lag is not None:
        docs[LAG] = f"At most {table.max_lag:,} offsets of topic {table.topic} wait to be merged."
    return docs


def _lag_finding(table: StreamTable, lag: int) -> Finding:
    return Finding(LAG, lag <= (table.max_lag or 0), f"Offsets to merge: {lag:,}; declared max_lag: {table.max_lag:,}.")


def _fresh_finding(table: StreamTable, cursor: SensorCursor, now: float) -> Finding:
    limit = table.fresh.total_seconds() if table.fresh else 0
    oldest = min((sighting.at for sighting in cursor.sightings), default=now)
    seen_at = now if cursor.seen_at is None else cursor.seen_at
    if now - oldest > limit:
        text = f"Records wait since {_utc(oldest)}, longer than {table.fresh}. See the runs of merge_{table.name}."
    elif now - seen_at > limit:
        text = f"No tick of the sensor has seen topic {table.topic} since {_utc(seen_at)}. See the sensor's last tick."
    else:
        return Finding(FRESH, True, f"No record waits longer than {table.fresh}.")
    return Finding(FRESH, False, text)


def _repeated(instance: dg.DagsterInstance, key: dg.AssetCheckKey, lag: int) -> Finding:
    if not lag:
        return Finding(FRESH, True, "No record waits.")
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
    last = next((record.evaluation for record in records if record.evaluation), None)
    if last is None:
        return Finding(FRESH, True, f"Offsets to merge: {lag:,}. The sensor has not measured yet how long they wait.")
    return Finding(FRESH, last.passed, last.description or "")


def _utc(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC"
