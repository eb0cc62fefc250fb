"""The checks of whole tables read one version of a table and give advice for any number of wrong rows."""

import re
import shutil

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import Check
from lakehouse.errors import restore_advice
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.operations import verify
from lakehouse.settings import Settings
from lakehouse.storage.stored_table import StoredTable
from lakehouse_tests.helpers.attacks.writers import one_more_row
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

MANY_ROWS = 7  # more than a failed check shows


@pytest.fixture(scope="module")
def stream(spark: SparkSession, broker: Settings) -> Stream:
    stream = Stream.create(spark, broker, base=None)
    stream.send_and_refresh(*(record(latitude=float(number), time=hour(0)) for number in range(MANY_ROWS)))
    return stream


@pytest.mark.parametrize(
    ("sql", "expected_detail"),
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
def test_a_declared_check_passes_or_explains_why_not(stream: Stream, sql: str, expected_detail: str) -> None:
    finding = verify.verify_rows(stream.context, Check("expected", sql, "What is expected."))
    assert finding.check == "expected"
    assert finding.passed == expected_detail.startswith("Holds")
    assert re.search(expected_detail, finding.detail), finding.detail


def test_a_refresh_between_ledger_and_rows_does_not_fail_the_check(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_table_ledger = StoredTable.ledger

    def read_then_refresh(stored_table: StoredTable) -> Ledger:
        ledger = read_table_ledger(stored_table)
        monkeypatch.undo()
        stream.send_and_refresh(record(latitude=1.0, time=hour(1)))
        return ledger

    monkeypatch.setattr(StoredTable, "ledger", read_then_refresh)
    finding = verify.verify_rollup(stream.context, stream.table.rollups[0])
    assert finding.passed, finding.detail


@pytest.mark.slow
def test_the_touched_groups_are_read_as_the_run_committed_them(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    (rollup,) = stream.table.rollups
    _, result = stream.send_and_refresh(record(latitude=2.0, time=hour(1)))
    stream.sql("UPDATE {rollup} SET `rows` = 7 WHERE latitude = 2")
    assert verify.verify_touched(stream.context, rollup, result).passed
    finding = verify.verify_rollup(stream.context, rollup)
    assert "2.000000, 77.600006, 2023-01-01 differs" in finding.detail

    one_more_row(monkeypatch)
    _, result = stream.send_and_refresh(record(latitude=3.0, time=hour(1)))
    touched_finding = verify.verify_touched(stream.context, rollup, result)
    assert not touched_finding.passed
    assert touched_finding.check == "touched_groups_stored"
    assert "3.000000" in touched_finding.detail
    assert "2.000000" not in touched_finding.detail, "the run did not touch it"


@pytest.mark.slow
def test_the_advice_is_given_for_any_number_of_wrong_rows(stream: Stream) -> None:
    (rollup,) = stream.table.rollups
    uri = stream.settings.table_uri(rollup.name)
    shutil.rmtree(uri)
    stream.refresh()
    version = read_ledger(uri, rollup.name).version
    stream.sql("UPDATE {rollup} SET `rows` = 99")
    finding = verify.verify_rollup(stream.context, rollup)
    assert finding.detail.count(" differs.") == 5
    assert finding.detail.endswith(restore_advice(uri))
    assert "no record is lost" in finding.detail
    stream.sql(f"RESTORE TABLE {{rollup}} TO VERSION AS OF {version}")
    assert verify.verify_rollup(stream.context, rollup).passed, "as advised"
    stream.sql("UPDATE {rollup} SET `rows` = 99")
    shutil.rmtree(uri)
    stream.refresh()
    assert verify.verify_rollup(stream.context, rollup).passed, "as advised"
