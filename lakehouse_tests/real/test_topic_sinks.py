"""What a sink sends to a topic: each change once, in order, and the difference if changes cannot be continued."""

import asyncio
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.client import AIOKafkaClient
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.declaration import ChangesTopic, Sink
from lakehouse.errors import TableError
from lakehouse.kafka import PublishOptions, add_partitions, create_named_topic, delete_topic, publish_raw
from lakehouse.kafka.raw_records import RawRecord
from lakehouse.kafka.transactions import Marker, Step, progress_topic, read_contents, send_steps
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.sinks.delivery import SinkUpdate
from lakehouse.sinks.progress import sink_status, topic_facts
from lakehouse.sinks.topic import TopicDelivery, _Sending
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.pages import HOW_TO, run_examples
from lakehouse_tests.helpers.tables.delivered import BY_ID
from lakehouse_tests.helpers.tables.exported import append, day, delete, merge
from lakehouse_tests.helpers.tables.tables import redeclare


@dataclass(frozen=True)
class TopicTarget:
    """A topic of its own, and a sink that writes to it."""

    settings: Settings
    sink: Sink

    @property
    def delivery(self) -> TopicDelivery:
        return TopicDelivery(self.settings, self.sink, BY_ID)

    def update(self, *, whole: bool = False) -> SinkUpdate:
        return self.delivery.update(whole=whole)

    def records(self) -> list[tuple[str, float | None]]:
        """The id and the price of each committed record; no price for a deleted row."""
        records: list[Any] = []
        read_contents(self.settings, self.sink.to.name, records.extend)
        return [(json.loads(key)["id"], json.loads(value)["price"] if value else None) for key, value in records]

    def rows(self) -> dict[str, float | None]:
        """The newest record of each key."""
        rows: dict[str, Any] = {}
        records: list[Any] = []
        read_contents(self.settings, self.sink.to.name, records.extend)
        for key, value in records:
            rows.pop(key, None) if value is None else rows.update({key: json.loads(value)})
        return {row["id"]: row["price"] for row in rows.values()}

    def table_rows(self) -> dict[str, float | None]:
        rows = DeltaTable(self.settings.table_uri("sales")).to_pyarrow_table().to_pylist()
        return {row["id"]: row["price"] for row in rows}


@pytest.fixture
def target(broker: Settings, tmp_path: Path) -> TopicTarget:
    settings = Settings(home=tmp_path, sync=False, kafka_bootstrap_servers=bootstrap_servers(broker))
    append(settings, ("a", 1.0, day(1)), ("b", 2.0, day(2)), ("c", None, None))
    return TopicTarget(settings, Sink("sales_in_topic", of="sales", to=ChangesTopic(f"sales-{uuid4().hex}")))


@pytest.mark.invariant("10.14")
def test_each_change_is_sent_once_and_in_order(target: TopicTarget) -> None:
    update = target.update()
    assert (update.kind, update.rows, update.deleted, update.source_version) == ("whole", 3, 0, 0)
    assert sorted(target.records(), key=str) == [("a", 1.0), ("b", 2.0), ("c", None)]
    assert target.update().kind is None
    assert target.delivery.find_news() is None
    merge(target.settings, ("a", 1.5, day(1)), ("d", 4.0, day(3)))
    merge(target.settings, ("a", 1.75, day(5)))
    delete(target.settings, "id = 'b'")
    DeltaTable(target.settings.table_uri("sales")).optimize.compact()
    assert target.delivery.find_news() == "rows of sales may have changed"
    update = target.update()
    assert (update.kind, update.rows, update.deleted, update.source_version, update.lag) == ("changes", 3, 1, 3, 0)
    sent_records = target.records()[3:]
    assert [record for record in sent_records if record[0] == "a"] == [("a", 1.5), ("a", 1.75)]
    assert sent_records[-1] == ("b", None)
    assert target.rows() == target.table_rows()
    assert target.update().kind is None


def test_a_file_that_is_rewritten_sends_only_what_changed(target: TopicTarget) -> None:
    table = DeltaTable(target.settings.table_uri("sales"))
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    target.update()
    merge(target.settings, ("a", 1.5, day(1)))
    merge(target.settings, ("a", 1.5, day(1)))
    assert target.update().rows == 1
    assert target.records()[3:] == [("a", 1.5)]


def test_the_difference_is_sent_after_a_restore(target: TopicTarget) -> None:
    target.update()
    merge(target.settings, ("a", 1.5, day(1)), ("d", 4.0, day(3)))
    delete(target.settings, "id = 'b'")
    target.update()
    count = len(target.records())
    DeltaTable(target.settings.table_uri("sales")).restore(0)
    update = target.update()
    assert (update.kind, update.rows, update.deleted) == ("whole", 2, 1)
    assert sorted(target.records()[count:], key=str) == [("a", 1.0), ("b", 2.0), ("d", None)]
    assert target.rows() == target.table_rows()
    assert target.delivery.equals_table().passed


def test_a_topic_that_was_created_again_gets_every_row(target: TopicTarget) -> None:
    target.update()
    delete_topic(target.settings, target.sink.to.name)
    update = target.update()
    assert (update.kind, update.rows) == ("whole", 3)
    assert target.rows() == target.table_rows()


def test_other_columns_are_compared(target: TopicTarget) -> None:
    replace(target, sink=replace(target.sink, columns=["id", "price"])).update()
    assert target.update().rows == 3
    assert target.update().kind is None


