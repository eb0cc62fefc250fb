"""The lock of a table records which command or which Dagster run holds it, for those who wait for it."""

import dagster as dg
import pytest

from lakehouse.cli import main
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.specs import CatalogEntry, table_specs
from lakehouse.defs.steps import StepInput, StepResult, build_step
from lakehouse.errors import TableError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.storage import lock_holder


@pytest.fixture(autouse=True)
def without_work_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_holder, "_work", {"what": ""})


def test_a_command_is_recorded_by_its_name() -> None:
    main.run(["topics", "nothing-of-this-name"])
    assert lock_holder._work == {"what": "lakehouse topics"}


def test_a_step_of_dagster_is_recorded_by_its_run() -> None:
    def fail(_: StepInput) -> StepResult:
        raise TableError("The step ends here", where="here", action="Continue.")

    entry = CatalogEntry(temperatures)
    step = build_step(entry, fail, table_specs(entry)[:1])
    result = dg.materialize([step], resources={"lakehouse": LakehouseResource()}, raise_on_error=False)
    assert not result.success
    assert lock_holder._work == {"what": f"run {result.run_id[:8]} of Dagster"}
