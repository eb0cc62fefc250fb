"""A run checks only what it touched; the verify job reads and checks the whole tables."""

from collections.abc import Iterator

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import AccountingError
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.writers import one_more_row
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.checked import Checked

LATITUDES = (1.0, 2.0)  # two groups of the rollup
WITH_A_RUN = {"batches_accounted", "changes_kept", "touched_groups_stored"}


@pytest.fixture
def checked_table(spark: SparkSession, broker: Settings) -> Iterator[Checked]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Checked(Stream.create(spark, broker, base=None), instance)


@pytest.mark.slow
def test_a_run_checks_the_touched_groups_and_the_verify_job_checks_all(
    checked_table: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    for latitude in LATITUDES:
        checked_table.send(latitude, 0)
    results = checked_table.run("merge")
    assert set(results) == {*WITH_A_RUN, "rejected_share", "producer_time"}
    assert all(result.passed for result in results.values())

    checked_table.spoil(LATITUDES[0])
    checked_table.send(LATITUDES[1], 1)
    assert all(result.passed for result in checked_table.run("merge").values())
    verify_results = checked_table.run("verify")
    assert [name for name, result in verify_results.items() if not result.passed] == ["rollup_equals_recomputation"]
    assert "1.000000" in verify_results["rollup_equals_recomputation"].description

    one_more_row(monkeypatch)
    checked_table.send(LATITUDES[1], 2)
    touched_check = checked_table.run("merge")["touched_groups_stored"]
    assert not touched_check.passed
    assert "2.000000" in touched_check.description
    assert "1.000000" not in touched_check.description
    monkeypatch.undo()
    idle_results = checked_table.run("merge")
    assert all(result.passed for result in idle_results.values())
    assert "touched none" in idle_results["touched_groups_stored"].description


@pytest.mark.invariant("7.5", "7.8")
@pytest.mark.slow
def test_a_touched_duplicate_key_stops_the_run_without_a_separate_check(checked_table: Checked) -> None:
    """Merged rows are counted when they match the table: a duplicate key is counted twice."""
    checked_table.send(LATITUDES[0], 0)
    checked_table.run("merge")
    row = checked_table.stream.spark.read.format("delta").load(checked_table.stream.uri).localCheckpoint()
    row.write.format("delta").mode("append").save(checked_table.stream.uri)
    with pytest.raises(
        AccountingError, match="read 1 records but accounts for 2: 0 filtered, 0 rejected, 0 superseded and 2 merged"
    ):
        checked_table.stream.replay()
    checked_table.send(LATITUDES[0], 0)
    checked_table.run("merge")
    (message,) = checked_table.failures
    assert "A key of the batch matches more than one row" in message
    keys_check = checked_table.run("verify")["keys_unique"]
    assert (keys_check.passed, keys_check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "1.000000" in keys_check.description