def test_a_topic_with_records_of_others_is_refused(target: TopicTarget) -> None:
    create_named_topic(target.settings, target.sink.to.name, 1)
    publish_raw(target.settings, target.sink.to.name, [RawRecord(b"mine", b"x")], PublishOptions())
    with pytest.raises(TableError, match="has records that no sink sent. Choose another topic"):
        target.update()


def test_a_topic_of_another_sink_is_refused(target: TopicTarget) -> None:
    target.update()
    with pytest.raises(TableError, match="is written by the sink sales_in_topic"):
        replace(target, sink=replace(target.sink, name="rival")).update()


def test_records_that_are_missing_are_found_and_sent(target: TopicTarget) -> None:
    target.update()
    publish_raw(target.settings, target.sink.to.name, [RawRecord(None, b'{"id":"a"}')], PublishOptions())
    finding = target.delivery.equals_table()
    assert (finding.passed, "1 rows are missing" in finding.detail) == (False, True)
    assert target.update(whole=True).rows == 1
    assert target.delivery.equals_table().passed


@pytest.mark.invariant("10.14")
def test_a_table_follows_the_changes_of_another_one(target: TopicTarget, spark: SparkSession) -> None:
    """As the page says: the topic of a sink is the source of a table, also in another lakehouse."""
    page = (HOW_TO / "changes-topic.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__file__": "followed.py"}
    run_examples("changes-topic.md", re.findall(r"```python\n(.*?)```", page, re.DOTALL), names)
    target.update()
    followed = redeclare(names["followed"], name=f"f_{uuid4().hex[:12]}", topic=target.sink.to.name)
    follower = Stream(spark, target.settings, followed)
    follower.merge()
    merge(target.settings, ("a", 1.5, day(1)), ("d", 4.0, day(3)))
    delete(target.settings, "id = 'b'")
    target.update()
    follower.merge()
    rows = follower.context.merged.rows().select("id", "price").collect()
    assert {row.id: row.price for row in rows} == target.table_rows()


def test_records_are_read_from_the_first_one_also_if_the_broker_is_slow(
    target: TopicTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that finds its place late must not begin at the end of a partition."""
    sink = replace(target.sink, to=ChangesTopic(target.sink.to.name, partitions=4))
    target, send, rng = replace(target, sink=sink), AIOKafkaClient.send, random.Random(56)
    append(target.settings, *((f"s{number}", 1.0, None) for number in range(20)))
    target.update()

    async def send_late(*arguments: Any, **options: Any) -> Any:
        await asyncio.sleep(rng.uniform(0, 0.03))
        return await send(*arguments, **options)

    monkeypatch.setattr(AIOKafkaClient, "send", send_late)
    for _ in range(12):
        assert len(target.records()) == 23
        assert target.update(whole=True).rows == 0


def test_a_topic_with_more_partitions_than_before_is_refused(target: TopicTarget) -> None:
    target.update()
    add_partitions(target.settings, target.sink.to.name, 3)
    for whole in (False, True):
        with pytest.raises(TableError, match="has another number of partitions than before"):
            target.update(whole=whole)


def test_a_number_that_only_changes_its_sign_is_sent(target: TopicTarget) -> None:
    merge(target.settings, ("a", 0.0, None))
    target.update()
    merge(target.settings, ("a", -0.0, None))
    assert str(target.update().rows) == "1"
    assert str(target.rows()["a"]) == "-0.0"


def test_the_status_and_the_sensor_notice_that_a_topic_is_gone(target: TopicTarget) -> None:
    target.update()
    delete_topic(target.settings, target.sink.to.name)
    assert target.delivery.find_news() == "the topic was created again"
    state = sink_status(target.settings, target.sink, timedelta(days=7))
    assert (state.holds_vacuum, "is not the one that was sent to" in (state.problem or "")) == (True, True)


def test_a_record_without_a_key_is_named(target: TopicTarget) -> None:
    create_named_topic(target.settings, target.sink.to.name, 1)  # a compacted topic takes none
    target.update()
    publish_raw(target.settings, target.sink.to.name, [RawRecord(b"mine")], PublishOptions())
    with pytest.raises(TableError, match="has a record without a key, which no sink sent"):
        target.update(whole=True)


def test_what_is_erased_leaves_a_topic_whose_first_load_was_not_completed(target: TopicTarget) -> None:
    def fail(*_: object) -> Iterator[Any]:
        yield Step([RawRecord(b'{"id":"z","price":1.0}', b'{"id":"z"}')], lambda: sending._marker(None))
        raise RuntimeError("killed")

    sending = _Sending(target.delivery, topic_facts_of(target), "", None)
    sending.steps = fail  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        send_steps(target.settings, target.sink.to.name, sending)
    assert target.delivery.replace_versions()
    assert target.rows() == target.table_rows()


def test_an_erasure_sends_no_value_that_was_not_sent_before(target: TopicTarget) -> None:
    target.update()
    merge(target.settings, ("a", 99.0, day(1)), ("p", 98.0, day(3)))
    delete(target.settings, "id IN ('a', 'p')")
    assert target.delivery.replace_versions()
    assert target.records()[3:] == [("a", None)]
    assert target.rows() == target.table_rows()


def topic_facts_of(target: TopicTarget) -> Marker:
    name = target.sink.to.name
    for topic in (name, progress_topic(name)):
        create_named_topic(target.settings, topic, 1)
    return topic_facts(target.settings, name)
