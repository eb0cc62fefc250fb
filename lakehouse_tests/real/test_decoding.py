"""Spark's workers decode each record once; rejected records keep their raw parts."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import BrokerTime, Column, RecordHeader, RecordKey, StreamTable
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.decode import decode_records
from lakehouse.ingest.outcomes import most_common_fields
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

SCHEMA = (
    "_time TIMESTAMP, _partition INT, _position BIGINT, _sequence BIGINT, _key BINARY, _value BINARY,"
    " _headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
GOOD = b'{"latitude":51.5,"longitude":-0.1,"time":"2023-01-01T05:00","temperature_2m":10.4}'
HEADERS = [("trace", b"\x00\xff"), ("none", None)]


@pytest.mark.invariant("8.1", "13.1")
def test_each_record_is_decoded_once_and_a_rejected_record_keeps_its_raw_parts(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    time = datetime(2023, 1, 1, 6, tzinfo=UTC)
    values = [GOOD, None, GOOD[:-1], b"\xff", GOOD.replace(b"51.5", b"51.5000005")]
    records = [(time, 0, offset, None, value and b"\xfe", value, HEADERS) for offset, value in enumerate(values)]
    decoded_records = decode_records(spark.createDataFrame(records, SCHEMA), temperatures)
    rows = decoded_records.where("_reason IS NULL OR latitude IS NULL").orderBy("_position").collect()
    assert [row["_reason"] for row in rows] == [None, "tombstone", "truncated", "invalid_utf8", None]
    assert [row["latitude"] for row in rows] == [Decimal("51.500000"), None, None, None, Decimal("51.500001")]
    assert [row["_position"] for row in rows] == [0, 1, 2, 3, 4]
    for row in (rows[0], rows[4]):
        assert (row["_key"], row["_value"], row["_headers"]) == (None, None, None)
    for row in rows[1:4]:
        assert (row["_key"], row["_value"]) == (values[row["_position"]] and b"\xfe", values[row["_position"]])
        assert [(header["key"], header["value"]) for header in row["_headers"]] == HEADERS
    decoded_records.where("_reason IS NULL AND latitude > 0").explain()
    assert capsys.readouterr().out.count("ArrowEvalPython [") == 1


def test_key_newest_header_and_broker_time_of_a_record_are_columns(spark: SparkSession) -> None:
    table = StreamTable(
        "parts",
        "parts",
        "",
        [
            Column("id", "BIGINT", "Number.", source=RecordKey(), required=True),
            Column("trace", "STRING", "Trace.", source=RecordHeader("it's"), default="none"),
            Column("produced_at", "TIMESTAMP", "UTC.", source=BrokerTime()),
            Column("n", "INT", "A field.", source=("o", "n")),
        ],
        ["id"],
    )
    time = datetime(2023, 1, 1, 6, tzinfo=UTC)
    headers = [("it's", b"old"), ("it's", b"new"), ("other", b"x")]
    parts = [(b"1", headers), (b"2", []), (b"3", None), (None, headers), (b"x", headers), (b"6", [("it's", b"\xff")])]
    records = [(time, 0, offset, None, key, b'{"o":{"n":5}}', headers) for offset, (key, headers) in enumerate(parts)]
    rows = decode_records(spark.createDataFrame(records, SCHEMA), table).orderBy("_position").collect()
    assert [row["_reason"] for row in rows] == [None] * 3 + ["missing_field", "wrong_type", "invalid_utf8"]
    assert [(row["id"], row["trace"], row["n"]) for row in rows[:3]] == [(1, "new", 5), (2, "none", 5), (3, "none", 5)]
    assert {row["produced_at"] for row in rows[:3]} == {rows[0]["_time"]}
    assert rows[5]["_key"] == b"6", "a rejected record keeps its raw parts"


@pytest.mark.slow
def test_unmapped_fields_are_reported_by_the_batch_that_read_them(spark: SparkSession, broker: Settings) -> None:
    stream = Stream.create(spark, broker)
    stream.send(record(time=hour(0), humidity=81), record(time=hour(1), humidity=None, wind={"speed": 1}))
    (outcome,) = stream.send_and_merge(record(time="never", humidity=1), b"{", partition=1)
    assert outcome.unmapped_fields == {"humidity": 3, "wind": 1}
    (second,) = stream.send_and_merge(record(time=hour(2)))
    assert second.unmapped_fields == {}
    (replay_outcome,) = stream.replay()
    assert most_common_fields([outcome, second, replay_outcome]) == {"humidity": 6, "wind": 2}
