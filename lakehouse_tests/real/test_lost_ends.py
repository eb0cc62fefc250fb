"""A topic that lost the records at its end and has grown beyond the progress again. A real broker, no Spark."""

from typing import Any

import pytest

from lakehouse.declaration import StreamTable
from lakehouse.errors import DataLossError
from lakehouse.ingest.batches import plan_next
from lakehouse.kafka import create_topic, publish
from lakehouse.ledger.ledger import read_ledger
from lakehouse.operations import repair
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.brokers.streams import hour, record, unique_table
from lakehouse_tests.helpers.tables.merged_topics import last_record, write_merged_table

RECORDS = [record(time=hour(number)) for number in range(10)]


@pytest.fixture
def settings(broker: Settings, tmp_path: Any) -> Settings:
    return Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker))


@pytest.fixture
def table(settings: Settings) -> StreamTable:
    """A table with a topic of ten records in one partition."""
    table = unique_table(partitions=1)
    create_topic(settings, table)
    publish(settings, table, RECORDS)
    return table


@pytest.mark.invariant("9.1")
@pytest.mark.parametrize("change", [{"checksum": 1}, {"time": 1}])
def test_another_record_in_place_of_the_last_merged_one_is_a_gap(
    settings: Settings, table: StreamTable, change: dict[str, int]
) -> None:
    same_record, lost_record = (last_record(settings, table, position) for position in (2, 6))
    other_record = lost_record.model_copy(update=change)
    write_merged_table(settings, table, same_record, other_record)
    with pytest.raises(DataLossError, match=r"Partition 0 has lost records at its end, up to offset 6.*repair gap"):
        plan_next(settings, table)
    assert "lost records at its end" in (status(settings, table).loss or "")


@pytest.mark.invariant("9.1", "9.6")
def test_after_such_a_gap_every_record_that_is_not_known_to_be_merged_is_read(
    settings: Settings, table: StreamTable
) -> None:
    positions = (0, 1, 2, 4, 6)
    known_records = [last_record(settings, table, position) for position in positions]
    changed_records = [
        last.model_copy(update={"checksum": 1} if last.position in (4, 6) else {}) for last in known_records
    ]
    write_merged_table(settings, table, *changed_records)
    proposal = repair.propose_gap(settings, table)
    assert proposal and proposal.positions == {0: 3}
    (last,) = proposal.commit.last_records.values()
    assert last.with_fields(caught_up=None) == known_records[2], "records that are read again are ordered as before"
    with pytest.raises(DataLossError, match="repair gap"):
        repair.propose_gap(settings, table, only_deletes=True)


@pytest.mark.invariant("9.1", "9.6")
def test_records_that_an_earlier_gap_gave_up_do_not_hide_what_was_merged_since(
    settings: Settings, table: StreamTable
) -> None:
    known_records = [last_record(settings, table, position) for position in (1, 4, 5, 1, 7, 9)]
    lost_numbers = (1, 2, 5)  # the third one after the gap
    records = [
        last.model_copy(update={"checksum": 1} if number in lost_numbers else {})
        for number, last in enumerate(known_records)
    ]
    write_merged_table(settings, table, *records)
    proposal = repair.propose_gap(settings, table)
    assert proposal and proposal.positions == {0: 8}


def test_the_same_record_is_no_gap(settings: Settings, table: StreamTable) -> None:
    write_merged_table(settings, table, last_record(settings, table, 6))
    assert plan_next(settings, table).gap is None
    assert read_ledger(settings.table_uri(table.name), table.name).progress


def test_a_look_ahead_compares_only_partitions_with_new_records(settings: Settings, table: StreamTable) -> None:
    write_merged_table(settings, table, last_record(settings, table, 9).model_copy(update={"checksum": 1}))
    assert plan_next(settings, table).is_idle
    assert repair.propose_gap(settings, table), "a merge compares every partition"
