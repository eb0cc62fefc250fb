"""Rejected records that pass under today's declaration are merged by a redrive, once, and marked as resolved."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType

import pytest

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import batches, redrive
from lakehouse.ledger.ledger import read_ledger
from lakehouse.operations.rejections import list_rejected
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant(8)

WIDER = replace(temperatures.by_name["temperature_2m"], between=(-100, 100))


@pytest.fixture
def stream(spark, broker):
    """Two records too hot for the declaration, of which one is older than a good one of its key, and a broken one."""
    stream = Stream.create(spark, broker)
    hot = [record(time=hour(0), temperature_2m=80.0), record(time=hour(1), temperature_2m=81.0)]
    stream.send(*hot, b"{", record(time=hour(1), temperature_2m=1.0))
    stream.merge()
    return stream


def widen(stream: Stream) -> None:
    """Declare that what was too hot may enter."""
    stream.table = replace(stream.table, columns=[*temperatures.columns[:3], WIDER])


def redriven(stream: Stream, reason: str | None = None) -> list[batches.Outcome]:
    """Redrive where no broker answers: the records are in the table."""
    alone = stream.settings.model_copy(update={"kafka_bootstrap_servers": "127.0.0.1:1"})
    return redrive.redrive(TableContext(stream.spark, alone, stream.table), reason)


@contextmanager
def crashing(monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str) -> Iterator[None]:
    """The process ends where a batch comes to this step."""

    def crash(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, step, crash)
        with pytest.raises(KeyboardInterrupt):
            yield


def listed(stream: Stream, **options) -> dict[str, list[int]]:
    """The offsets that are listed as rejected, newest first, by reason."""
    found = list_rejected(stream.settings, stream.table, **{"limit": 9} | options)
    return {each.reason: [sample.position for sample in each.samples] for each in found}


def versions(stream: Stream) -> tuple[int, int]:
    rejected = stream.table.rejected_name
    return stream.ledger.version, read_ledger(stream.settings.table_uri(rejected), rejected).version


def resolved(stream: Stream) -> list[tuple[int, int]]:
    wanted = "SELECT position.position, resolved_number FROM {rejected} WHERE resolved_number IS NOT NULL ORDER BY 1"
    return stream.sql(wanted)


def test_where_nothing_passes_nothing_is_committed_but_reasons_that_are_others_now_are_stored(stream):
    version, rejected = versions(stream)
    assert redriven(stream) == []
    assert versions(stream) == (version, rejected)

    by_year = replace(temperatures.columns[2], pattern="%Y")
    stream.table = replace(stream.table, columns=[*temperatures.columns[:2], by_year, temperatures.columns[3]])
    assert redriven(stream, "out_of_range") == []
    assert listed(stream) == {"wrong_time_format": [1, 0], "truncated": [2]}
    assert stream.sql("SELECT DISTINCT number FROM {rejected}") == [(1,)]
    assert versions(stream) == (version + 1, rejected + 1)
    assert stream.ledger.newest.version == version, "what is declared now is noted in a commit without rows"

    widen(stream)
    assert redriven(stream, "truncated") == []
    assert listed(stream, reason="wrong_time_format") == {"wrong_time_format": [1, 0]}


@pytest.mark.parametrize("again", [redriven, Stream.replay])
def test_a_crash_before_the_commit_marks_nothing_as_resolved(stream, monkeypatch, again: Callable[[Stream], object]):
    widen(stream)
    with crashing(monkeypatch, batches, "merge_rows"):
        again(stream)
    assert listed(stream)["out_of_range"] == [1, 0]
    redriven(stream)
    assert stream.temperatures() == {hour(0): 80.0, hour(1): 1.0}
