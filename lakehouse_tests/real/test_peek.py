"""``lakehouse peek``: the end of a topic, as it is and as what would become of it. No Spark."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer

from lakehouse.cli import main
from lakehouse.discovery import _declared_in
from lakehouse.errors import TopicError
from lakehouse.kafka import create_topic, newest_records
from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse_tests.helpers.brokers.clients import with_client

TABLE = """
from lakehouse import Column, StreamTable
columns = [Column("id", "INT", "", required=True), Column("price", "DECIMAL(5,2)", "", between=(0, 9))]
prices = StreamTable("prices", "{topic}", "", columns, ["id"], partitions=2)
"""


@pytest.fixture
def settings(broker: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a project with one table, whose topic is there and empty."""
    folder = tmp_path / f"lake_{uuid4().hex}"
    folder.mkdir()
    (folder / "prices.py").write_text(TABLE.replace("{topic}", f"prices-{uuid4().hex}"))
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", str(folder))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers(broker))
    settings = Settings.load()
    create_topic(settings, declared(settings))
    return settings


def declared(settings: Settings) -> Any:
    from lakehouse.discovery import declared_tables

    return declared_tables(settings)[0]


def declare(settings: Settings, text: str) -> None:
    """Declare something else, as another process finds it."""
    folder = Path(settings.declarations or "")
    (folder / "prices.py").write_text(text)
    sys.modules.pop(f"{folder.name}.prices")
    _declared_in.cache_clear()


def send(settings: Settings, *values: bytes | None, partition: int = 0) -> None:
    async def sending(producer: AIOKafkaProducer) -> None:
        for value in values:
            await producer.send_and_wait(declared(settings).topic, value, b"key", partition)

    with_client(AIOKafkaProducer, settings, sending)


def peek(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main.run(["peek", *arguments, "--json"]) == main.DONE
    records: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["records"]
    return records


def test_the_newest_records_of_all_partitions_are_shown_with_what_becomes_of_each(settings, capsys) -> None:
    assert peek(capsys, "prices") == []
    send(settings, b'{"id": 1}', b'{"id": 2, "price": 3.455}', partition=1)
    send(settings, b'{"price": 1}', None, b'{"id": 3, "price": 10}')
    told = peek(capsys, "prices", "--limit", "4")
    assert [(each["partition"], each["offset"]) for each in told] == [(1, 1), (0, 0), (0, 1), (0, 2)]
    assert told[0]["row"] == {"id": 2, "price": "3.46"} and told[0]["reason"] is None
    assert [each["reason"] for each in told[1:]] == ["missing_field", "tombstone", "out_of_range"]
    assert [each["row"] for each in told[1:]] == [None, None, None]
    assert main.run(["peek", "prices"]) == main.DONE
    shown = " ".join(capsys.readouterr().out.split())
    assert "id = 1, price = NULL" in shown and "rejected, out_of_range: 'price' is '10'" in shown


def test_of_a_topic_that_no_table_reads_only_the_records_are_shown(settings, capsys) -> None:
    send(settings, b"\xff\x00 not text")
    topic = declared(settings).topic
    table_of_it, *_ = peek(capsys, topic)
    assert table_of_it["reason"] == "invalid_utf8", "the topic of a table is known by its own name"
    (record,) = newest_records(settings, topic, 1)
    assert record.value == b"\xff\x00 not text" and record.key == b"key"


def test_offsets_without_a_record_are_gone_behind(settings) -> None:
    """Of an aborted transaction nothing is seen, and its offsets and markers do not count as records."""
    topic = declared(settings).topic
    send(settings, *(b"%d" % n for n in range(5)))

    async def transact(producer: AIOKafkaProducer) -> None:
        for end in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
            await producer.begin_transaction()
            await asyncio.gather(*[await producer.send(topic, b"in it", partition=0) for _ in range(6)])
            await end()

    with_client(AIOKafkaProducer, settings, transact, transactional_id=topic)
    values = [each.value for each in newest_records(settings, topic, 8)]
    assert values == [b"3", b"4", *[b"in it"] * 6]
    assert len(newest_records(settings, topic, 100)) == 11


def test_a_topic_that_is_not_there_is_told(settings) -> None:
    with pytest.raises(TopicError, match="'nowhere' does not exist"):
        newest_records(settings, "nowhere", 1)


def test_a_first_declaration_is_written_from_what_a_topic_holds(settings, capsys) -> None:
    topic = declared(settings).topic
    send(settings, b'{"id": 1, "at": "2026-03-01T00:00:00Z"}', b"{", b'{"id": 2, "at": "2026-03-01T00:00:00Z"}')
    assert main.run(["new-table", "orders", "--from-topic", topic]) == main.DONE
    assert "from 3 records; 1 of them are not JSON objects" in " ".join(capsys.readouterr().out.split())
    written = (Path(settings.declarations) / "orders.py").read_text()
    assert f'topic="{topic}"' in written and 'key=["id"]' in written
    assert 'Column("at", "TIMESTAMP", doc="", required=True, pattern="%Y-%m-%dT%H:%M:%SZ")' in written


def test_a_project_without_a_declaration_peeks_at_any_topic(settings, capsys) -> None:
    send(settings, b"hello")
    topic = declared(settings).topic
    declare(settings, "")
    (record,) = peek(capsys, topic)
    assert record["value"] == "hello" and "row" not in record


def test_columns_that_only_a_merge_computes_are_named(settings, capsys) -> None:
    send(settings, b'{"id": 1}')
    computed = 'Column("dear", "BOOLEAN", "", sql="price > 5"), Column("id", '
    declare(settings, TABLE.replace('Column("id", ', computed).replace("{topic}", declared(settings).topic))
    assert main.run(["peek", "prices", "--json"]) == main.DONE
    told = capsys.readouterr()
    assert json.loads(told.out)["records"][0]["row"] == {"id": 1, "price": None}
    assert "Not shown, because only a merge computes them: dear." in " ".join(told.err.split())
