"""A redrive stores why records are still rejected under the current declaration."""

from dataclasses import replace

import pytest

from lakehouse.declaration import Time
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import redrive
from lakehouse.ingest.outcomes import Outcome
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.tables.rejected import list_rejections, rejected_version, wider


@pytest.fixture
def stream(spark, broker):
    """Two records above the declared range, one of them older than a valid record of its key, and a broken record."""
    stream = Stream.create(spark, broker)
    hot_records = [record(time=hour(0), temperature_2m=80.0), record(time=hour(1), temperature_2m=81.0)]
    stream.send_and_merge(*hot_records, b"{", record(time=hour(1), temperature_2m=1.0))
    return stream


def run_redrive(stream: Stream, reason: str | None = None) -> list[Outcome]:
    """Redrive without a broker: the records are in the table."""
    settings_without_broker = stream.settings.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1"})
    return redrive.redrive(TableContext(stream.spark, settings_without_broker, stream.table), reason)


def table_versions(stream: Stream) -> tuple[int, int]:
    return stream.ledger.version, rejected_version(stream)


@pytest.mark.invariant("8.12")
def test_a_redrive_that_accepts_nothing_commits_nothing_but_stores_changed_reasons(stream):
    versions = version, version_of_rejected = table_versions(stream)
    assert run_redrive(stream) == []
    assert table_versions(stream) == versions

    year_column = replace(temperatures.record_columns[2], written=Time("%Y"))
    stream.table = replace(
        stream.table, columns=[*temperatures.record_columns[:2], year_column, temperatures.record_columns[3]]
    )
    assert run_redrive(stream, "out_of_range") == []
    assert list_rejections(stream, 0) == {"wrong_time_format": [1, 0], "truncated": [2]}
    assert stream.sql("SELECT DISTINCT number FROM {rejected}") == [(1,)]
    assert table_versions(stream) == (version + 1, version_of_rejected + 1)
    assert stream.ledger.newest.version == version, "a commit without rows records the declaration"

    stream.table = wider(stream).table
    assert run_redrive(stream, "truncated") == []
    assert list_rejections(stream, 0)["wrong_time_format"] == [1, 0]
