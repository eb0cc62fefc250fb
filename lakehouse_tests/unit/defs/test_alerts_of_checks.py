"""The sensor of alerts sends each failure and each recovery of a check once."""

from datetime import UTC, datetime

import dagster as dg
import pytest

from lakehouse_tests.helpers.alert_world import CHECK, FAILED, FAILURE, MERGED, PASSED, World
from lakehouse_tests.helpers.receivers import Receiver


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
    run_id = watched.create_run("verify_temperatures")
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
    first_id, second_id = (watched.create_run("verify_temperatures") for _ in range(2))
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
    run_id = watched.create_run("verify_temperatures")
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
