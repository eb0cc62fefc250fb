"""A batch that does not account for its records fails the check of its run, and not only the run."""

from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.errors import AccountingError
from lakehouse.ingest import batches
from lakehouse_tests.helpers.sensors import World

pytestmark = pytest.mark.invariant("7.5")

KEY = dg.AssetCheckKey(dg.AssetKey("temperatures"), "batches_accounted")
MESSAGE = "Batch 3 read 5 records but accounts for 4: 0 rejected, 0 superseded and 4 merged"


class NoSession(LakehouseResource):
    """A resource that never starts a session."""

    @property
    def spark_session(self) -> Any:
        raise AssertionError("a session is requested")

    def table_context(self, *_: object) -> Any:
        return SimpleNamespace()


def test_a_batch_that_does_not_add_up_fails_the_check_of_its_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_accounting_error(*_: object) -> None:
        raise AccountingError(MESSAGE)

    monkeypatch.setattr(batches, "merge_all", raise_accounting_error)
    defs = build_defs([world.table], {"lakehouse": NoSession.with_settings(world.settings)})
    job = defs.resolve_job_def("merge_temperatures")
    run = job.execute_in_process(instance=world.instance, raise_on_error=False)
    assert not run.success
    (failure,) = [event for event in run.all_events if event.is_step_failure]
    assert MESSAGE in failure.event_specific_data.user_failure_data.description
    check_record = world.instance.get_latest_asset_check_evaluation_record(KEY)
    assert check_record and check_record.evaluation, "no evaluation was reported"
    assert not check_record.evaluation.passed
    assert MESSAGE in check_record.evaluation.description
    assert check_record.run_id == run.run_id
