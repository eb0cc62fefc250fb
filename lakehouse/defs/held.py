"""The check that nothing is held back: what the source has, and no batch can read.

These are files that cannot be read or never settle, the files behind them, and records behind an open transaction. The
tick of the sensor reports the check whenever its result changes.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg

from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.cursor import SensorCursor, read_cursor
from lakehouse.defs.finished_runs import run_location
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.results import check_result, report_if_changed
from lakehouse.defs.waiting import Waiting, plan_waiting_records
from lakehouse.ledger.audit import Finding, finding

HELD_CHECK = "nothing_held_back"
_PATIENCE = 600.0  # seconds in which files settle, and transactions end
_FACT = "no file or record is left out, or held back for longer than ten minutes"


def can_hold(entry: CatalogEntry) -> bool:
    """Whether the source of a table may have something that no batch can read."""
    return entry.table.source is None or entry.table.reads_files


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
