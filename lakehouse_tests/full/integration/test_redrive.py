"""A redrive merges rejected records that the current declaration accepts, once, and marks them as resolved."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType

import pytest

from lakehouse.declaration import Time
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import batches, redrive
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ledger.ledger import read_ledger
from lakehouse.operations.rejections import list_rejected
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.tables.tables import column_of

WIDER_COLUMN = replace(column_of(temperatures, "temperature_2m"), between=(-100, 100))


@pytest.fixture
def stream(spark, broker):
    """Two records above the declared range, one of them older than a valid record of its key, and a broken record."""
    stream = Stream.create(spark, broker)
    hot_records = [record(time=hour(0), temperature_2m=80.0), record(time=hour(1), temperature_2m=81.0)]
    stream.send(*hot_records, b"{", record(time=hour(1), temperature_2m=1.0))
    stream.merge()
    return stream


def widen(stream: Stream) -> None:
    """Declare a wider range that accepts the hot records."""
    stream.table = replace(stream.table, columns=[*temperatures.columns[:3], WIDER_COLUMN])


def run_redrive(stream: Stream, reason: str | None = None) -> list[Outcome]:
    """Redrive without a broker: the records are in the table."""
    settings_without_broker = stream.settings.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1"})
    return redrive.redrive(TableContext(stream.spark, settings_without_broker, stream.table), reason)


@contextmanager
def interrupt_at(monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str) -> Iterator[None]:
    """Interrupt the batch at this step."""

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            yield


def list_offsets(stream: Stream, **options) -> dict[str, list[int]]:
    """The offsets of rejected records by reason, newest first."""
    groups = list_rejected(stream.settings, stream.table, **{"limit": 9} | options)
    return {group.reason: [sample.position for sample in group.samples] for group in groups}


def table_versions(stream: Stream) -> tuple[int, int]:
    rejected_name = stream.table.rejected_name
    return stream.ledger.version, read_ledger(stream.settings.table_uri(rejected_name), rejected_name).version


@pytest.mark.invariant("8.12")
def test_a_redrive_that_accepts_nothing_commits_nothing_but_stores_changed_reasons(stream):
    version, rejected_version = table_versions(stream)
    assert run_redrive(stream) == []
    assert table_versions(stream) == (version, rejected_version)

    year_column = replace(temperatures.record_columns[2], written=Time("%Y"))
    stream.table = replace(
        stream.table, columns=[*temperatures.record_columns[:2], year_column, temperatures.record_columns[3]]
    )
    assert run_redrive(stream, "out_of_range") == []
    assert list_offsets(stream) == {"wrong_time_format": [1, 0], "truncated": [2]}
    assert stream.sql("SELECT DISTINCT number FROM {rejected}") == [(1,)]
    assert table_versions(stream) == (version + 1, rejected_version + 1)
    assert stream.ledger.newest.version == version, "a commit without rows records the declaration"

    widen(stream)
    assert run_redrive(stream, "truncated") == []
    assert list_offsets(stream, reason="wrong_time_format") == {"wrong_time_format": [1, 0]}


@pytest.mark.invariant("8.3")
@pytest.mark.parametrize("retry", [run_redrive, Stream.replay])
def test_a_crash_before_the_commit_marks_nothing_as_resolved(stream, monkeypatch, retry: Callable[[Stream], object]):
    widen(stream)
    with interrupt_at(monkeypatch, batches, "merge_by_key"):
        retry(stream)
    assert list_offsets(stream)["out_of_range"] == [1, 0]
    run_redrive(stream)
    assert stream.temperatures() == {hour(0): 80.0, hour(1): 1.0}
