"""Rows that are ordered by offset alone are not mixed with those of a topic whose offsets restarted. No Spark."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse.errors import DataLossError, DeclarationError
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.kafka import Incarnation, create_topic, publish, read_topic
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.positions import SourceId
from lakehouse.operations import repair
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.storage.table_context import TableContext, merged_ledger
from lakehouse_tests.helpers.brokers.clients import delete_before
from lakehouse_tests.helpers.brokers.streams import record, unique_table
from lakehouse_tests.helpers.tables.tables import redeclare

NO_SPARK: Any = None


@pytest.fixture
def table(settings):
    """A table with a topic of five records in its first partition."""
    table = redeclare(unique_table(), order="offset", partitions=1)
    create_topic(settings, table)
    publish(settings, table, [record()] * 5)
    return table


@pytest.fixture
def settings(broker, tmp_path):
    return Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker))


def other_topic(current: SourceId, topic_id: str) -> SourceId:
    """Another topic of the same cluster."""
    return replace(Incarnation.of(current), topic_id=topic_id).source


def write_merged_table(settings: Settings, name: str, offset: int, source: SourceId, **commit_fields: Any) -> None:
    """Write a merged table whose commit records this progress and the other fields."""
    uri = settings.table_uri(name)
    write_deltalake(uri, pa.table({"id": [1]}))
    progress = {"source": source, "progress": {0: offset}}
    commit = Commit(kind="batch", number=1, attempt="a", table_version=0, **progress, **commit_fields).model_dump_json()
    properties = CommitProperties(custom_metadata={"userMetadata": commit})
    merge = DeltaTable(uri).merge(pa.table({"id": [1]}), "s.id = t.id", "s", "t", commit_properties=properties)
    merge.when_matched_update_all().execute()


@pytest.mark.invariant("9.8")
@pytest.mark.parametrize("case", ["a recreated topic", "a broker rolled back"])
def test_a_gap_before_offsets_that_restart_cannot_be_accepted(settings, table, case):
    current = read_topic(settings, table.topic).source
    is_recreated = case == "a recreated topic"
    source = other_topic(current, "before") if is_recreated else current
    write_merged_table(settings, table.name, 3 if is_recreated else 9, source)
    with pytest.raises(DataLossError, match=r'Declare order="timestamp" first') as refusal:
        repair.propose_gap(settings, table)
    assert "repair gap" not in str(refusal.value)
    by_time = redeclare(table, order="timestamp")
    assert repair.propose_gap(settings, by_time).positions == {0: 0}, (
        "each row has its broker time in addition to its offset"
    )


@pytest.mark.invariant("9.8")
@pytest.mark.parametrize("operation", [merge_all, replay, redrive])
def test_no_operation_merges_by_offset_alone_into_rows_of_a_deleted_topic(settings, table, operation):
    """It is refused before Spark is used and before anything is written."""
    current = read_topic(settings, table.topic).source
    write_merged_table(settings, table.name, 2, current, reached={other_topic(current, "before").text: {0: 900}})
    with pytest.raises(DeclarationError, match="a deleted topic"):
        operation(TableContext(NO_SPARK, settings, table))
    assert [folder.name for folder in Path(settings.tables_root).glob("[!.]*")] == [table.name]


def test_progress_that_a_restore_removed_from_a_table_with_a_key_is_not_carried_on(settings, table):
    removed_source = other_topic(read_topic(settings, table.topic).source, "wrong")
    write_merged_table(settings, table.name, 500, removed_source)
    uri = settings.table_uri(table.name)
    DeltaTable(uri).restore(0)
    assert read_ledger(uri, table.name).next_commit("batch", "").reached == {removed_source.text: {0: 500}}
    assert merged_ledger(settings, table).next_commit("batch", "").reached == {}


@pytest.mark.invariant("9.8")
def test_expired_records_can_be_accepted(settings, table):
    write_merged_table(settings, table.name, 1, read_topic(settings, table.topic).source)
    delete_before(settings, table.topic, {0: 4})
    assert repair.propose_gap(settings, table).positions == {0: 4}
