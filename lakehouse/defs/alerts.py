"""Alerts: a sensor that sends each failed run and each failed check of a table to a webhook, and each recovery.

The cursor of the sensor holds what the receiver accepted, which is not sent again. A failure that is over at a tick
is sent too, followed by its recovery.
"""

from collections.abc import Iterable, Sequence

import dagster as dg

from lakehouse.defs.alert_cursor import AlertCursor, State, first_cursor, parse_cursor
from lakehouse.defs.catalog_entries import CatalogEntry
from lakehouse.defs.check_histories import check_subjects, latest_records, planned_checks, read_histories
from lakehouse.defs.completions import Completion, Subject, read_error, read_runs
from lakehouse.defs.finished_runs import sensor_location
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.specs import table_specs
from lakehouse.defs.webhook import Alert, UndeliveredError, send
from lakehouse.settings import Settings

_TICK_INTERVAL = 30  # seconds
_MOST_ALERTS = 8  # per tick: each may take five seconds, and Dagster ends a tick after a minute
_MOST_CHARACTERS = 500  # of an error or a description
_IDLE = "No alert to send: nothing failed or recovered since the last tick."
_OFF = "No alert is sent: LAKEHOUSE_ALERT_URL is not set."


def build_alerts(entry: CatalogEntry) -> dg.Definitions:
    """Build the sensor that sends the alerts of a table. It is off until a person turns it on."""
    table = entry.table
    asset_keys = [*(spec.key for spec in table_specs(entry)), entry.key(entry.topic_name), entry.replayed_key]

    @dg.sensor(
        name=f"{table.name}_alerts",
        minimum_interval_seconds=_TICK_INTERVAL,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description=f"Sends failed runs and failed checks of {table.name}, and their recovery, to the webhook of the"
        " setting LAKEHOUSE_ALERT_URL. Off by default.",
    )
    def alert(context: dg.SensorEvaluationContext, lakehouse: LakehouseResource) -> dg.SensorResult:
        return _tick(context, lakehouse.settings, entry, asset_keys)

    return dg.Definitions(sensors=[alert])


def _tick(
    context: dg.SensorEvaluationContext, settings: Settings, entry: CatalogEntry, asset_keys: Sequence[dg.AssetKey]
) -> dg.SensorResult:
    """Send what failed or recovered since the last tick. The skip reason says how many alerts were sent."""
    if settings.alert_url is None:
        return dg.SensorResult(skip_reason=_OFF)
    instance, cursor = context.instance, parse_cursor(context.cursor)
    before = cursor or AlertCursor()
    latest = latest_records(instance, _check_keys(context.repository_def, asset_keys))
    histories = read_histories(instance, latest, before.newest_check_id, before.failing | before.planned_checks)
    subjects = [*read_runs(instance, entry, asset_keys, sensor_location(context)), *check_subjects(histories)]
    cursor = cursor or first_cursor(subjects)
    try:
        count = _send_changes(instance, settings, entry.table.name, subjects, cursor)
    except _UnsentError as error:
        return dg.SensorResult(skip_reason=str(error), cursor=cursor.model_dump_json())
    cursor.newest_check_id = max((record.id for record in latest.values()), default=-1)
    cursor.planned_checks = planned_checks(histories)
    reason = f"Alerts sent: {count}." if count else _IDLE
    return dg.SensorResult(skip_reason=reason, cursor=cursor.model_dump_json())


class _UnsentError(Exception):
    """The tick left alerts unsent. The message says how many it sent, and why it stopped."""


def _check_keys(
    repository: dg.RepositoryDefinition | None, asset_keys: Iterable[dg.AssetKey]
) -> list[dg.AssetCheckKey]:
    """The checks of these assets, also those that a user defines outside of ``build_defs``."""
    own_keys = set(asset_keys)
    check_keys = repository.asset_graph.asset_check_keys if repository else ()
    return sorted(key for key in check_keys if key.asset_key in own_keys)


def _send_changes(
    instance: dg.DagsterInstance, settings: Settings, table: str, subjects: Sequence[Subject], cursor: AlertCursor
) -> int:
    """Send what changed, record it in the cursor and return the number of alerts.

    Raises ``_UnsentError`` at the first alert that is not delivered: it and all others wait for the next tick.
    """
    count = 0
    for subject in subjects:
        for state, completion in cursor.changes(subject):
            try:
                if count == _MOST_ALERTS:
                    raise UndeliveredError(f"a tick sends at most {_MOST_ALERTS}")
                send(settings, _describe_change(instance, table, subject, state, completion))
            except UndeliveredError as error:
                raise _UnsentError(f"Alerts sent: {count}. Others wait for the next tick: {error}.") from None
            cursor.record(subject, state)
            count += 1
        cursor.failure_ids[subject.name] = subject.failure_ids
    return count


def _describe_change(
    instance: dg.DagsterInstance, table: str, subject: Subject, state: State, completion: Completion
) -> Alert:
    detail, began_at = completion.detail, completion.at
    if state == "failed":
        began_at = subject.streak(completion)[-1].at
        detail = detail or (read_error(instance, completion.run_id) if completion.run_id else "")
    return Alert(
        state=state,
        table=table,
        subject=subject.name,
        kind=subject.kind,
        severity=completion.severity,
        detail=_printable(detail.strip()[:_MOST_CHARACTERS]),
        run_id=completion.run_id,
        at=f"{began_at:%Y-%m-%dT%H:%M:%SZ}",
    )


def _printable(text: str) -> str:
    """The text without control characters and halves of characters, which a receiver may refuse."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)
