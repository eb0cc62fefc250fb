"""Whoever waits for the lock of a table is told which verb, or which run of Dagster, has it."""

import dagster as dg
import pytest

from lakehouse.cli import main
from lakehouse.defs.catalog_entries import Listed
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.specs import table_specs
from lakehouse.defs.steps import Done, Run, step_of
from lakehouse.errors import TableError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.storage import lock_holder


@pytest.fixture(autouse=True)
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_holder, "_work", {"what": ""})


def test_a_verb_of_the_command_line_is_named() -> None:
    main.run(["topics", "nothing-of-this-name"])
    assert lock_holder._work == {"what": "lakehouse topics"}


def test_a_step_of_dagster_is_named_by_its_run() -> None:
    def work(_: Run) -> Done:
        raise TableError("This is far enough", where="here", action="Go on.")

    listed = Listed(temperatures)
    step = step_of(listed, work, table_specs(listed)[:1])
    ended = dg.materialize([step], resources={"lakehouse": LakehouseResource()}, raise_on_error=False)
    assert not ended.success
    assert lock_holder._work == {"what": f"run {ended.run_id[:8]} of Dagster"}
