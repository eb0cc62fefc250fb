"""The results of checks stay current: Dagster shows none that is older than the newest materialization of its asset."""

import asyncio

import dagster as dg
import pytest
from dagster._core.loader import LoadingContextForTest

from lakehouse.defs.alerts import check_subjects
from lakehouse.defs.checks import StandingResults

ORDERS = dg.AssetKey("orders")
NIGHTLY, OF_TICK = dg.AssetCheckKey(ORDERS, "keys_unique"), dg.AssetCheckKey(ORDERS, "records_fresh")


def evaluate(instance: dg.DagsterInstance, key: dg.AssetCheckKey, *, passed: bool = True) -> None:
    metadata = {"table_version": 7} if key is NIGHTLY else {}
    evaluation = dg.AssetCheckEvaluation(ORDERS, key.name, passed, metadata, description="Holds: a fact.")
    instance.report_runless_asset_event(evaluation)


def materialize(instance: dg.DagsterInstance) -> None:
    @dg.asset
    def orders() -> None: ...

    assert dg.materialize([orders], instance=instance).success


def current_result(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> tuple[bool, str] | None:
    """What Dagster shows of a check, as of the newest materialization; ``None`` if it shows no result."""
    record = instance.get_latest_asset_check_evaluation_record(key)
    assert record
    if not asyncio.run(record.targets_latest_materialization(LoadingContextForTest(instance))):
        return None
    assert isinstance(record.evaluation, dg.AssetCheckEvaluation)
    return record.evaluation.passed, record.evaluation.description or ""


@pytest.mark.parametrize("passed", [True, False])
def test_a_result_stays_current_after_each_materialization_and_names_its_version(
    instance: dg.DagsterInstance, passed: bool
) -> None:
    results = StandingResults([NIGHTLY, OF_TICK])
    evaluate(instance, NIGHTLY, passed=passed)
    evaluate(instance, OF_TICK, passed=passed)
    for _ in range(2):
        materialize(instance)
        assert current_result(instance, NIGHTLY) is None
        results.repeat(instance)
        nightly = current_result(instance, NIGHTLY)
        assert nightly
        assert nightly[0] is passed
        assert nightly[1].startswith("At version 7, 20")
        assert nightly[1].endswith(" UTC: Holds: a fact.")
        assert nightly[1].count("UTC") == 1
        assert current_result(instance, OF_TICK) == (passed, "Holds: a fact.")


def test_a_result_is_repeated_once_for_each_materialization(instance: dg.DagsterInstance) -> None:
    results = StandingResults([NIGHTLY])
    materialize(instance)
    results.repeat(instance)  # a check that was never evaluated
    evaluate(instance, NIGHTLY)
    for count in (2, 3):
        materialize(instance)
        for _ in range(2):
            results.repeat(instance)
            StandingResults([NIGHTLY]).repeat(instance)  # as after a restart of Dagster
        history = instance.event_log_storage.get_asset_check_execution_history(NIGHTLY, limit=10)
        assert len(history) == count


def test_a_repeated_failure_is_not_another_one_for_alerts(instance: dg.DagsterInstance) -> None:
    evaluate(instance, NIGHTLY, passed=False)
    for _ in range(2):
        materialize(instance)
        StandingResults([NIGHTLY]).repeat(instance)
    history = instance.event_log_storage.get_asset_check_execution_history(NIGHTLY, limit=10)
    (subject,) = check_subjects({"orders:keys_unique": history})
    assert (len(history), len(subject.failure_ids)) == (3, 1)
