"""The meaning of failures to read changes: only changes that are lost for good become a net difference."""

from contextlib import nullcontext
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from lakehouse.derived import feed
from lakehouse.derived.feed import Upstream, net_changes
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import Ledger
from lakehouse.settings import Settings
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.stored_table import StoredTable

OTHER_COLUMNS = PySparkException("[DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA] Retrieving table changes")
CALL = "\n\tat org.apache.spark.scheduler.Task.run(Task.scala:1)"
ABORTED = f"org.apache.spark.SparkException: Job aborted{CALL}"
GONE_MESSAGES = [
    "[DELTA_MISSING_CHANGE_DATA] Error getting change data for range [0 , 3]",
    f"{ABORTED}\nCaused by: java.io.FileNotFoundException: File file:/tables/t/_change_data/x.parquet does not exist",
    "java.io.FileNotFoundException: /tables/t/_change_data/x.parquet (No such file or directory)",
    "java.io.FileNotFoundException: /tables/t/_change_data/x.parquet (Datei oder Verzeichnis nicht gefunden)",
]
NOT_EXIST = "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///t/x. File does not exist."
PASSING = [
    "java.io.FileNotFoundException: /tables/t/_change_data/x.parquet (Permission denied)",
    "java.io.FileNotFoundException: /tmp/blockmgr-1/0c/temp_shuffle_x (Too many open files)",
    "java.io.FileNotFoundException: /tmp/blockmgr-77/11/rdd_5_0 (No such file or directory)",
    "java.io.FileNotFoundException: /tmp/blockmgr-1/0c/shuffle.index (No space left on device)",
    f"{NOT_EXIST}{CALL}\nCaused by: java.io.FileNotFoundException: /t/x (Too many open files)",
    f"{NOT_EXIST}{CALL}\nCaused by: java.net.SocketTimeoutException: Read timed out",
    "java.io.FileNotFoundException: /tables/t/_change_data/x.parquet (Stale file handle)",
]


def read(monkeypatch: pytest.MonkeyPatch, *failures: Exception) -> DataFrame | None:
    """Read the changes of two versions; each read fails with the next error."""
    errors = iter(failures)

    def fail(*_: object) -> None:
        raise next(errors)

    monkeypatch.setattr(feed, "_read_changes", fail)
    monkeypatch.setattr(feed, "session_settings", lambda *_: nullcontext())
    layout = merged_layout(temperatures, Settings())
    no_spark: Any = None
    ledger = Ledger(layout.uri, exists=True, table_id="id", version=3)
    consumption = Consumption(ledger, Consumed(table_id="id", version=1))
    return net_changes(Upstream(temperatures, StoredTable(no_spark, layout), ledger), consumption)


@pytest.mark.invariant("10.5")
@pytest.mark.parametrize("message", GONE_MESSAGES)
def test_lost_changes_become_a_net_difference(monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    assert read(monkeypatch, PySparkException(message)) is None
    assert read(monkeypatch, OTHER_COLUMNS, PySparkException(message)) is None


@pytest.mark.invariant("10.6")
@pytest.mark.parametrize("message", PASSING)
def test_a_temporary_failure_does_not_mean_that_changes_are_lost(monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    with pytest.raises(PySparkException):
        read(monkeypatch, PySparkException(message))


@pytest.mark.invariant("10.6")
@pytest.mark.parametrize("message", [*PASSING, "[INTERNAL_ERROR] Something else", "Job aborted: ExecutorLostFailure"])
def test_after_other_columns_no_further_failure_becomes_a_net_difference(
    monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    with pytest.raises(PySparkException):
        read(monkeypatch, OTHER_COLUMNS, PySparkException(message))


@pytest.mark.invariant("10.5")
@pytest.mark.parametrize(
    "error",
    [
        OTHER_COLUMNS,
        AnalysisException("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `v` cannot be resolved"),
        PySparkException("[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Expected INT, Found DOUBLE"),
    ],
)
def test_columns_that_were_missing_or_different_for_a_while_become_a_net_difference(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    assert read(monkeypatch, OTHER_COLUMNS, error) is None
