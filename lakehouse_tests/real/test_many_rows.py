"""Records with many rows: each element of an array is merged, rejected and accounted for by itself."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import (
    Column,
    ElementIndex,
    Explode,
    FieldExists,
    FieldIs,
    Json,
    ParentField,
    StreamTable,
    Topic,
)
from lakehouse.ingest.redrive import redrive
from lakehouse.kafka import create_topic
from lakehouse.ledger.audit import audit
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream, unique_table

ORDER_ID = Column("order_id", "BIGINT", "Number of the order.", required=True, source=ParentField("id"))
SKU = Column("sku", "STRING", "Article.", required=True)
PIECES = Column("pieces", "INT", "How many.", between=(0, 10))


def order(number: int, *elements: Any) -> bytes:
    return json.dumps({"id": number, "items": list(elements)}).encode()


def item(sku: str, pieces: int) -> dict[str, Any]:
    return {"sku": sku, "pieces": pieces}


def create(spark: SparkSession, settings: Settings, key: Sequence[str]) -> Stream:
    name = unique_table().name
    table = StreamTable(
        name,
        source=Topic(name, partitions=1),
        doc="Items.",
        columns=[ORDER_ID, SKU, PIECES],
        key=key,
        rows_from="items",
    )
    create_topic(settings, table)
    return Stream(spark, settings, table)


def rows(stream: Stream) -> list[tuple[Any, ...]]:
    uri = stream.settings.table_uri(stream.table.name)
    query = f"SELECT order_id, sku, pieces, _record.position, _record.index FROM delta.`{uri}` ORDER BY 4, 5"
    return [tuple(row) for row in stream.spark.sql(query).collect()]


def rejected(stream: Stream) -> list[tuple[Any, ...]]:
    uri = stream.settings.table_uri(stream.table.rejected_name)
    columns = "position.position, position.index, reason, value IS NOT NULL, resolved_number IS NULL"
    query = f"SELECT {columns} FROM delta.`{uri}` ORDER BY 1, 2 NULLS FIRST"
    return [tuple(row) for row in stream.spark.sql(query).collect()]


def assert_accounted(stream: Stream) -> None:
    assert [finding.detail for finding in audit(stream.ledger) if not finding.passed] == []


@pytest.mark.invariant("4.7", "7.11")
def test_the_later_of_two_elements_with_a_key_wins_and_records_and_rows_add_up(
    spark: SparkSession, broker: Settings
) -> None:
    stream = create(spark, broker, ["order_id", "sku"])
    stream.send(order(1, item("a", 1), item("b", 2), item("a", 3)), order(2), b'{"id": 3}', order(4, item("a", 99)))
    (outcome,) = stream.merge()
    commit = outcome.entry.commit
    assert (commit.read, commit.empty, commit.rows_read) == (4, 2, 4)
    assert (commit.rejected, commit.superseded, outcome.entry.metrics.inserted) == (1, 1, 2)
    assert rows(stream) == [(1, "b", 2, 0, 1), (1, "a", 3, 0, 2)]
    (outcome,) = stream.send_and_merge(order(1, item("a", 4)), b"[")
    assert (outcome.entry.commit.rows_read, outcome.entry.metrics.updated) == (2, 1)
    expected_rows = [(1, "b", 2, 0, 1), (1, "a", 4, 4, 0)]
    assert rows(stream) == expected_rows
    (replayed,) = stream.replay()
    assert (replayed.entry.stale, rows(stream)) == (2, expected_rows)
    assert stream.ledger.totals.rows_read == 6
    assert_accounted(stream)


@pytest.mark.invariant("8.12")
def test_a_redrive_takes_a_single_object_for_the_array_and_keeps_the_place_of_elements_that_is_in_the_key(
    spark: SparkSession, broker: Settings
) -> None:
    stream = create(spark, broker, ["order_id", "sku"])
    place = Column("place", "INT", "Place.", required=True, source=ElementIndex())
    stream.table = replace(stream.table, columns=[ORDER_ID, place, SKU, PIECES], key=["order_id", "place"])
    stream.send(order(1, item("a", 1), item("a", 20), item("a", 1)), b'{"id": 2, "items": {"sku": "b", "pieces": 2}}')
    stream.merge()
    assert rejected(stream) == [(0, 1, "out_of_range", True, True), (1, None, "wrong_type", True, True)]
    columns = [ORDER_ID, place, SKU, replace(PIECES, between=(0, 100))]
    rows_from = Explode(stream.table.rows_path or (), single_object=True)
    stream.table = replace(stream.table, columns=columns, rows_from=rows_from)
    redrive(stream.context)
    expected_rows = [(1, "a", 1, 0, 0), (1, "a", 20, 0, 1), (1, "a", 1, 0, 2), (2, "b", 2, 1, 0)]
    assert rows(stream) == expected_rows
    stream.send_and_merge(b'{"id": 3, "items": {"sku": "c", "pieces": 3}}')
    assert rows(stream) == [*expected_rows, (3, "c", 3, 2, 0)]
    uri = stream.settings.table_uri(stream.table.name)
    assert spark.sql(f"SELECT count(*) FROM delta.`{uri}` WHERE place <> _record.index").collect() == [(0,)]
    assert_accounted(stream)


@pytest.mark.slow
@pytest.mark.invariant("8.15")
@pytest.mark.parametrize("key", [["order_id", "sku"], []], ids=["keyed", "log"])
def test_rejected_elements_are_redriven_alone_and_the_bytes_of_their_record_are_stored_once(
    spark: SparkSession, broker: Settings, key: Sequence[str]
) -> None:
    stream = create(spark, broker, key)
    stream.send_and_merge(order(1, item("a", 1), item("b", 20), item("c", 30), item("d", 500)), order(2, item("e", 5)))
    assert rejected(stream) == [
        (0, 1, "out_of_range", True, True),
        (0, 2, "out_of_range", False, True),
        (0, 3, "out_of_range", False, True),
    ]
    assert redrive(stream.context) == []
    columns = [ORDER_ID, SKU, replace(PIECES, between=(0, 100))]
    stream.table = replace(stream.table, columns=columns)
    (outcome,) = redrive(stream.context)
    commit = outcome.entry.commit
    assert (commit.read, commit.rows_read, commit.rejected, outcome.entry.metrics.inserted) == (1, 3, 1, 2)
    expected_rows = [(1, "a", 1, 0, 0), (1, "b", 20, 0, 1), (1, "c", 30, 0, 2), (2, "e", 5, 1, 0)]
    assert rows(stream) == expected_rows
    assert [row[-1] for row in rejected(stream)] == [False, False, True]
    assert redrive(stream.context) == []
    stream.table = replace(stream.table, columns=[ORDER_ID, SKU, replace(PIECES, between=(0, 1_000))])
    (outcome,) = redrive(stream.context)
    assert (outcome.entry.commit.rows_read, outcome.entry.metrics.inserted) == (1, 1)
    assert [row[-1] for row in rejected(stream)] == [False, False, False]
    stored_rows = rows(stream)
    (replayed,) = stream.replay()
    assert (replayed.entry.commit.rows_read, replayed.entry.stale, rows(stream)) == (5, 5, stored_rows)
    assert_accounted(stream)


@pytest.mark.slow
@pytest.mark.invariant("8.3", "8.5")
def test_a_record_that_was_rejected_as_a_whole_is_resolved_once_its_elements_are_judged_or_it_has_none(
    spark: SparkSession, broker: Settings
) -> None:
    stream = create(spark, broker, ["order_id", "sku"])
    stream.send_and_merge(b'{"id": 1, "items": [{"sku": "a", "pieces": 70}], "n": NaN}', b'{"id": 2, "n": NaN}')
    assert rejected(stream) == [(0, None, "not_finite", True, True), (1, None, "not_finite", True, True)]
    stream.table = replace(stream.table, format=Json(not_finite="null"))
    (outcome,) = redrive(stream.context)
    commit = outcome.entry.commit
    assert (commit.read, commit.empty, commit.rows_read, commit.rejected) == (2, 1, 1, 1)
    assert rejected(stream) == [
        (0, None, "not_finite", True, False),
        (0, 0, "out_of_range", False, True),
        (1, None, "not_finite", True, False),
    ]
    assert redrive(stream.context) == []
    numbers = f"SELECT DISTINCT resolved_number FROM delta.`{stream.settings.table_uri(stream.table.rejected_name)}`"
    assert {row[0] for row in stream.spark.sql(numbers).collect()} == {commit.number, None}
    assert rows(stream) == []
    assert_accounted(stream)


@pytest.mark.slow
@pytest.mark.invariant("8.15")
def test_a_redrive_of_one_reason_leaves_elements_with_other_reasons(spark: SparkSession, broker: Settings) -> None:
    stream = create(spark, broker, ["order_id", "sku"])
    stream.send_and_merge(order(1, item("a", 20), {"sku": 7}, item("b", 30)))
    stream.table = replace(stream.table, columns=[ORDER_ID, replace(SKU, written="text_or_number"), PIECES])
    assert redrive(stream.context, "out_of_range") == []
    stream.table = replace(stream.table, columns=[*stream.table.columns[:2], replace(PIECES, between=(0, 25))])
    (outcome,) = redrive(stream.context, "out_of_range")
    assert (outcome.entry.commit.read, outcome.entry.commit.rows_read, outcome.entry.commit.rejected) == (1, 2, 1)
    assert [row[-1] for row in rejected(stream)] == [False, True, True]
    (outcome,) = redrive(stream.context, "wrong_type")
    assert (outcome.entry.commit.rows_read, outcome.entry.metrics.inserted) == (1, 1)
    assert_accounted(stream)


@pytest.mark.slow
@pytest.mark.invariant("8.5")
def test_rejected_elements_of_a_record_that_belongs_to_another_table_are_resolved(
    spark: SparkSession, broker: Settings
) -> None:
    stream = create(spark, broker, ["order_id", "sku"])
    stream.send_and_merge(order(1, item("a", 1), item("b", 20), item("c", 30)), order(2, item("d", 40)))
    stored_rows = rows(stream)
    stream.table = replace(stream.table, where=FieldIs("id", [2]))
    (outcome,) = redrive(stream.context)
    commit = outcome.entry.commit
    assert (commit.read, commit.filtered, commit.rejected, commit.rows_read) == (2, 1, 1, 2)
    assert rejected(stream) == [
        (0, 1, "out_of_range", True, False),
        (0, 2, "out_of_range", False, False),
        (1, 0, "out_of_range", True, True),
    ]
    assert (redrive(stream.context), rows(stream)) == ([], stored_rows)
    assert_accounted(stream)


@pytest.mark.slow
@pytest.mark.invariant("8.5")
def test_a_rejected_record_that_belongs_to_another_table_is_resolved(spark: SparkSession, broker: Settings) -> None:
    name = unique_table().name
    columns = [Column("id", "BIGINT", "Number.", required=True), Column("n", "INT", "How many.", between=(0, 9))]
    table = StreamTable(name, source=Topic(name, partitions=1), doc="Orders.", columns=columns, key=["id"])
    stream = Stream.of(spark, broker, table)
    stream.send_and_merge(b'{"id": 1, "n": 3}', b'{"id": 2, "n": 30, "type": "other"}')
    stream.table = replace(stream.table, where=FieldIs("type", ["order"]))
    (outcome,) = redrive(stream.context)
    commit = outcome.entry.commit
    assert (commit.read, commit.filtered, commit.rejected, outcome.entry.metrics.source_rows) == (1, 1, 0, 0)
    assert redrive(stream.context) == []
    assert_accounted(stream)


@pytest.mark.slow
@pytest.mark.invariant("8.15")
def test_a_record_that_was_rejected_as_a_whole_is_redriven_with_all_of_its_elements(
    spark: SparkSession, broker: Settings
) -> None:
    stream = create(spark, broker, ["order_id", "sku"])
    stream.send_and_merge(b'{"id": 1, "items": [{"sku": "a", "pieces": 1}, {"sku": "b", "pieces": 70}], "n": NaN}')
    assert rejected(stream) == [(0, None, "not_finite", True, True)]
    stream.table = replace(stream.table, format=Json(not_finite="null"))
    (outcome,) = redrive(stream.context)
    assert (outcome.entry.commit.read, outcome.entry.commit.rows_read, outcome.entry.metrics.inserted) == (1, 2, 1)
    assert rejected(stream) == [(0, None, "not_finite", True, False), (0, 1, "out_of_range", False, True)]
    stream.table = replace(stream.table, columns=[ORDER_ID, SKU, replace(PIECES, between=(0, 100))])
    (outcome,) = redrive(stream.context)
    assert rows(stream) == [(1, "a", 1, 0, 0), (1, "b", 70, 0, 1)]
    assert_accounted(stream)


@pytest.mark.slow
@pytest.mark.invariant("4.7", "8.5")
@pytest.mark.parametrize("key", [["order_id", "sku"], []], ids=["keyed", "log"])
def test_elements_of_another_kind_are_counted_and_may_be_chosen_later(
    spark: SparkSession, broker: Settings, key: Sequence[str]
) -> None:
    stream = create(spark, broker, key)
    whole_table = stream.table
    stream.table = replace(whole_table, rows_from=Explode("items", where=FieldExists("pieces")))
    stream.send(order(1, item("a", 1), {"sku": "b"}, item("c", 20), {"sku": 4}), order(2, {"sku": "d"}))
    (outcome,) = stream.merge()
    commit = outcome.entry.commit
    assert (commit.read, commit.empty, commit.rows_read, commit.filtered, commit.rejected) == (2, 0, 5, 3, 1)
    assert rows(stream) == [(1, "a", 1, 0, 0)]
    assert rejected(stream) == [(0, 2, "out_of_range", True, True)]
    assert redrive(stream.context) == []
    stream.table = replace(stream.table, columns=[ORDER_ID, SKU, replace(PIECES, between=(0, 100))])
    (outcome,) = redrive(stream.context)
    commit = outcome.entry.commit
    assert (commit.read, commit.rows_read, commit.filtered, outcome.entry.metrics.inserted) == (1, 1, 0, 1)
    assert rows(stream) == [(1, "a", 1, 0, 0), (1, "c", 20, 0, 2)]
    stream.table = replace(whole_table, columns=[ORDER_ID, SKU, replace(PIECES, between=(0, 5))])
    stream.replay()
    assert [row[1] for row in rows(stream)] == ["a", "b", "c", "d"]
    assert rejected(stream) == [(0, 2, "out_of_range", True, True), (0, 3, "wrong_type", False, True)]
    stream.table = replace(stream.table, rows_from=Explode("items", where=FieldIs("sku", ["a", "d"])))
    redrive(stream.context)
    assert [row[-1] for row in rejected(stream)] == [False, False]
    assert_accounted(stream)
