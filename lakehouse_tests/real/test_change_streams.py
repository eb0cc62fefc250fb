"""Change streams: the table equals its database, also if records are sent again, replayed or read from a snapshot."""

import json
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pyspark.sql import SparkSession

from lakehouse.cli.doctor import examine_topic
from lakehouse.declaration import Column, Debezium, Json, StreamTable, Topic
from lakehouse.errors import DeclarationError, LedgerError
from lakehouse.ingest import batches
from lakehouse.ingest.batches import plan_next
from lakehouse.kafka import create_topic, delete_topic
from lakehouse.operations.verify import verify_snapshot, verify_values
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.writers import by_spark
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.change_records import UNAVAILABLE, change
from lakehouse_tests.helpers.databases import recording, workload
from lakehouse_tests.helpers.documents import MONGODB, as_expected, orders, records_in
from lakehouse_tests.helpers.tables.rows import rows_of

COLUMNS = [
    Column("id", "BIGINT", "Number.", required=True),
    Column("note", "STRING", "Note."),
    Column("large", "STRING", "Text that is stored outside of the row.", keep=True, null_erases=True),
]
INCREMENTAL = {"snapshot": "incremental"}


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["by deltalake", "by Spark"])
def stream(request: pytest.FixtureRequest, spark: SparkSession, broker: Settings) -> Iterator[Stream]:
    name = f"t_{uuid4().hex[:12]}"
    table = StreamTable(name, source=Topic(name, partitions=1), doc="", columns=COLUMNS, key=["id"], format=Debezium())
    create_topic(broker, table)
    with by_spark(request.param):
        yield Stream(spark, broker, table)


def row(number: int, note: str | None = "x", large: str | None = "y") -> dict[str, Any]:
    return {"id": number, "note": note, "large": large}


def merge(stream: Stream, *values: bytes | None) -> dict[str, int]:
    """Merge values in one batch; return its counts."""
    (outcome,) = stream.send_and_merge(*values)
    stream.assert_accounted()
    deletes = {"deleted": outcome.entry.metrics.deleted, "without_row": outcome.entry.commit.deletes_without_row}
    return {name: count for name, count in (counts(outcome.entry) | deletes).items() if count}


def notes(stream: Stream) -> dict[int, str | None]:
    return {stored_row["id"]: stored_row["note"] for stored_row in rows_of(stream.settings, stream.table.name)}


@pytest.mark.slow
@pytest.mark.invariant("15.1")
def test_what_is_sent_again_changes_nothing(stream: Stream) -> None:
    changes = (change("c", 1, row(1, "a")), change("u", 2, row(1, "b")), change("d", 3, row(1)), None)
    assert merge(stream, *changes) == {"read": 4, "superseded": 3, "without_row": 1}
    assert merge(stream, change("c", 4, row(1, "c")), change("c", 5, row(2))) == {"read": 2, "inserted": 2}
    assert merge(stream, *changes) == {"read": 4, "superseded": 3, "stale": 1}
    assert merge(stream, None) == {"read": 1, "superseded": 1}
    assert notes(stream) == {1: "c", 2: "x"}
    assert merge(stream, change("d", 6, row(1)), None) == {"read": 2, "superseded": 1, "deleted": 1}
    assert notes(stream) == {2: "x"}


@pytest.mark.slow
@pytest.mark.invariant("15.2")
def test_a_change_after_a_snapshot_is_newer_even_if_its_position_is_smaller(stream: Stream) -> None:
    merge(stream, *(change("r", 100, row(number)) for number in (1, 2, 3)))
    assert merge(stream, change("u", 90, row(1, "late")), change("d", 91, row(2))) == {
        "read": 2,
        "updated": 1,
        "deleted": 1,
    }
    assert notes(stream) == {1: "late", 3: "x"}
    assert merge(stream, change("u", 92, row(1, "later")), change("u", 110, row(3, "new"))) == {"read": 2, "updated": 2}
    before = rows_of(stream.settings, stream.table.name)
    stream.replay()
    assert rows_of(stream.settings, stream.table.name) == before
    assert merge(stream, change("u", 105, row(3, "sent again"))) == {"read": 1, "stale": 1}


