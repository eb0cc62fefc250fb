"""A batch whose counts do not add up raises an error with the sum, after its commit."""

from datetime import UTC, datetime

import pytest

from lakehouse.errors import AccountingError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.accounting import require_accounted
from lakehouse.ledger.commits import Commit, Entry, Metrics


def committed(metrics: Metrics) -> Entry:
    """Return a batch of 1,500 records, of which 2 were rejected and 10 were superseded."""
    commit = Commit(kind="batch", number=4, attempt="a", table_version=5, read=1500, rejected=2, superseded=10)
    return Entry(6, datetime(2026, 5, 1, tzinfo=UTC), commit, metrics)


@pytest.mark.parametrize(
    ("metrics", "problem"),
    [
        (
            Metrics(source_rows=1489, inserted=1489),
            "read 1,500 records but accounts for 1,501: 0 filtered, 2 rejected, 10 superseded and 1,489 merged",
        ),
        (Metrics(source_rows=1488, inserted=1488, updated=1), "merged 1,488 rows but wrote 1,489"),
    ],
)
def test_the_error_says_what_does_not_add_up_and_that_the_batch_is_committed(metrics: Metrics, problem: str) -> None:
    with pytest.raises(AccountingError) as failure:
        require_accounted(committed(metrics), temperatures.name)
    assert str(failure.value).startswith(f"Batch 4 {problem} (table temperatures, version 6). The batch is committed.")


def test_a_batch_that_adds_up_is_returned() -> None:
    entry = committed(Metrics(source_rows=1488, inserted=1000, updated=400))
    assert require_accounted(entry, temperatures.name) is entry
