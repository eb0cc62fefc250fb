"""``lakehouse new-table --from-topic``: the keys of records, several topics, and records that a schema can check."""

import json
from pathlib import Path

import pytest

from lakehouse.cli import main
from lakehouse.declaration import Json, RecordKey
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.kafka import Record
from lakehouse_tests.helpers.brokers.registries import answering_registry, schema_answer
from lakehouse_tests.helpers.new_tables import declared_table, new_table, new_table_from_topic


def comments_in(folder: Path) -> str:
    """The file of the table orders, as one line without signs of comments."""
    return " ".join((folder / "orders.py").read_text().replace("#", "").split())


def test_the_file_has_a_column_for_text_keys_that_the_values_lack(
    folder: Path, outside_project: pytest.MonkeyPatch
) -> None:
    new_table_from_topic(outside_project, b"21.5", b"22", key=b"sensors/a/temp")
    assert "Every key is text, such as 'sensors/a/temp': record_key is the key of the record." in comments_in(folder)
    table = declared_table("orders")
    assert table.by_name["record_key"].source == RecordKey()
    assert table.decode(b"20", key=b"sensors/b") == {"record_key": "sensors/b", "value": 20.0}


def test_a_condition_chooses_the_records_whose_keys_are_compared(
    folder: Path, outside_project: pytest.MonkeyPatch
) -> None:
    values = [b'{"type": "a", "id": "k"}', b'{"type": "b", "no": 1}']
    new_table_from_topic(outside_project, *values, key=b"k", condition=["--where", "type=a"])
    assert "Every key is text, such as 'k', equal to id." in comments_in(folder)


def test_several_topics_become_one_table_of_all_their_records(
    folder: Path, outside_project: pytest.MonkeyPatch
) -> None:
    contents = {"orders.eu": {"order_id": 1, "vat": 19}, "orders.us": {"order_id": 2, "state": "NY"}}
    requests = []

    def newest_records(_: object, topic: str, count: int) -> list[Record]:
        requests.append((topic, count))
        return [Record(0, 0, 0, None, json.dumps(contents[topic]).encode())]

    outside_project.setattr("lakehouse.kafka.newest_records", newest_records)
    options = [part for topic in contents for part in ("--from-topic", topic)]
    new_table("orders", *options, "--records", "10")
    assert requests == [("orders.eu", 5), ("orders.us", 5)]
    table = declared_table("orders")
    assert (table.topics, table.topic) == (["orders.eu", "orders.us"], "")
    assert {column.name for column in table.columns} == {"order_id", "vat", "state"}
    comments = comments_in(folder)
    assert 'source=TopicPattern("orders\\\\..*")' in comments
    assert "source=TopicName()" in comments


def test_a_topic_whose_name_is_invalid_is_refused(folder: Path) -> None:
    assert "b,c is not a valid topic name" in new_table(
        "orders", "--from-topic", "a", "--from-topic", "b,c", code=main.WRONG_USE
    )


def test_framed_json_with_a_schema_at_the_registry_gets_the_line_that_checks_it(
    folder: Path, outside_project: pytest.MonkeyPatch
) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}}, "required": ["id"]}
    values = [add_frame(3, b'{"id": 1}'), add_frame(3, b'{"id": 0}')]
    with answering_registry({"/schemas/ids/3": schema_answer(schema, schemaType="JSON")}) as (url, _):
        outside_project.setenv("LAKEHOUSE_REGISTRY_URL", url)
        new_table_from_topic(outside_project, *values)
    assert "1 of 2 meet it. To reject records that violate it, write format=Json(framed=True, checked=True)." in (
        comments_in(folder)
    )
    assert declared_table("orders").format == Json(framed=True)