@pytest.mark.slow
@pytest.mark.invariant("15.2")
def test_a_second_snapshot_replaces_what_was_read_before_it(stream: Stream) -> None:
    merge(stream, change("r", 100, row(1)), change("u", 120, row(1, "a")), change("d", 130, row(2)))
    merge(stream, change("r", 200, row(1, "b")), change("r", 200, row(2, "back")))
    assert notes(stream) == {1: "b", 2: "back"}
    before = rows_of(stream.settings, stream.table.name)
    stream.replay()
    assert rows_of(stream.settings, stream.table.name) == before


@pytest.mark.slow
@pytest.mark.invariant("15.3")
def test_an_unavailable_value_keeps_what_is_stored_and_a_null_does_not(stream: Stream) -> None:
    merge(stream, change("c", 1, row(1, large="stored")))
    assert merge(stream, change("u", 2, row(1, "a", UNAVAILABLE))) == {"read": 1, "updated": 1}
    assert [stored_row["large"] for stored_row in rows_of(stream.settings, stream.table.name)] == ["stored"]
    merge(stream, change("u", 3, row(1, "b", None)))
    assert [stored_row["large"] for stored_row in rows_of(stream.settings, stream.table.name)] == [None]


@pytest.mark.slow
@pytest.mark.invariant("15.3")
def test_no_value_from_before_a_delete_returns_with_an_unavailable_one(stream: Stream) -> None:
    merge(stream, change("c", 1, row(1, large="deleted")))
    merge(stream, change("d", 2, row(1)), change("c", 3, row(1, large=None)))
    merge(stream, change("u", 4, row(1, "a", UNAVAILABLE)))
    assert [(s["note"], s["large"]) for s in rows_of(stream.settings, stream.table.name)] == [("a", None)]


@pytest.mark.slow
@pytest.mark.invariant("15.5")
def test_a_truncate_deletes_every_older_row_also_one_that_arrives_later(stream: Stream) -> None:
    merge(stream, change("c", 1, row(1)), change("c", 2, row(2)), change("c", 9, row(3)))
    assert merge(stream, change("t", 5, None), change("c", 6, row(4))) == {"read": 2, "superseded": 1, "inserted": 1}
    assert set(notes(stream)) == {3, 4}
    truncate = stream.ledger.entries[1]
    assert (truncate.commit.kind, truncate.metrics.deleted, truncate.stale) == ("truncate", 2, 0)
    assert merge(stream, change("u", 4, row(1)), change("u", 4, row(3))) == {"read": 2, "stale": 2}
    assert merge(stream, change("t", 5, None), change("c", 7, row(1))) == {"read": 2, "superseded": 1, "inserted": 1}
    before = rows_of(stream.settings, stream.table.name)
    stream.replay()
    assert rows_of(stream.settings, stream.table.name) == before


@pytest.mark.slow
@pytest.mark.invariant("15.5")
def test_a_truncate_remains_if_the_batch_that_read_it_died(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    merge(stream, change("c", 1, row(1)), change("c", 9, row(3)))
    stream.send(change("c", 2, row(2)), change("t", 5, None))

    class DiedError(Exception):
        pass

    def die(*_: Any, **__: Any) -> None:
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(batches, "store_rejected", die)
        with pytest.raises(DiedError):
            stream.merge()
    assert set(notes(stream)) == {3}
    (first, second) = stream.merge(max_records=1)
    assert (first.entry.stale, second.entry.commit.superseded) == (1, 1)
    assert set(notes(stream)) == {3}


@pytest.mark.invariant("15.6")
def test_a_compacted_topic_is_refused_before_anything_is_written(spark: SparkSession, broker: Settings) -> None:
    name = f"t_{uuid4().hex[:12]}"
    compacted = StreamTable(name, name, "", COLUMNS, ["id"], format=Debezium())
    topic_configs = {"cleanup.policy": "compact,delete"}
    new_topic = NewTopic(compacted.topic, 1, 1, topic_configs=topic_configs)
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.create_topics([new_topic]))
    stream = Stream(spark, broker, compacted)
    stream.send(change("c", 1, row(1)))
    with pytest.raises(DeclarationError, match=r"is compacted.*Set cleanup.policy=delete"):
        plan_next(broker, compacted)
    assert examine_topic(broker, compacted, [compacted.topic]).state == "broken"


