"""What a run touched is checked with it; the rest of the tables is not read for it, and is checked when asked."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.delta.audit import audit
from lakehouse.derive import rollup as rollups
from lakehouse.errors import AccountingError, LakehouseError
from lakehouse.settings import Settings
from lakehouse.upkeep.maintain import maintain
from lakehouse.upkeep.repair import propose_acceptance
from lakehouse.upkeep.repair import record as record_decision
from lakehouse_tests.helpers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant(7, 10)

PLACES = (1.0, 2.0)  # latitudes: two groups of the rollup
WITH_A_RUN = {"batches_accounted", "changes_kept", "touched_groups_stored"}


class Checked:
    """A table of its own and the jobs that Dagster makes of it."""

    def __init__(self, stream: Stream, instance: dg.DagsterInstance) -> None:
        self.stream = stream
        self.instance = instance
        resources = {"lakehouse": LakehouseResource.with_settings(stream.settings)}
        self.defs = build_defs([stream.table], resources)

    def run(self, job: str) -> dict[str, dg.AssetCheckEvaluation]:
        """Run a job of the table; what its checks found."""
        made = self.defs.resolve_job_def(f"{job}_{self.stream.table.name}")
        run = made.execute_in_process(instance=self.instance, raise_on_error=False)
        self.failures = [
            e.event_specific_data.user_failure_data.description for e in run.all_events if e.is_step_failure
        ]
        return {one.check_name: one for one in run.get_asset_check_evaluations()}

    def send(self, latitude: float, number: int, **more: Any) -> None:
        self.stream.send(record(latitude=latitude, time=hour(number), **more))

    def spoil(self, latitude: float) -> None:
        """Change a figure of a group by hand."""
        self.stream.sql(f"UPDATE {{rollup}} SET `rows` = 7 WHERE latitude = {latitude}")


@pytest.fixture
def checked(spark: SparkSession, broker: Settings) -> Iterator[Checked]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Checked(Stream.create(spark, broker, base=None), instance)


def test_a_run_checks_what_it_touched_and_leaves_the_rest_to_who_asks(
    checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    for latitude in PLACES:
        checked.send(latitude, 0)
    found = checked.run("merge")
    assert set(found) == {*WITH_A_RUN, "rejected_share", "producer_time"}
    assert all(one.passed for one in found.values())

    checked.spoil(PLACES[0])
    checked.send(PLACES[1], 1)
    assert all(one.passed for one in checked.run("merge").values())
    whole = checked.run("verify")
    assert [name for name, one in whole.items() if not one.passed] == ["rollup_equals_recomputation"]
    assert "1.000000" in whole["rollup_equals_recomputation"].description

    monkeypatch.setattr(rollups, "is_quick_to_merge", lambda *_: False)
    clauses = rollups._rollup_clauses
    one_more = ("t.`rows` = s.`rows`", "t.`rows` = s.`rows` + 1")
    monkeypatch.setattr(rollups, "_rollup_clauses", lambda rollup: clauses(rollup).replace(*one_more))
    checked.send(PLACES[1], 2)
    touched = checked.run("merge")["touched_groups_stored"]
    assert not touched.passed
    assert "2.000000" in touched.description
    assert "1.000000" not in touched.description
    monkeypatch.undo()
    nothing = checked.run("merge")
    assert all(one.passed for one in nothing.values())
    assert "touched none" in nothing["touched_groups_stored"].description


def test_a_touched_key_that_stands_twice_stops_the_run_without_a_check_of_its_own(checked: Checked) -> None:
    """The rows merged are counted where they met the table: a key that stands twice is counted twice."""
    checked.send(PLACES[0], 0)
    checked.run("merge")
    row = checked.stream.spark.read.format("delta").load(checked.stream.uri).localCheckpoint()
    row.write.format("delta").mode("append").save(checked.stream.uri)
    with pytest.raises(AccountingError, match="read 1 records but accounts for 0 rejected, 0 duplicate and 2 merged"):
        checked.stream.replay()
    checked.send(PLACES[0], 0)
    checked.run("merge")
    (said,) = checked.failures
    assert "A key of the batch stands in more than one row" in said
    assert not checked.run("verify")["keys_unique"].passed


def test_a_commit_that_does_not_add_up_fails_every_run_until_a_person_accepts_it(checked: Checked) -> None:
    checked.send(PLACES[0], 0)
    checked.run("merge")
    stream = checked.stream
    row = stream.spark.read.format("delta").load(stream.uri).localCheckpoint()
    row.write.format("delta").mode("append").save(stream.uri)
    with pytest.raises(AccountingError):
        stream.replay()
    wrong = stream.ledger.version
    stream.sql("DELETE FROM {t}")
    row.write.format("delta").mode("append").save(stream.uri)

    for number in (1, 2):
        checked.send(PLACES[1], number)
        told = checked.run("merge")["batches_accounted"]
        assert not told.passed
        assert f"Version {wrong}: 1 records read" in told.description
        assert f"lakehouse accept-difference {stream.table.name} --version {wrong}" in told.description
    assert not all(each.passed for each in audit(stream.ledger))
    maintain(stream.engine)
    assert stream.ledger.unaccounted == (wrong,)

    with pytest.raises(LakehouseError, match=f"Versions with a difference that nobody accepted: {wrong}"):
        propose_acceptance(stream.settings, stream.table, [wrong + 1], "a guess")
    rows = stream.temperatures()
    record_decision(stream.engine, propose_acceptance(stream.settings, stream.table, [wrong], "the key was doubled"))
    assert stream.temperatures() == rows
    assert checked.run("merge")["batches_accounted"].passed
    found = {each.check: each for each in audit(stream.ledger)}
    assert all(each.passed for each in found.values())
    assert "the key was doubled" in found["accounting_read"].detail
