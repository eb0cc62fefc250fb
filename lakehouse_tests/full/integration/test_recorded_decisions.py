"""A decision of a person is recorded as it was shown, and only if nothing was committed since."""

from dataclasses import replace

import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Column, StreamTable
from lakehouse.errors import ConflictError, DataLossError, LakehouseError
from lakehouse.ledger.positions import Range
from lakehouse.operations import repair
from lakehouse_tests.helpers.brokers.clients import delete_before
from lakehouse_tests.helpers.brokers.streams import Stream, clean_log, hour, record


@pytest.fixture
def stream(spark, broker):
    """One record is merged, five wait, and two of them are deleted."""
    stream = Stream.create(spark, broker)
    stream.send_and_merge(record(time=hour(0)))
    stream.send(*(record(time=hour(number)) for number in range(1, 6)))
    delete_before(stream.settings, stream.table.topic, {0: 3})
    return stream


def with_column(stream: Stream, name: str) -> StreamTable:
    """The stream's declaration with another column."""
    return replace(stream.table, columns=[*stream.table.columns, Column(name, "DOUBLE", doc="Declared later.")])


def column_names(stream: Stream) -> list[str]:
    """The columns of the merged table."""
    return [column.name for column in DeltaTable(stream.uri).schema().fields]


@pytest.mark.invariant("1.16", "9.6")
def test_a_gap_is_recorded_as_shown_even_if_more_records_expire_meanwhile(stream):
    proposal, second_proposal = (repair.propose_gap(stream.settings, stream.table) for _ in range(2))
    assert proposal and second_proposal
    delete_before(stream.settings, stream.table.topic, {0: 4})
    entry = repair.record(stream.context, proposal)
    assert (entry.commit.gap, entry.commit.progress) == ((Range(0, 1, 3),), {0: 3, 1: 0, 2: 0})
    with pytest.raises(DataLossError, match="records from 3 to 3"):
        stream.merge()
    with pytest.raises(ConflictError):
        repair.record(stream.context, second_proposal)
    assert stream.ledger.newest == entry


def test_a_column_declared_before_a_gap_is_accepted_is_added_after_it(stream):
    stream.table = with_column(stream, "humidity")
    stream.accept_gap()
    stream.merge()
    assert "humidity" in column_names(stream)


@pytest.mark.invariant("1.15", "1.16")
def test_a_progress_is_recorded_as_shown_and_the_ledger_names_the_recovery(stream):
    stream.accept_gap()
    stream.merge()
    with pytest.raises(LakehouseError, match="records its progress"):
        repair.propose_progress(stream.context)
    stream.sql("UPDATE {t} SET temperature_2m = 0")
    clean_log(stream.uri)
    stream.table = with_column(stream, "pressure")
    proposal = repair.propose_progress(stream.context)
    stream.send(record(time=hour(9)), partition=1)
    entry = repair.record(stream.context, proposal)
    assert (entry.commit.kind, entry.commit.progress) == ("recovery", proposal.positions)
    stream.merge()
    assert set(stream.temperatures()) == {hour(number) for number in (0, 3, 4, 5, 9)}
    assert "pressure" in column_names(stream)
    stream.assert_accounted()