@pytest.mark.slow
@pytest.mark.invariant("15.7")
def test_a_database_that_went_back_stops_the_merge(stream: Stream) -> None:
    merge(stream, change("r", 100, row(1)), change("u", 500, row(1)), change("r", 490, row(2), source=INCREMENTAL))
    before = stream.ledger.version
    stream.send(change("r", 200, row(1, "restored")))
    with pytest.raises(LedgerError, match=r"went back: partition 0 has a snapshot at position 200 after .* 500"):
        stream.merge()
    assert stream.ledger.version == before


@pytest.mark.slow
@pytest.mark.invariant("15.7")
def test_a_database_that_went_back_is_noticed_by_deleted_rows_and_a_person_may_accept_it(stream: Stream) -> None:
    merge(stream, change("c", 400, row(1)), change("d", 500, row(1)))
    stream.send(change("r", 200, row(2)))
    with pytest.raises(LedgerError, match=r"declare Debezium\(accepted_snapshot=200\)"):
        stream.merge()
    stream.table = replace(stream.table, format=Debezium(accepted_snapshot=200))
    stream.merge()
    assert notes(stream) == {2: "x"}
    stream.send(change("r", 200, row(3)), change("r", 40, row(4)))
    with pytest.raises(LedgerError, match="has a snapshot at position 40 after"):
        stream.merge()


def from_binlog(server: int, position: int, note: str, name: str = "binlog") -> bytes:
    """A change of row 1 as the connector for MySQL sends it."""
    place = {"connector": "mysql", "lsn": None, "file": f"{name}.000001", "pos": position, "server_id": server}
    return change("u", None, row(1, note), source=place)


@pytest.mark.slow
@pytest.mark.invariant("15.7")
def test_another_server_whose_positions_are_smaller_stops_the_merge(stream: Stream) -> None:
    merge(stream, from_binlog(1, 100, "a"), from_binlog(1, 500, "b"))
    merge(stream, from_binlog(1, 500, "b"), from_binlog(2, 501, "c"), from_binlog(1, 400, "sent again"))
    assert notes(stream) == {1: "c"}
    version = stream.ledger.version
    stream.send(from_binlog(3, 20, "lost"), from_binlog(3, 30, "also lost"))
    with pytest.raises(LedgerError, match=r"change of another server \(3\) at position 4294967316 after .* 4294967797"):
        stream.merge()
    assert stream.ledger.version == version
    stream.table = replace(stream.table, format=Debezium(accepted_snapshot=2**32 + 20))
    stream.merge()
    stream.table = replace(stream.table, format=Debezium())
    merge(stream, from_binlog(3, 40, "known by now"))
    stream.send(from_binlog(3, 35, "lost", name="mysql-bin"))
    with pytest.raises(LedgerError, match="went back"):
        stream.merge()


@pytest.mark.slow
@pytest.mark.invariant("15.7")
def test_another_server_within_a_batch_stops_the_merge(stream: Stream) -> None:
    stream.send(from_binlog(1, 500, "a"), from_binlog(2, 20, "lost"))
    with pytest.raises(LedgerError, match=r"another server \(2\)"):
        stream.merge()
    assert notes(stream) == {}


@pytest.mark.slow
@pytest.mark.invariant("15.2")
def test_offsets_of_another_topic_or_partition_decide_nothing(stream: Stream) -> None:
    merge(stream, *(change("c", number, row(number)) for number in (1, 2, 3)), change("d", 4, row(3)))
    delete_topic(stream.settings, stream.table.topic)
    create_topic(stream.settings, stream.table, partitions=2)
    stream.accept_gap()
    stream.send(change("r", 100, row(1, "snapshot")), change("r", 100, row(3, "back")))
    stream.send_and_merge(change("r", 100, row(2, "snapshot")), partition=1)
    assert notes(stream) == {1: "snapshot", 2: "snapshot", 3: "back"}
    stream.send(
        change("u", 110, row(3)), change("u", 120, row(1, "before it moved")), change("r", 200, row(2, "again"))
    )
    stream.send_and_merge(change("u", 130, row(1, "moved")), partition=1)
    assert notes(stream) == {1: "moved", 2: "again", 3: "x"}


@pytest.mark.slow
@pytest.mark.invariant("15.2")
def test_a_table_of_a_change_stream_cannot_get_another_format(stream: Stream) -> None:
    merge(stream, change("r", 1, row(1)))
    columns = [replace(column, keep=False, null_erases=False) for column in COLUMNS]
    with pytest.raises(DeclarationError, match="has rows of a change stream"):
        plan_next(stream.settings, replace(stream.table, format=Json(), columns=columns))


