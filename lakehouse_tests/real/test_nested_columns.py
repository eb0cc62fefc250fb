"""Nested columns: rows have the nested values of their records, and merges work as for any other column."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

import polars
import pytest
from deltalake import DeltaTable

from lakehouse.declaration import Avro, Check, Column, Measure, Rollup, StreamTable, Time, Topic
from lakehouse.derived.refresh import refresh_changes, refresh_rollup
from lakehouse.errors import TableError
from lakehouse.kafka import create_topic, publish
from lakehouse.operations.verify import verify_rollup
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.tables.tables import redeclare
from lakehouse_tests.helpers.tables.wide_tables import wide_records, wide_table

COLUMNS = (
    Column("id", "BIGINT", required=True, doc="Number."),
    Column("tags", "ARRAY<STRING>", doc="Words."),
    Column("address", "STRUCT<zip: STRING, country: STRING>", doc="Where to."),
    Column("labels", "MAP<STRING, STRING>", doc="Labels by name."),
    Column("lines", "ARRAY<STRUCT<sku: STRING, price: DECIMAL(10,2), by: MAP<STRING, INT>>>", doc="What."),
    Column("paid_at", "ARRAY<TIMESTAMP>", written=Time(epoch="milliseconds"), doc="When, UTC."),
    Column("score", "MAP<STRING, DOUBLE>", keep=True, doc="Kept by itself."),
)
LINES = [{"sku": "x", "price": 1.005, "by": {"b": 2, "a": 1}}, None, {"price": 2}]


def orders(**changes: Any) -> StreamTable:
    name = f"orders_{uuid4().hex[:8]}"
    measures = {
        "tags": Measure("sum(size(tags))", "BIGINT", ""),
        "dearest": Measure("max(array_max(transform(lines, each -> each.price)))", "DECIMAL(10,2)", ""),
    }
    rollup = Rollup(f"{name}_by_id", by=["id"], measures=measures, doc="By number.")
    check = Check("priced", "exists(lines, each -> each.price > 0)", "Something is sold.")
    arguments: dict[str, Any] = dict(columns=COLUMNS, key=["id"], rollups=[rollup], checks=[check])
    return redeclare(StreamTable(name, name, "Orders.", **(arguments | changes)), partitions=1)


def order(number: int, **fields: Any) -> bytes:
    return json.dumps({"id": number, **fields}).encode()


def stream_of(spark: Any, settings: Any, table: StreamTable) -> Stream:
    create_topic(settings, table)
    return Stream(spark, settings, table)


def json_values(stream: Stream, column: str) -> list[tuple[Any, ...]]:
    return stream.sql(f"SELECT id, to_json({column}) FROM {{t}} ORDER BY id")


@pytest.mark.invariant("10.4")
@pytest.mark.slow
def test_nested_values_are_merged_and_derived_like_any_other_value(spark, broker) -> None:
    stream = stream_of(spark, broker, orders())
    fields = dict(tags=["a", None], address={"zip": "1", "x": 2}, labels={"z": "1", "a": None}, paid_at=[1_000])
    (first,) = stream.send_and_merge(
        order(1, lines=LINES, score={"a": 0.5}, **fields),
        order(2, labels={}, lines=[]),
        order(3, labels={"a": 1}),
        order(4),
    )
    assert counts(first.entry) == dict(read=4, rejected=1, superseded=0, inserted=3, updated=0, stale=0)
    assert first.unmapped_fields == {"address.x": 1}
    lines = [("x", Decimal("1.01"), {"a": 1, "b": 2}), None, (None, Decimal("2.00"), None)]
    assert stream.sql("SELECT tags, address, labels, lines FROM {t} WHERE id = 1") == [
        (["a", None], ("1", None), {"a": None, "z": "1"}, lines)
    ]
    assert stream.sql("SELECT id, labels FROM {t} WHERE id > 1 ORDER BY id") == [(2, {}), (4, None)]
    refresh_changes(stream.context)
    refresh_rollup(stream.context, stream.table.rollups[0])

    stream.send(order(1, lines=LINES, **fields), order(2, labels={"a": "b"}, lines=[]), order(2, labels={"b": "c"}))
    (second,) = stream.merge()
    assert counts(second.entry) == dict(read=3, rejected=0, superseded=1, inserted=0, updated=2, stale=0)
    assert json_values(stream, "score")[0] == (1, '{"a":0.5}')
    changes = refresh_changes(stream.context)
    assert (changes.changed, changes.rebuilt) == (1, False)  # the first refresh recorded the earlier rows
    assert stream.sql("SELECT labels_before, labels_after FROM {changes} WHERE change = 'update'") == [({}, {"b": "c"})]
    refresh_rollup(stream.context, stream.table.rollups[0])
    assert verify_rollup(stream.context, stream.table.rollups[0]).passed
    assert stream.sql("SELECT id, tags, dearest FROM {rollup} ORDER BY id") == [
        (1, 2, Decimal("2.00")),
        (2, None, None),
        (4, None, None),
    ]

    assert_a_replay_changes_nothing(stream)
    DeltaTable(stream.uri).restore(first.entry.version)
    assert refresh_changes(stream.context).changed == 1
    assert stream.sql("SELECT labels_after FROM {changes} WHERE labels_before['b'] = 'c'") == [({},)]
    stream.assert_accounted()


def assert_a_replay_changes_nothing(stream: Stream) -> None:
    rows = json_values(stream, "struct(*)")
    assert all(counts(outcome.entry)["updated"] == 0 for outcome in stream.replay())
    assert json_values(stream, "struct(*)") == rows


@pytest.mark.slow
def test_a_log_table_stores_nested_values_and_polars_reads_them(spark, broker) -> None:
    name = f"log_{uuid4().hex[:8]}"
    columns = [replace(column, keep=False) for column in COLUMNS]
    measures = {"rows": Measure("count(*)", "BIGINT", "")}
    rollup = Rollup(f"{name}_by_id", by=["id"], measures=measures, doc="By number.")
    stream = stream_of(
        spark,
        broker,
        StreamTable(name, source=Topic(name, partitions=1), doc="Log.", columns=columns, key=[], rollups=[rollup]),
    )
    fields = dict(tags=["a", None], address={"zip": "1"}, paid_at=[1_000], score={"a": 0.5})
    stream.send_and_merge(order(1, lines=LINES, labels={"a": "b"}, **fields), order(1, labels={"a": "b"}), order(1))
    refresh_rollup(stream.context, rollup)
    stream.send_and_merge(order(1, labels={"b": "a"}))
    refresh_rollup(stream.context, rollup)
    assert stream.sql("SELECT id, rows FROM {rollup}") == [(1, 4)]
    by_polars = polars.read_delta(stream.uri).sort(polars.col("_record").struct.field("position"))
    rows = spark.read.format("delta").load(stream.uri).orderBy("_record.position").drop("paid_at", "_record")
    assert by_polars.drop("paid_at", "_record").to_dicts() == [row.asDict(recursive=True) for row in rows.collect()]
    assert by_polars["paid_at"].to_list() == [[datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], None, None, None]
    assert verify_rollup(stream.context, rollup).passed
    stream.replay()
    assert stream.sql("SELECT count(*) FROM {t}") == [(4,)]


def test_another_inner_type_is_refused(spark, broker) -> None:
    stream = stream_of(spark, broker, orders())
    stream.send_and_merge(order(1))
    columns = [replace(c, type="ARRAY<INT>") if c.name == "tags" else c for c in COLUMNS]
    other_stream = replace(stream, table=replace(stream.table, columns=columns))
    with pytest.raises(TableError, match=r"tags of .* is array<string> in the table"):
        other_stream.merge()


@pytest.mark.slow
def test_avro_records_with_a_schema_derived_from_the_declaration_have_nested_values(spark, registry) -> None:
    columns = [replace(column, written=None) for column in COLUMNS]
    stream = stream_of(spark, registry, orders(format=Avro(), columns=columns))
    records = [
        {"id": 1, "tags": ["a"], "lines": [{"sku": "x", "price": 1.25, "by": {"a": 1}}], "labels": {"a": "b"}},
        {"id": 2, "address": {"zip": "1", "country": None}, "score": {"a": 0.1}},
    ]
    assert publish(registry, stream.table, [json.dumps(record).encode() for record in records]) == 2
    (outcome,) = stream.merge()
    assert counts(outcome.entry)["inserted"] == 2
    assert stream.sql("SELECT tags, lines, labels, address, score FROM {t} ORDER BY id") == [
        (["a"], [("x", Decimal("1.25"), {"a": 1})], {"a": "b"}, None, None),
        (None, None, None, ("1", None), {"a": 0.1}),
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_table_of_twenty_columns_with_maps_is_merged_and_derived(spark, broker) -> None:
    """If Spark infers filters from the comparison of such rows, the change feed never finishes."""
    stream = stream_of(spark, broker, wide_table(seed=2, columns=20))
    assert sum("MAP<" in column.type for column in stream.table.columns) > 2
    stream.send_and_refresh(*wide_records(stream.table, 1, 20))
    (outcome,) = stream.send_and_merge(*wide_records(stream.table, 2, 10))
    assert counts(outcome.entry)["updated"] == 10
    changes, rollup = stream.refresh()
    assert (changes.changed, changes.rebuilt, rollup.rebuilt) == (10, False, False)
