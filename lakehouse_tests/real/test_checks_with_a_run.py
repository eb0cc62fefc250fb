"""What a run touched is checked with it; the rest of the tables is not read for it, and is checked when asked."""

from collections.abc import Iterator

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import AccountingError
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.writers import one_more_row
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.checked import Checked

pytestmark = pytest.mark.invariant(7, 10)

PLACES = (1.0, 2.0)  # latitudes: two groups of the rollup
WITH_A_RUN = {"batches_accounted", "changes_kept", "touched_groups_stored"}


@pytest.fixture
def checked(spark: SparkSession, broker: Settings) -> Iterator[Checked]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Checked(Stream.create(spark, broker, base=None), instance)


@pytest.mark.slow
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

    one_more_row(monkeypatch)
    checked.send(PLACES[1], 2)
    touched = checked.run("merge")["touched_groups_stored"]
    assert not touched.passed
    assert "2.000000" in touched.description
    assert "1.000000" not in touched.description
    monkeypatch.undo()
    nothing = checked.run("merge")
    assert all(one.passed for one in nothing.values())
    assert "touched none" in nothing["touched_groups_stored"].description


@pytest.mark.slow
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
    assert "A key of the batch matches more than one row" in said
    assert not checked.run("verify")["keys_unique"].passed