@pytest.mark.slow
@pytest.mark.invariant("15.7")
def test_a_database_that_went_back_within_a_batch_stops_the_merge(stream: Stream) -> None:
    stream.send(change("u", 500, row(1)), change("r", 500, row(1)), change("r", 200, row(2)))
    with pytest.raises(LedgerError, match="went back"):
        stream.merge()
    assert notes(stream) == {}


@pytest.mark.slow
@pytest.mark.invariant("15.8")
def test_a_check_names_the_rows_that_the_newest_snapshot_does_not_have(stream: Stream) -> None:
    last = {"snapshot": "last"}
    merge(stream, change("r", 100, row(1)), change("r", 100, row(2), source=last), change("c", 150, row(3)))
    assert verify_snapshot(stream.context).passed
    merge(stream, change("r", 300, row(3)))
    assert verify_snapshot(stream.context).passed, "the snapshot has not ended"
    merge(stream, change("r", 300, row(2), source=last), change("u", 290, row(4)))
    finding = verify_snapshot(stream.context)
    assert not finding.passed
    assert "Row 1. Rows that do not pass: 1." in finding.detail


@pytest.mark.slow
@pytest.mark.invariant("15.8")
def test_a_check_names_the_values_that_were_never_sent(stream: Stream) -> None:
    merge(stream, change("r", 1, row(1)), change("u", 2, row(1) | {"large": UNAVAILABLE}), change("u", 3, row(3)))
    assert verify_values(stream.context).passed
    merge(stream, change("u", 4, row(2) | {"large": UNAVAILABLE}))
    finding = verify_values(stream.context)
    assert not finding.passed
    assert "Row 2 has no value of large, because none was sent." in finding.detail


@pytest.mark.invariant("15.1", "15.3", "15.5")
def test_a_recorded_stream_gives_the_rows_that_its_database_had(spark: SparkSession, broker: Settings) -> None:
    """The database had 32 columns of every common type; the stream has a snapshot, changed keys and a truncate."""
    recorded = workload.declaration(recording.DATABASE)
    name = f"t_{uuid4().hex[:12]}"
    stream = Stream.of(spark, broker, replace(recorded, name=name, topic="", source=Topic(name), rollups=[]))
    recording.publish_recording(broker, name)
    _, expected_rows = recording.read_recording()
    outcomes = stream.merge()
    assert sum(outcome.entry.commit.rejected for outcome in outcomes) == 0
    recorded_names = list(next(iter(expected_rows.values())))
    assert stored_texts(stream, recorded_names) == expected_rows
    stream.assert_accounted()


def stored_texts(stream: Stream, names: list[str]) -> dict[str, dict[str, str]]:
    rows = [row.asDict() for row in stream.context.merged.rows().select(*names).collect()]
    return recording.as_texts({(r["shop"], r["id"]): {n: workload.comparable(v) for n, v in r.items()} for r in rows})


@pytest.mark.slow
@pytest.mark.invariant("15.1")
@pytest.mark.skipif(not MONGODB.is_dir(), reason=f"the changes of MongoDB are not at {MONGODB}")
def test_documents_of_mongodb_are_merged_and_sent_again(spark: SparkSession, broker: Settings) -> None:
    table = orders(f"t_{uuid4().hex[:12]}")
    create_topic(broker, table)
    stream = Stream(spark, broker, table)
    records = records_in(MONGODB)
    expected = json.loads((MONGODB / "expected.json").read_text())
    deleted_id = expected["deleted_keys"][0]
    for begin, end in ((0, 5), (5, 6), (6, 8), (8, 16), (16, 17), (17, 18)):
        for key, value in records[begin:end]:
            stream.send(value, key=key)
        stream.merge()
        stream.assert_accounted()
        ids = {stored_row["id"] for stored_row in rows_of(broker, table.name)}
        assert (deleted_id in ids) == (end < 7)
    rows = rows_of(broker, table.name)
    assert [as_expected(stored_row) for stored_row in sorted(rows, key=itemgetter("id"))] == sorted(
        expected["rows"], key=itemgetter("id")
    )
    stream.replay()
    assert rows_of(broker, table.name) == rows
