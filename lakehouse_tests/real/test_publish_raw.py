"""``lakehouse publish --raw``: whole records to a topic that no table reads. No Spark."""

import base64
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from lakehouse.cli import main
from lakehouse.kafka import Record, create_named_topic, newest_records
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.brokers.clients import with_client


@pytest.fixture
def topic(broker: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a topic with two partitions, for commands without a project."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers(broker))
    monkeypatch.delenv("LAKEHOUSE_DECLARATIONS", raising=False)
    monkeypatch.chdir(tmp_path)
    name = f"raw-{uuid4().hex}"
    create_named_topic(broker, name, 2)
    return name


def parts(record: Record) -> tuple[object, ...]:
    return record.partition, record.key, record.value, record.headers


def test_whole_records_of_a_file_are_sent_as_they_are(broker: Settings, topic: str, capsys, tmp_path: Path) -> None:
    data = base64.b64encode(b"\xff\x00").decode()
    lines = [
        {"key": "k", "value": '{"id": 1}', "headers": {"kind": "order"}, "partition": 1},
        {"key_base64": data, "value_base64": data, "headers_base64": {"id": data}, "partition": 1},
        {"key": "k", "value": None, "partition": 1, "timestamp": 1_000},
    ]
    file = tmp_path / "records.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert main.run(["publish", topic, str(file), "--raw", "--json"]) == main.DONE
    assert json.loads(capsys.readouterr().out)["acknowledged"] == 3
    assert [parts(record) for record in newest_records(broker, topic, 5)] == [
        (1, b"k", b'{"id": 1}', (("kind", b"order"),)),
        (1, b"\xff\x00", b"\xff\x00", (("id", b"\xff\x00"),)),
        (1, b"k", None, ()),
    ]


def test_nothing_of_a_file_with_a_wrong_line_is_sent_and_of_a_stream_the_lines_before_it(
    broker: Settings, topic: str, capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b'{"value": "a"}\n{"value": 1}\n'
    file = tmp_path / "records.jsonl"
    file.write_bytes(text)
    assert main.run(["publish", topic, str(file), "--raw"]) == main.FAILED
    assert "Line 2 is not a record: value must be text" in (error := " ".join(capsys.readouterr().err.split()))
    assert "Nothing was sent." in error and newest_records(broker, topic, 5) == []
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    assert main.run(["publish", topic, "-", "--raw"]) == main.FAILED
    assert "Lines before it that were sent: 1." in " ".join(capsys.readouterr().err.split())


def test_a_missing_topic_is_not_created(topic: str, capsys, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text('{"value": "a"}\n')
    assert main.run(["publish", f"{topic}-2", str(tmp_path / "records.jsonl"), "--raw"]) == main.FAILED
    assert f"lakehouse topics --create {topic}-2" in " ".join(capsys.readouterr().err.split())


def test_a_created_topic_with_nearly_the_name_of_a_table_is_noted(topic: str, capsys, tmp_path: Path) -> None:
    columns = 'columns=[Column("id", "STRING", "", required=True)], key=["id"]'
    declaration = f'from lakehouse import Column, StreamTable\nt = StreamTable("t{topic[4:]}", "t", "", {columns})\n'
    (tmp_path / "declared.py").write_text(declaration)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEHOUSE_DECLARATIONS", str(tmp_path / "declared.py"))
        assert main.run(["topics", "--create", f"u{topic[4:]}"]) == main.DONE
    captured = capsys.readouterr()
    assert f"u{topic[4:]} is not a declared table. Did you mean t{topic[4:]}?" in " ".join(captured.err.split())
    assert f"Topic u{topic[4:]} was created." in " ".join(captured.out.split())


def test_a_record_that_is_too_large_is_named_with_its_size(topic: str, capsys, tmp_path: Path) -> None:
    line = {"key": "k" * 1_000_000, "value": None, "headers": {"kind": "é" * 300_000}}
    (tmp_path / "records.jsonl").write_text(json.dumps(line))
    assert main.run(["publish", topic, str(tmp_path / "records.jsonl"), "--raw"]) == main.FAILED
    assert "Record 1 has 1600004 bytes, more than the broker accepts" in " ".join(capsys.readouterr().err.split())


def test_times_that_the_broker_replaces_are_noted(broker: Settings, topic: str, capsys, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text('{"value": "a", "timestamp": 1000}\n{"value": "b"}\n{"value": "c", "timestamp": 2000}\n')
    assert main.run(["publish", topic, str(file), "--raw"]) == main.DONE
    notice = " ".join(capsys.readouterr().err.split())
    assert f"The broker replaced 2 timestamps by the time of arrival: topic {topic} has message.timestamp" in notice
    configs = {"message.timestamp.type": "CreateTime", "message.timestamp.before.max.ms": str(2**63 - 1)}
    dated_topic = NewTopic(f"{topic}-dated", 1, 1, topic_configs=configs)
    with_client(AIOKafkaAdminClient, broker, lambda admin: admin.create_topics([dated_topic]))
    assert main.run(["publish", dated_topic.name, str(file), "--raw"]) == main.DONE
    assert "The broker replaced" not in capsys.readouterr().err
