"""The sensor of alerts sends each failure and each recovery of a table and of a check once."""

import json
from datetime import UTC, datetime
from uuid import uuid4

import dagster as dg
import pytest

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.helpers.alert_world import (
    BUTTON_JOB,
    CANCELED,
    CHECK,
    FAILED,
    FAILURE,
    MERGE_JOB,
    MERGED,
    PASSED,
    SUCCESS,
    World,
    all_definitions,
)
from lakehouse_tests.helpers.receivers import Receiver


def test_each_table_has_a_sensor_that_is_off() -> None:
    sensor = all_definitions().get_repository_def().get_sensor_def("temperatures_alerts")
    assert sensor.default_status is dg.DefaultSensorStatus.STOPPED
    assert not sensor.targets


def test_without_a_url_nothing_is_sent_and_the_tick_says_so(world: World, receiver: Receiver) -> None:
    world.use()
    world.end_run(FAILURE)
    assert "LAKEHOUSE_ALERT_URL is not set" in world.tick()
    assert receiver.requests == 0
    world.use(alert_url=receiver.url)
    world.tick()
    assert receiver.states() == [("failed", MERGE_JOB)]


@pytest.mark.parametrize("job", [MERGE_JOB, "maintain_temperatures", "verify_temperatures"])
def test_a_failed_run_and_its_recovery_are_sent_once(watched: World, receiver: Receiver, job: str) -> None:
    for _ in range(2):
        watched.end_run(FAILURE, job)
        watched.tick()
    assert receiver.states() == [("failed", job)]
    for _ in range(2):
        watched.end_run(SUCCESS, job)
        watched.tick()
    assert receiver.states() == [("recovered", job)]
    assert watched.tick() == "No alert to send: nothing failed or recovered since the last tick."


def test_an_alert_of_a_run_has_its_error(watched: World, receiver: Receiver) -> None:
    started_at = datetime.now(UTC)
    run_id = watched.merge_without_broker()
    watched.tick()
    (alert,) = receiver.take()
    assert started_at.replace(microsecond=0) <= datetime.fromisoformat(alert.pop("at")) <= datetime.now(UTC)
    assert "lakehouse up broker" in alert.pop("detail")
    identity = {"table": "temperatures", "subject": MERGE_JOB, "kind": "run", "run_id": run_id}
    assert alert == {"state": "failed", "severity": "ERROR", **identity}


def test_an_alert_of_a_run_that_ended_before_its_steps_has_the_reason(watched: World, receiver: Receiver) -> None:
    run = watched.instance.create_run_for_job(watched.defs.resolve_job_def(MERGE_JOB), run_id=str(uuid4()))
    watched.instance.report_run_failed(run, "Process 7 ended.")
    watched.tick()
    (alert,) = receiver.take()
    assert (alert["detail"], alert["run_id"]) == ("Process 7 ended.", run.run_id)


def test_a_failure_before_the_first_tick_is_sent_only_if_it_is_not_over(world: World, receiver: Receiver) -> None:
    world.end_run(FAILURE, "verify_temperatures")
    world.end_run(SUCCESS, "verify_temperatures")
    world.end_run(FAILURE)
    world.evaluate(FAILED)
    for _ in range(2):
        world.tick()
    assert receiver.states() == [("failed", MERGE_JOB), ("failed", CHECK)]


def test_a_failure_that_is_over_before_the_tick_is_sent_with_its_recovery(watched: World, receiver: Receiver) -> None:
    for status, passed in ((FAILURE, FAILED), (SUCCESS, PASSED)):
        watched.end_run(status)
        watched.evaluate(passed)
    for _ in range(2):
        watched.tick()
    states = ("failed", "recovered")
    assert receiver.states() == [*((state, MERGE_JOB) for state in states), *((state, CHECK) for state in states)]


def test_a_canceled_run_is_neither_a_failure_nor_a_recovery(watched: World, receiver: Receiver) -> None:
    for status in (CANCELED, FAILURE, CANCELED):
        watched.end_run(status)
        watched.tick()
    assert receiver.states() == [("failed", MERGE_JOB)]


