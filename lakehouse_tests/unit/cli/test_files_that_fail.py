"""A name for records is not taken for that of a topic while a file that fails may declare a table of that name."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from lakehouse.kafka.raw_records import RawRecord
from lakehouse_tests.helpers.commands import lakehouse_says
from lakehouse_tests.helpers.declaration_files import declare

DECLARATION = """
from lakehouse import Column, StreamTable

column = Column("id", "BIGINT", "Number.", required=True)
sales = StreamTable(name="sales", topic="shop.sales", doc="", columns=[column], key=["id"])
"""


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[RawRecord]]]:
    """What would be sent to which topic of a broker; one file of declarations fails."""
    declare(tmp_path, monkeypatch, sales=DECLARATION, orders=f"{DECLARATION}1 / 0\n".replace("sales", "orders"))
    (tmp_path / "records.jsonl").write_text('{"value": "{}"}\n')
    monkeypatch.chdir(tmp_path)
    topics: list[tuple[str, list[RawRecord]]] = []

    def send(_: object, topic: str, records: object, *__: object) -> int:
        topics.append((topic, list(records)))  # type: ignore[call-overload]
        return 1

    for module in ("publish", "topics"):
        monkeypatch.setattr(f"lakehouse.cli.{module}.broker", lambda *_, **__: nullcontext("127.0.0.1:9"))
    monkeypatch.setattr("lakehouse.kafka.read_topic", lambda *_: SimpleNamespace(end={0: 0}, producer_time=True))
    monkeypatch.setattr("lakehouse.kafka.publish_raw", send)
    monkeypatch.setattr("lakehouse.kafka.create_named_topic", lambda _, topic, __: topics.append((topic, [])))
    return topics


@pytest.mark.parametrize("command", [("publish", "orders", "records.jsonl", "--raw"), ("topics", "orders", "--create")])
def test_a_table_whose_file_fails_is_not_taken_for_a_topic(command: tuple[str, ...], sent: list[object]) -> None:
    result = lakehouse_says(*command)
    assert result.code != 0 and "ZeroDivisionError" in result.err and not sent


def test_records_are_sent_to_the_topic_of_a_table_although_another_file_fails(
    sent: list[tuple[str, list[RawRecord]]],
) -> None:
    result = lakehouse_says("publish", "sales", "records.jsonl", "--raw")
    assert result.code == 0 and "ZeroDivisionError" in result.err
    assert sent == [("shop.sales", [RawRecord(b"{}")])]
