"""Where rows are ordered by offset alone, nobody steps into a topic whose offsets begin again. No Spark."""

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
from lakehouse.kafka import Incarnation, create_topic, look, publish
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.positions import SourceId
from lakehouse.operations import repair
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.storage.table_context import TableContext, merged_ledger
from lakehouse_tests.helpers.brokers.clients import delete_before
from lakehouse_tests.helpers.brokers.streams import record, unique_table

pytestmark = pytest.mark.invariant(4, 9)
NO_SPARK: Any = None


@pytest.fixture
def table(settings):
    """A table whose topic holds five records in its first partition."""
    table = replace(unique_table(), order="offset", partitions=1)
    create_topic(settings, table)
    publish(settings, table, [record()] * 5)
    return table


@pytest.fixture
def settings(broker, tmp_path):
    return Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker))


def former(here: SourceId, topic_id: str) -> SourceId:
    """Another topic of the same cluster."""
    return replace(Incarnation.of(here), topic_id=topic_id).source


def merged_up_to(settings: Settings, name: str, offset: int, source: SourceId, **more: Any) -> None:
    """The merged table of that name tells this progress, and more."""
    uri = settings.table_uri(name)
    write_deltalake(uri, pa.table({"id": [1]}))
    progress = {"source": source, "progress": {0: offset}}
    said = Commit(kind="batch", number=1, attempt="a", table_version=0, **progress, **more).model_dump_json()
    properties = CommitProperties(custom_metadata={"userMetadata": said})
    merge = DeltaTable(uri).merge(pa.table({"id": [1]}), "s.id = t.id", "s", "t", commit_properties=properties)
    merge.when_matched_update_all().execute()


@pytest.mark.parametrize("case", ["a topic made anew", "a broker rolled back"])
def test_a_gap_behind_which_offsets_begin_again_cannot_be_accepted(settings, table, case):
    here = look(settings, table.topic).source
    anew = case == "a topic made anew"
    merged_up_to(settings, table.name, 3 if anew else 9, former(here, "before") if anew else here)
    with pytest.raises(DataLossError, match=r'Declare order="timestamp" first') as refused:
        repair.propose_gap(settings, table)
    assert "accept-gap" not in str(refused.value)
    by_time = replace(table, order="timestamp")
    assert repair.propose_gap(settings, by_time).positions == {0: 0}, "each row has its broker time beside its offset"


@pytest.mark.parametrize("verb", [merge_all, replay, redrive])
def test_no_verb_merges_by_offsets_alone_beside_rows_of_a_topic_that_is_no_more(settings, table, verb):
    """Refused before Spark is asked for anything, or something is written."""
    here = look(settings, table.topic).source
    merged_up_to(settings, table.name, 2, here, reached={former(here, "before").text: {0: 900}})
    with pytest.raises(DeclarationError, match="a deleted topic"):
        verb(TableContext(NO_SPARK, settings, table))
    assert [folder.name for folder in Path(settings.tables_root).glob("[!.]*")] == [table.name]


def test_what_a_restore_took_out_of_a_table_with_a_key_is_carried_no_further(settings, table):
    wrong = former(look(settings, table.topic).source, "wrong")
    merged_up_to(settings, table.name, 500, wrong)
    uri = settings.table_uri(table.name)
    DeltaTable(uri).restore(0)
    assert read_ledger(uri, table.name).next_commit("batch", "").reached == {wrong.text: {0: 500}}
    assert merged_ledger(settings, table).next_commit("batch", "").reached == {}


def test_expired_records_can_be_accepted(settings, table):
    merged_up_to(settings, table.name, 1, look(settings, table.topic).source)
    delete_before(settings, table.topic, {0: 4})
    assert repair.propose_gap(settings, table).positions == {0: 4}