def test_a_failed_merge_is_over_when_all_its_tables_were_written_since(watched: World, receiver: Receiver) -> None:
    watched.end_run(FAILURE)
    tables = ("temperatures", "temperatures_rejected", *temperatures.derived)
    for name in tables:
        watched.tick()
        assert receiver.states() == ([("failed", MERGE_JOB)] if name == tables[0] else [])
        watched.instance.report_runless_asset_event(dg.AssetMaterialization(name))
    watched.tick()
    (alert,) = receiver.take()
    assert (alert["state"], alert["run_id"]) == ("recovered", None)


def test_a_failed_run_of_the_materialize_button_is_sent_if_it_writes_an_asset_of_the_table(
    watched: World, receiver: Receiver
) -> None:
    watched.end_run(FAILURE, BUTTON_JOB, "temperatures", "temperatures_rejected")
    watched.tick()
    assert receiver.states() == [("failed", "materialization of temperatures, temperatures_rejected")]
    watched.end_run(SUCCESS, BUTTON_JOB, "locations")
    watched.tick()
    assert receiver.states() == [], "other assets succeeded"
    watched.end_run(SUCCESS, BUTTON_JOB, "temperatures", "temperatures_rejected")
    watched.tick()
    assert receiver.states() == [("recovered", "materialization of temperatures, temperatures_rejected")]


def test_a_run_of_another_table_is_not_sent(watched: World, receiver: Receiver) -> None:
    @dg.asset
    def prices() -> None: ...

    job = dg.Definitions(assets=[prices]).resolve_implicit_global_asset_job_def()
    run = watched.instance.create_run_for_job(job, asset_selection=frozenset({prices.key}))
    watched.instance.report_run_failed(run, "It ended.")
    watched.tick()
    assert receiver.requests == 0


@pytest.mark.parametrize(
    ("job", "keys"), [(MERGE_JOB, ()), (BUTTON_JOB, ("temperatures", "temperatures_rejected"))], ids=["job", "button"]
)
def test_a_run_of_another_code_location_is_neither_a_failure_nor_a_recovery(
    watched: World, receiver: Receiver, job: str, keys: tuple[str, ...]
) -> None:
    watched.location = "ours"
    watched.end_run(FAILURE, job, *keys, location="another")
    watched.tick()
    assert receiver.requests == 0
    run_id = watched.end_run(FAILURE, job, *keys, location="ours")
    watched.end_run(SUCCESS, job, *keys, location="another")
    watched.tick()
    assert [(alert["state"], alert["run_id"]) for alert in receiver.take()] == [("failed", run_id)]
    run_id = watched.end_run(SUCCESS, job, *keys, location="ours")
    watched.tick()
    assert [(alert["state"], alert["run_id"]) for alert in receiver.take()] == [("recovered", run_id)]


def test_many_runs_of_another_code_location_do_not_hide_a_failure(watched: World, receiver: Receiver) -> None:
    watched.location = "ours"
    watched.end_run(FAILURE, location="ours")
    for _ in range(21):
        watched.end_run(SUCCESS, location="another")
    watched.tick()
    assert receiver.states() == [("failed", MERGE_JOB)]


def test_a_run_without_a_code_location_counts(watched: World, receiver: Receiver) -> None:
    watched.location = "ours"
    watched.end_run(SUCCESS, location="ours")
    watched.end_run(FAILURE)
    watched.end_run(SUCCESS, location="another")
    watched.tick()
    assert receiver.states() == [("failed", MERGE_JOB)]


def test_all_runs_count_for_a_sensor_without_a_code_location(watched: World, receiver: Receiver) -> None:
    watched.end_run(FAILURE, location="another")
    watched.tick()
    assert receiver.states() == [("failed", MERGE_JOB)]


def test_a_cursor_of_another_form_is_a_first_tick(world: World, receiver: Receiver) -> None:
    world.evaluate(FAILED)
    world.cursor = "another form"
    world.tick()
    assert receiver.states() == [("failed", CHECK)]
    assert json.loads(world.cursor or "")["failing"] == [CHECK]


