"""The checks of whole tables look at one version of a table, and their advice is told however much is wrong."""

import re
import shutil

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Check
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.operations import verify
from lakehouse.settings import Settings
from lakehouse.storage.stored_table import StoredTable
from lakehouse_tests.helpers.attacks.writers import one_more_row
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant(10)

MANY = 7  # more than a failed check shows


@pytest.fixture(scope="module")
def stream(spark: SparkSession, broker: Settings) -> Stream:
    made = Stream.create(spark, broker, base=None)
    made.send(*(record(latitude=float(number), time=hour(0)) for number in range(MANY)))
    made.merge()
    made.refresh()
    return made


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("temperature_2m < 50", "Holds: temperature_2m < 50."),
        ("temperature_2m IS NOT NULL OR longitude IS NULL OR true", "Holds: "),
        ("latitude < 5 OR temperature_2m IS NULL", "Rows that do not pass: 2."),
        ("NULL", "Holds: NULL."),
        ("no_such_column > 1", "cannot be computed: .*no_such_column.*Correct the check in the declaration."),
        ("temperature_2m >", "cannot be computed: "),
        ("CAST('x' AS INT) > latitude", "cannot be computed: "),
        ("latitude < 50 -- degrees", "Holds: "),
        ("split('a', ' ')[5] = 'x'", "cannot be computed: "),
        ("CAST('x' AS BOOLEAN)", "cannot be computed: "),
        ("1 / (latitude - latitude) > 0", "cannot be computed: .*DIVIDE_BY_ZERO"),
    ],
)
def test_every_row_is_as_a_declared_check_expects_it_or_the_check_says_why_not(
    stream: Stream, sql: str, told: str
) -> None:
    found = verify.verify_rows(stream.context, Check("expected", sql, "What is expected."))
    assert found.check == "expected"
    assert found.passed == told.startswith("Holds")
    assert re.search(told, found.detail), found.detail


def test_a_refresh_between_ledger_and_rows_does_not_fail_the_check(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = StoredTable.ledger

    def read_then_refreshed(stored: StoredTable) -> Ledger:
        ledger = read(stored)
        monkeypatch.undo()
        stream.send(record(latitude=1.0, time=hour(1)))
        stream.merge()
        stream.refresh()
        return ledger

    monkeypatch.setattr(StoredTable, "ledger", read_then_refreshed)
    found = verify.verify_rollup(stream.context, stream.table.rollups[0])
    assert found.passed, found.detail


@pytest.mark.slow
def test_the_touched_groups_are_read_as_the_run_committed_them(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    (declared,) = stream.table.rollups
    stream.send(record(latitude=2.0, time=hour(1)))
    stream.merge()
    _, done = stream.refresh()
    stream.sql("UPDATE {rollup} SET `rows` = 7 WHERE latitude = 2")
    assert verify.verify_touched(stream.context, declared, done).passed
    found = verify.verify_rollup(stream.context, declared)
    assert "2.000000, 77.600006, 2023-01-01 differs" in found.detail

    one_more_row(monkeypatch)
    stream.send(record(latitude=3.0, time=hour(1)))
    stream.merge()
    _, done = stream.refresh()
    touched = verify.verify_touched(stream.context, declared, done)
    assert not touched.passed
    assert touched.check == "touched_groups_stored"
    assert "3.000000" in touched.detail
    assert "2.000000" not in touched.detail, "the run did not touch it"


@pytest.mark.slow
def test_the_advice_is_told_however_many_rows_are_wrong(stream: Stream) -> None:
    (declared,) = stream.table.rollups
    uri = stream.settings.table_uri(declared.name)
    shutil.rmtree(uri)
    stream.refresh()
    version = read_ledger(uri, declared.name).version
    stream.sql("UPDATE {rollup} SET `rows` = 99")
    found = verify.verify_rollup(stream.context, declared)
    assert found.detail.count(" differs.") == 5
    assert "RESTORE" in found.detail
    assert "no record is lost" in found.detail
    stream.sql(f"RESTORE TABLE {{rollup}} TO VERSION AS OF {version}")
    assert verify.verify_rollup(stream.context, declared).passed, "as advised"
    stream.sql("UPDATE {rollup} SET `rows` = 99")
    shutil.rmtree(uri)
    stream.refresh()
    assert verify.verify_rollup(stream.context, declared).passed, "as advised"
