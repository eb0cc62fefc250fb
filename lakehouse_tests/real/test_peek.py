"""``lakehouse peek``: the newest records of a topic, raw and as the rows they would become. No Spark."""

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
from lakehouse.kafka import create_topic, newest_records, read_topic
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.brokers.clients import with_client

TABLE = """
from lakehouse import Column, Computed, StreamTable, Topic
columns = [Column("id", "INT", "", required=True), Column("price", "DECIMAL(5,2)", "", between=(0, 9))]
prices = StreamTable("prices", source=Topic("{topic}", partitions=2), doc="", columns=columns, key=["id"])
"""


@pytest.fixture
def settings(broker: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a project with one table and its empty topic."""
    folder = tmp_path / f"lake_{uuid4().hex}"
    folder.mkdir()
    (folder / "prices.py").write_text(TABLE.replace("{topic}", f"prices-{uuid4().hex}"))
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", str(folder))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers(broker))
    settings = Settings.load()
    create_topic(settings, declared_table(settings))
    return settings


def declared_table(settings: Settings) -> Any:
    from lakehouse.discovery import declared_tables

    return declared_tables(settings)[0]


def declare(settings: Settings, text: str) -> None:
    """Replace the declaration, as a new process would read it."""
    folder = Path(settings.declarations or "")
    (folder / "prices.py").write_text(text)
    sys.modules.pop(f"{folder.name}.prices")
    _declared_in.cache_clear()


def send(settings: Settings, *values: bytes | None, partition: int = 0, compression: str | None = None) -> None:
    async def send_all(producer: AIOKafkaProducer) -> None:
        for value in values:
            await producer.send_and_wait(declared_table(settings).topic, value, b"key", partition)

    with_client(AIOKafkaProducer, settings, send_all, compression_type=compression)


def peek(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main.run(["peek", *arguments, "--json"]) == main.DONE
    records: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["records"]
    return records


def test_the_newest_records_of_all_partitions_are_shown_with_their_rows_or_reasons(settings, capsys) -> None:
    assert peek(capsys, "prices") == []
    send(settings, b'{"id": 1}', b'{"id": 2, "price": 3.455}', partition=1)
    send(settings, b'{"price": 1}', None, b'{"id": 3, "price": 10}')
    records = peek(capsys, "prices", "--limit", "4")
    assert [(record["partition"], record["offset"]) for record in records] == [(1, 1), (0, 0), (0, 1), (0, 2)]
    assert records[0]["row"] == {"id": 2, "price": "3.46"} and records[0]["reason"] is None
    assert [record["reason"] for record in records[1:]] == ["missing_field", "tombstone", "out_of_range"]
    assert [record["row"] for record in records[1:]] == [None, None, None]
    assert main.run(["peek", "prices"]) == main.DONE
    output = " ".join(capsys.readouterr().out.split())
    assert "id = 1, price = NULL" in output and "rejected, out_of_range: 'price' is '10'" in output


def test_peek_accepts_the_topic_of_a_table_and_raw_records_can_be_read(settings, capsys) -> None:
    send(settings, b"\xff\x00 not text")
    topic = declared_table(settings).topic
    decoded_record, *_ = peek(capsys, topic)
    assert decoded_record["reason"] == "invalid_utf8", "the topic name leads to its table"
    (record,) = newest_records(settings, topic, 1)
    assert record.value == b"\xff\x00 not text" and record.key == b"key"


def test_offsets_without_a_record_are_skipped(settings) -> None:
    """Records of an aborted transaction are not shown, and its offsets and markers do not count as records."""
    topic = declared_table(settings).topic
    send(settings, *(b"%d" % n for n in range(5)))

    async def transact(producer: AIOKafkaProducer) -> None:
        for end in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
            await producer.begin_transaction()
            await asyncio.gather(*[await producer.send(topic, b"in it", partition=0) for _ in range(6)])
            await end()

    with_client(AIOKafkaProducer, settings, transact, transactional_id=topic)
    values = [record.value for record in newest_records(settings, topic, 8)]
    assert values == [b"3", b"4", *[b"in it"] * 6]
    assert len(newest_records(settings, topic, 100)) == 11


def test_a_file_that_fails_is_left_out_with_a_warning(settings, capsys) -> None:
    send(settings, b'{"id": 1}')
    topic = declared_table(settings).topic
    (Path(settings.declarations) / "rates.py").write_text("1 / 0\n")
    _declared_in.cache_clear()
    assert main.run(["peek", "prices", "--json"]) == main.DONE
    output = capsys.readouterr()
    assert json.loads(output.out)["records"][0]["row"] == {"id": 1, "price": None}
    assert "rates.py, line 1" in output.err and "ZeroDivisionError" in output.err
    assert main.run(["new-table", "orders", "--from-topic", topic]) == main.DONE
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert main.run(["topics"]) == main.FAILED, "a command for all tables needs all files"
    (Path(settings.declarations) / "prices.py").write_text("1 / 0\n")
    sys.modules.pop(f"{Path(settings.declarations).name}.prices")
    assert [record["value"] for record in peek(capsys, topic)] == ['{"id": 1}'], "the topic can be read nevertheless"


def test_a_topic_that_no_table_reads_is_created_as_the_error_says(settings, capsys) -> None:
    topic = f"raw-{uuid4().hex}"
    assert main.run(["new-table", "orders", "--from-topic", topic]) == main.FAILED
    assert f"lakehouse topics --create {topic}" in " ".join(capsys.readouterr().err.split())
    for is_created in (True, False):
        assert main.run(["topics", "--create", topic, "--partitions", "2", "--json"]) == main.DONE
        assert json.loads(capsys.readouterr().out)["created"] is is_created
    assert len(read_topic(settings, topic).end) == 2
    assert main.run(["topics", "--create", topic]) == main.DONE and "existed already" in capsys.readouterr().out


def test_a_missing_topic_is_an_error(settings) -> None:
    with pytest.raises(TopicError, match="'nowhere' does not exist"):
        newest_records(settings, "nowhere", 1)


def test_a_first_declaration_is_written_from_the_records_of_a_topic(settings, capsys) -> None:
    topic = declared_table(settings).topic
    send(settings, b'{"id": 1, "at": "2026-03-01T00:00:00Z"}', b"{", b'{"id": 2, "at": "2026-03-01T00:00:00Z"}')
    assert main.run(["new-table", "orders", "--from-topic", topic]) == main.DONE
    assert "from 3 records; 1 of them cannot be read as JSON objects: " in " ".join(capsys.readouterr().out.split())
    declaration = (Path(settings.declarations) / "orders.py").read_text()
    assert f'topic="{topic}"' in declaration and 'key=["id"]' in declaration
    assert 'Column("at", "TIMESTAMP", doc="", required=True, written=Time("%Y-%m-%dT%H:%M:%SZ"))' in declaration


def test_batches_that_would_fill_the_memory_are_not_read(settings, capsys, monkeypatch) -> None:
    send(settings, b'{"id": 1, "note": "' + b"0" * 200_000 + b'"}', compression="zstd")
    assert peek(capsys, "prices")
    monkeypatch.setitem(newest_records.__globals__, "_ROOM", 100_000)
    assert main.run(["peek", "prices"]) == main.FAILED
    assert "have more than 0 MB" in capsys.readouterr().err


def test_a_project_without_a_declaration_peeks_at_any_topic(settings, capsys) -> None:
    send(settings, b"hello")
    topic = declared_table(settings).topic
    declare(settings, "")
    (record,) = peek(capsys, topic)
    assert record["value"] == "hello" and "row" not in record


def test_columns_that_only_a_merge_computes_are_listed(settings, capsys) -> None:
    send(settings, b'{"id": 1}')
    computed_column = 'Computed("dear", "BOOLEAN", "price > 5", ""), Column("id", '
    declare(
        settings, TABLE.replace('Column("id", ', computed_column).replace("{topic}", declared_table(settings).topic)
    )
    assert main.run(["peek", "prices", "--json"]) == main.DONE
    output = capsys.readouterr()
    assert json.loads(output.out)["records"][0]["row"] == {"id": 1, "price": None}
    assert "Not shown, because only a merge computes them: dear." in " ".join(output.err.split())