def test_a_failed_check_and_its_recovery_are_sent_once(watched: World, receiver: Receiver) -> None:
    for passed, expected in ((PASSED, []), (FAILED, ["failed"]), (FAILED, []), (PASSED, ["recovered"]), (PASSED, [])):
        watched.evaluate(passed)
        watched.tick()
        assert receiver.states() == [(state, CHECK) for state in expected]


def test_an_alert_of_a_check_has_its_severity_and_the_start_of_its_description(
    watched: World, receiver: Receiver
) -> None:
    watched.evaluate(FAILED, "x" * 501, severity=dg.AssetCheckSeverity.WARN)
    watched.tick()
    (alert,) = receiver.take()
    assert (alert["kind"], alert["severity"], alert["detail"]) == ("check", "WARN", "x" * 500)
    assert alert["run_id"] is None


def test_a_planned_evaluation_does_not_count(watched: World, receiver: Receiver) -> None:
    watched.evaluate(FAILED)
    watched.tick()
    assert receiver.states() == [("failed", CHECK)]
    watched.end_run(FAILURE, "verify_temperatures")
    key = dg.AssetCheckKey(MERGED, "keys_unique")
    record = watched.instance.get_latest_asset_check_evaluation_record(key)
    assert record and record.status.value == "PLANNED"
    watched.tick()
    assert receiver.states() == [("failed", "verify_temperatures")]
    watched.evaluate(PASSED)
    watched.tick()
    assert receiver.states() == [("recovered", CHECK)]


@pytest.mark.parametrize(("before", "after", "state"), [(PASSED, FAILED, "failed"), (FAILED, PASSED, "recovered")])
def test_an_evaluation_that_was_planned_at_the_last_tick_is_sent(
    watched: World, receiver: Receiver, before: bool, after: bool, state: str
) -> None:
    watched.evaluate(before)
    run_id = watched.plan_checks()
    watched.tick()
    receiver.take()
    watched.evaluate_in(run_id, after)
    watched.tick()
    (alert,) = receiver.take()
    assert (alert["state"], alert["subject"], alert["run_id"]) == (state, CHECK, run_id)


def test_a_planned_evaluation_that_fails_is_sent_although_a_newer_one_passed(
    watched: World, receiver: Receiver
) -> None:
    """Two runs plan the check before a tick. The first one reports a failure, the second one passes."""
    first_id, second_id = (watched.plan_checks() for _ in range(2))
    watched.tick()
    watched.evaluate_in(first_id, FAILED)
    watched.evaluate_in(second_id, PASSED)
    watched.tick()
    sent = [(alert["state"], alert["subject"], alert["run_id"]) for alert in receiver.take()]
    assert sent == [("failed", CHECK, first_id), ("recovered", CHECK, second_id)]
    watched.tick()
    assert receiver.states() == []


def test_an_evaluation_that_fails_after_a_newer_one_was_seen_to_pass_is_sent(
    watched: World, receiver: Receiver
) -> None:
    run_id = watched.plan_checks()
    watched.evaluate(PASSED)
    for _ in range(2):
        watched.tick()
    assert receiver.requests == 0
    watched.evaluate_in(run_id, FAILED)
    watched.tick()
    assert receiver.states() == [("failed", CHECK), ("recovered", CHECK)]


def test_a_check_of_a_user_on_a_table_is_watched(watched: World, receiver: Receiver) -> None:
    @dg.asset_check(asset=MERGED)
    def own() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    watched.defs = dg.Definitions.merge(watched.defs, dg.Definitions(asset_checks=[own]))
    watched.instance.report_runless_asset_event(dg.AssetCheckEvaluation(MERGED, "own", passed=False))
    watched.tick()
    assert receiver.states() == [("failed", "temperatures:own")]


def test_an_alert_has_the_time_of_the_first_failure_in_a_row(world: World, receiver: Receiver) -> None:
    for passed in (FAILED, PASSED, FAILED, FAILED, FAILED):
        world.evaluate(passed)
    world.tick()
    key = dg.AssetCheckKey(MERGED, "keys_unique")
    records = world.instance.event_log_storage.get_asset_check_execution_history(key, limit=3)
    began_at = datetime.fromtimestamp(records[-1].event.timestamp, UTC)
    assert receiver.take()[0]["at"] == f"{began_at:%Y-%m-%dT%H:%M:%SZ}"
