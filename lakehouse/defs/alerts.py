"""Alerts: a sensor that sends each failed run and each failed check of a table to a webhook.

The cursor of the sensor holds what the receiver accepted, which is not sent again. A failure that is over at a tick
is sent too, followed by its recovery.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import dropwhile
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import dagster as dg
import requests
from pydantic import BaseModel, ValidationError
from urllib3.exceptions import HTTPError

from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.runs import Completion, Subject, read_error, read_runs, sensor_location
from lakehouse.defs.specs import CatalogEntry, table_specs
from lakehouse.defs.steps import EVALUATED_AT
from lakehouse.errors.causes import in_time
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

_SECONDS = 5.0  # seconds for one delivery
_REFUSED_TEXTS = (400, 413, 422)  # the receiver does not accept what the alert says
_CLIENT_LOG = logging.getLogger("urllib3.connectionpool")
_SLACK_CODES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
State = Literal["failed", "recovered"]
_LIMIT = 20  # newest records to read of each check
LatestRecords: TypeAlias = "Mapping[dg.AssetCheckKey, AssetCheckExecutionRecord]"
Histories: TypeAlias = "Mapping[str, Sequence[AssetCheckExecutionRecord]]"
"""The newest records of checks, planned and evaluated, newest first, by the name of the check."""
_TICK_INTERVAL = 30  # seconds
_MOST_ALERTS = 8  # per tick: each may take five seconds, and Dagster ends a tick after a minute
_MOST_CHARACTERS = 500  # of an error or a description
_IDLE = "No alert to send: nothing failed or recovered since the last tick."
_OFF = "No alert is sent: LAKEHOUSE_ALERT_URL is not set."


class UndeliveredError(Exception):
    """The receiver did not accept an alert. The message says why, without the URL."""


@dataclass(frozen=True)
class Alert:
    """What is reported about a job or a check of a table.

    ``subject`` is a job, or ``asset:check``. ``detail`` is the error of the run or the description of the check. ``at``
    is a time in UTC: when the failure began, or when it was over. ``run_id`` is ``None`` if no run is behind it.
    """

    state: Literal["failed", "recovered"]
    table: str
    subject: str
    kind: Literal["run", "check"]
    severity: str
    detail: str
    run_id: str | None
    at: str

    def body(self, form: str) -> Mapping[str, Any]:
        """The JSON object to send, in the form ``json`` or ``slack``."""
        return asdict(self) if form == "json" else {"text": self._text().translate(_SLACK_CODES)}

    def _text(self) -> str:
        emoji, preposition = (":red_circle:", "since") if self.state == "failed" else (":large_green_circle:", "at")
        headline = f"{emoji} *{self.table}*: {self.kind} {self.subject} {self.state} {preposition} {self.at}"
        level = f" ({self.severity})" if self.state == "failed" else ""
        run = f"Run {self.run_id}" if self.run_id else ""
        return "\n".join(line for line in (headline + level, self.detail, run) if line)


def send(settings: Settings, alert: Alert) -> None:
    """Send one alert to the URL of the settings, once. ``UndeliveredError`` if the receiver does not accept it.

    No redirect is followed: another host must not get the request. If the receiver refuses the text, the alert is sent
    again without its detail. A receiver that answers too late may have got an alert that counts as undelivered.
    """
    if settings.alert_url is None:
        raise UndeliveredError("LAKEHOUSE_ALERT_URL is not set")
    url, body = settings.alert_url.get_secret_value(), alert.body(settings.alert_format)
    try:
        status = in_time(lambda: _post(url, body), _SECONDS)
    except (requests.exceptions.Timeout, TimeoutError):
        raise UndeliveredError(f"the receiver does not answer within {_SECONDS:.0f} seconds") from None
    except requests.exceptions.SSLError:
        raise UndeliveredError("the certificate of the receiver is not trusted") from None
    except (requests.exceptions.RequestException, HTTPError, OSError, ValueError) as error:
        # the texts of the client contain the URL
        raise UndeliveredError(f"the receiver cannot be reached{_system_message(error)}") from None
    if status in _REFUSED_TEXTS and alert.detail:
        send(settings, replace(alert, detail=""))
    elif not 200 <= status < 300:
        raise UndeliveredError(f"the receiver answers with {status}")


def _post(url: str, body: Mapping[str, Any]) -> int:
    with requests.Session() as session, _without_log():
        session.trust_env = False  # no proxy or password of this machine: only the settings count
        with session.post(url, json=body, timeout=_SECONDS, allow_redirects=False, stream=True) as answer:
            return answer.status_code


@contextmanager
def _without_log() -> Iterator[None]:
    """Drop what the client logs about requests of this thread: it logs their paths."""
    thread = get_ident()

    def is_of_another_thread(_: logging.LogRecord) -> bool:
        return get_ident() != thread

    _CLIENT_LOG.addFilter(is_of_another_thread)
    try:
        yield
    finally:
        _CLIENT_LOG.removeFilter(is_of_another_thread)


def _system_message(error: BaseException) -> str:
    """What the operating system reports, such as a refused connection; empty if the cause is another one."""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, OSError) and cause.strerror:
            return f": {cause.strerror}"
        cause = cause.__cause__ or cause.__context__
    return ""


class AlertCursor(BaseModel):
    """What the sensor sent: the failures that it has dealt with, by subject, and the subjects that failed at last.

    ``newest_check_id`` is the newest evaluation of a check up to which all alerts were sent; -1 before the first. Those
    of ``planned_checks`` are excepted: an evaluation of them was planned then, and is recorded under its old id.
    """

    newest_check_id: int = -1
    planned_checks: set[str] = set()
    failing: set[str] = set()
    failure_ids: dict[str, list[int]] = {}

    def changes(self, subject: Subject) -> Iterator[tuple[State, Completion]]:
        """What to send about a subject. The caller records each change that it sent before it asks for the next."""
        old_ids = self.failure_ids.get(subject.name, [])
        failures = (completion for completion in subject.completions if completion.is_failure)
        failure = next((completion for completion in failures if completion.id not in old_ids), None)
        if failure and subject.name not in self.failing:
            yield "failed", failure
        if not subject.is_failing and subject.name in self.failing:
            yield "recovered", subject.completions[0]

    def record(self, subject: Subject, state: State) -> None:
        """Record that this change of a subject was sent."""
        (self.failing.add if state == "failed" else self.failing.discard)(subject.name)


def parse_cursor(text: str | None) -> AlertCursor | None:
    """Parse the cursor; ``None`` before the first tick, and if a person replaced it by other text."""
    with suppress(ValidationError):
        return AlertCursor.model_validate_json(text or "")
    return None


def first_cursor(subjects: Iterable[Subject]) -> AlertCursor:
    """The cursor before the first tick: only open failures need an alert."""
    over = {subject.name: dropwhile(lambda c: c.is_failure, subject.completions) for subject in subjects}
    return AlertCursor(failure_ids={name: [c.id for c in rest if c.is_failure] for name, rest in over.items()})


def read_histories(
    instance: dg.DagsterInstance, latest: LatestRecords, newest_id: int, open_names: Collection[str]
) -> Histories:
    """Read the histories of checks that may have changed since the record ``newest_id``.

    Skips a check that is not in ``open_names``, if its latest record passed and is not newer.
    """
    names = {key: f"{key.asset_key.to_user_string()}:{key.name}" for key in latest}
    return {
        names[key]: instance.event_log_storage.get_asset_check_execution_history(key, _LIMIT)
        for key, record in latest.items()
        if record.id > newest_id or names[key] in open_names or not _has_passed(record)
    }


def check_subjects(histories: Histories) -> Iterator[Subject]:
    """The newest evaluations of each check; a planned evaluation does not count."""
    for name, records in histories.items():
        completions = list(_check_completions(records))
        if completions:
            yield Subject(name, "check", completions)


def planned_checks(histories: Histories) -> set[str]:
    """The names of checks with a planned evaluation, also below newer ones: its run may still report a failure."""
    return {name for name, records in histories.items() if any(_evaluation(record) is None for record in records)}


def _evaluation(record: "AssetCheckExecutionRecord") -> dg.AssetCheckEvaluation | None:
    evaluation: object = record.evaluation  # of another type if it is only planned
    return evaluation if isinstance(evaluation, dg.AssetCheckEvaluation) else None


def _has_passed(record: "AssetCheckExecutionRecord") -> bool:
    evaluation = _evaluation(record)
    return evaluation is not None and evaluation.passed


def _check_completions(records: "Iterable[AssetCheckExecutionRecord]") -> Iterator[Completion]:
    """The evaluations; a result that a sensor repeated after a materialization is not another failure."""
    for record in records:
        evaluation = _evaluation(record)
        if evaluation is not None and EVALUATED_AT not in evaluation.metadata:
            timestamp = record.event.timestamp if record.event else record.create_timestamp
            ended_at, run_id = datetime.fromtimestamp(timestamp, UTC), record.run_id or None
            severity, detail = evaluation.severity.value, evaluation.description or ""
            yield Completion(record.id, not evaluation.passed, ended_at, run_id, severity, detail)


def build_alerts(entry: CatalogEntry) -> dg.Definitions:
    """Build the sensor that sends the alerts of a table. It is off until a person turns it on."""
    table = entry.table
    own_topic = [entry.key(entry.topic_name)] if entry.has_own_topic else []
    asset_keys = [*(spec.key for spec in table_specs(entry)), *own_topic, entry.replayed_key]

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
    check_keys = _check_keys(context.repository_def, asset_keys)
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key(check_keys)
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
    # a receiver may refuse control characters and halves of characters
    characters = detail.strip()[:_MOST_CHARACTERS]
    text = "".join(char if char.isprintable() or char == "\n" else "?" for char in characters)
    return Alert(
        state=state,
        table=table,
        subject=subject.name,
        kind=subject.kind,
        severity=completion.severity,
        detail=text,
        run_id=completion.run_id,
        at=f"{began_at:%Y-%m-%dT%H:%M:%SZ}",
    )
