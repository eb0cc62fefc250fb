"""A compacted topic that may have removed what was not merged yet. A real broker, no Spark."""

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from lakehouse.declaration import Column, Deletes, RecordKey, StreamTable, Tombstone, Topic
from lakehouse.errors import DataLossError, DeclarationError
from lakehouse.ingest.batches import plan_next
from lakehouse.ledger.commit_values import LastRecord
from lakehouse.operations import repair
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.streams import send
from lakehouse_tests.helpers.tables.merged_topics import write_merged_table
from lakehouse_tests.helpers.tables.tables import redeclare

KEPT, NOT_KEPT = timedelta(hours=1), timedelta(milliseconds=1)  # deletes in the topic
LONG_AGO, JUST_NOW = timedelta(hours=2), timedelta(0)


@pytest.fixture
def settings(broker: Settings, tmp_path: Any) -> Settings:
    return Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker))


def make_table(settings: Settings, deletes_kept: timedelta) -> StreamTable:
    """Return a table whose tombstones delete rows, with five records in its compacted topic."""
    name = f"t_{uuid4().hex[:12]}"
    configs = {
        "cleanup.policy": "compact,delete",
        "delete.retention.ms": str(deletes_kept // timedelta(milliseconds=1)),
        "message.timestamp.type": "LogAppendTime",
    }
    topic = NewTopic(name, 1, 1, topic_configs=configs)
    with_client(AIOKafkaAdminClient, settings, lambda admin: admin.create_topics([topic]))
    columns = [Column("id", "STRING", "Id.", source=RecordKey(), required=True), Column("amount", "INT", "Amount.")]
    table = StreamTable(
        name,
        source=Topic(name, partitions=1),
        doc="Amounts.",
        columns=columns,
        key=["id"],
        deletes=Deletes(when=Tombstone()),
    )
    send(settings, name, [b'{"amount": 1}'] * 5)
    return table


@pytest.fixture
def table(settings: Settings) -> StreamTable:
    """A table whose topic keeps deletes for an hour."""
    return make_table(settings, KEPT)


def merged_up_to(position: int, ago: timedelta) -> LastRecord:
    """The last record of a batch, after which the topic was last seen to end some time ago."""
    caught_up = time.time_ns() // 1000 - ago // timedelta(microseconds=1)
    return LastRecord(position=position - 1, caught_up=caught_up)


@pytest.mark.invariant("9.14")
def test_records_that_wait_for_longer_than_deletes_are_kept_stop_the_merge(
    settings: Settings,
) -> None:
    table = make_table(settings, NOT_KEPT)
    write_merged_table(settings, table, merged_up_to(2, LONG_AGO))
    with pytest.raises(
        DataLossError,
        match=r"Partition 0: records from offset 2 on .*delete\.retention\.ms.*repair missing-keys.*repair gap",
    ):
        plan_next(settings, table)
    by_offset = redeclare(table, order="offset")
    proposal = repair.propose_gap(settings, by_offset, only_deletes=True)
    assert proposal and proposal.positions == {0: 2}, "nothing that is there is left out"
    assert proposal.commit.last_records[0].caught_up, "what was lost until now is accepted"


@pytest.mark.invariant("9.14")
def test_an_idle_table_that_was_caught_up_does_not_stop(settings: Settings, table: StreamTable) -> None:
    write_merged_table(settings, table, merged_up_to(5, LONG_AGO))
    assert plan_next(settings, table).is_idle
    send(settings, table.topic, [b'{"amount": 2}'])
    assert plan_next(settings, table).gap is None, "the first record after the progress is there: nothing waited before"


@pytest.mark.invariant("9.14")
def test_records_that_wait_for_a_short_time_do_not_stop_the_merge(settings: Settings, table: StreamTable) -> None:
    write_merged_table(settings, table, merged_up_to(2, JUST_NOW))
    assert plan_next(settings, table).gap is None


@pytest.mark.invariant("9.14")
def test_a_table_without_tombstones_does_not_stop(settings: Settings) -> None:
    table = make_table(settings, NOT_KEPT)
    write_merged_table(settings, table, merged_up_to(2, LONG_AGO))
    assert plan_next(settings, replace(table, deletes=Deletes(when=None))).gap is None


@pytest.mark.invariant("9.14")
def test_kept_columns_of_a_compacted_topic_are_refused_unless_the_table_may_forget(
    settings: Settings, table: StreamTable
) -> None:
    kept_table = replace(table, columns=[table.record_columns[0], replace(table.record_columns[1], keep=True)])
    with pytest.raises(DeclarationError, match=r"amount of .* is kept.*min\.compaction\.lag\.ms.*may_forget=True"):
        plan_next(settings, kept_table)
    assert plan_next(settings, redeclare(kept_table, may_forget=True)).span == 5


@pytest.mark.invariant("9.14")
def test_old_records_do_not_stop_the_first_load(settings: Settings) -> None:
    table = make_table(settings, NOT_KEPT)
    write_merged_table(settings, table, LastRecord(position=1))
    assert plan_next(settings, table).gap is None, "nothing was read before, so nothing that is gone has a row"


@pytest.mark.invariant("9.14")
def test_such_a_loss_at_the_beginning_of_a_topic_is_accepted_once_by_a_person(settings: Settings) -> None:
    table = make_table(settings, NOT_KEPT)
    write_merged_table(settings, table, merged_up_to(0, LONG_AGO))
    proposal = repair.propose_gap(settings, redeclare(table, gaps="accept"))
    assert proposal and proposal.positions == {0: 0}
    assert (proposal.commit.last_records[0].caught_up or 0) > (merged_up_to(0, LONG_AGO).caught_up or 0)
    with pytest.raises(DataLossError):
        plan_next(settings, redeclare(table, gaps="accept"))
