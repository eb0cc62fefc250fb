"""Values that are text, compressed or in an envelope: workers read them, and a replay changes nothing."""

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from lakehouse.declaration import (
    Column,
    Compressed,
    ConnectJson,
    Csv,
    Json,
    Logfmt,
    RecordKey,
    StreamTable,
    Text,
    Time,
    UnmappedFields,
)
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.unpacking.compression import compress
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream, counts
from lakehouse_tests.helpers.tables.rows import rows_of

KEY_1, KEY_2 = b'{"id": 1}', b'{"id": 2}'
SHAPES: dict[Format, list[bytes]] = {
    Text(): [b"1.5", b"-2", b"x"],
    Csv(["n", "more"], delimiter=";"): [b"1.5;a", b'-2;"b ""c"""', b"3"],
    Logfmt(encoding="latin-1"): [b"n=1.5 more=a", 'n=-2 more="b é"'.encode("latin-1"), b"n"],
    Json(in_text=True): [json.dumps(text).encode() for text in ('{"n":1.5,"more":"a"}', '{"n":-2}', "[]")],
    ConnectJson(): [b'{"schema":null,"payload":{"n":1.5}}', b'{"schema":null,"payload":{"n":-2}}', b'{"n":3}'],
    Compressed(Json(), "gzip"): [b'{"n":1.5}', b'{"n":-2,"more":{"a":[1]}}', b"{"],
    Compressed(Csv(["n", "more"]), "zstd"): [b"1.5,a", b"-2,b", b"1,2,3"],
}


def declare(form: Format) -> StreamTable:
    """A table whose key is in the keys of records, with what its columns leave if the format can say it."""
    columns = [
        Column("id", "BIGINT", "Which.", source=RecordKey("json", "id"), required=True),
        Column("n", "DOUBLE", "A number.", source="value" if isinstance(form, Text) else "n"),
    ]
    rest = Column("rest", "STRING", "The rest.", source=UnmappedFields())
    name = f"shapes_{uuid4().hex[:8]}"
    return StreamTable(name, name, "Shapes.", columns if form.typed else [*columns, rest], ["id"], format=form)


@pytest.mark.invariant("8.17")
def test_wrong_values_are_null_next_to_their_text_and_base64_is_opened_by_the_workers(
    spark: Any, broker: Settings
) -> None:
    columns = [
        Column("id", "BIGINT", "Which.", required=True),
        Column("log", "STRING", "A line."),
        Column("at", "TIMESTAMP", "When.", source=("log", "at"), written=Time("%d/%b/%Y %H:%M %z"), invalid="null"),
        Column("n", "INT", "A number.", source=("data_base64", "n")),
    ]
    name = f"lines_{uuid4().hex[:8]}"
    table = StreamTable(name, name, "Lines.", columns, ["id"], format=Json(in_base64="data_base64"))
    stream = Stream.of(spark, broker, table)
    lines = ['{"at": "31/Jan/2026 10:15 +0200"}', '{"at": "31/Mai/2026 10:15 Z"}', "panic: out of memory"]
    (outcome,) = stream.send_and_merge(
        *[json.dumps({"id": n, "log": line, "data_base64": "eyJuIjogN30="}).encode() for n, line in enumerate(lines)]
    )
    assert outcome.entry.commit.rejected == 0
    query = f"SELECT id, log, date_format(at, 'yyyy-MM-dd HH:mm'), n FROM delta.`{stream.uri}` ORDER BY id"
    assert [tuple(row) for row in stream.spark.sql(query).collect()] == [
        (0, lines[0], "2026-01-31 08:15", 7),
        (1, lines[1], None, 7),
        (2, lines[2], None, 7),
    ]
    stream.assert_accounted()


@pytest.mark.slow
@pytest.mark.invariant("3.1")
def test_a_column_that_is_added_later_is_filled_by_a_replay_or_from_the_unmapped_fields(
    spark: Any, broker: Settings
) -> None:
    stream = Stream.of(spark, broker, declare(Json()))
    stream.send(b'{"n": 1, "campaign": "may"}', key=KEY_1)
    stream.send_and_merge(b'{"n": 2, "campaign": "june"}', key=KEY_2)
    campaign = Column("campaign", "STRING", "Campaign.", keep=True)
    stream.table = replace(stream.table, columns=[*stream.table.columns, campaign])
    stream.replay(max_records=1)
    place = f"delta.`{stream.uri}`"
    assert stream.spark.sql(f"SELECT id, n, campaign FROM {place} ORDER BY id").collect() == [
        (1, 1.0, "may"),
        (2, 2.0, "june"),
    ]
    stream.spark.sql(f"UPDATE {place} SET campaign = NULL").collect()
    filling = "campaign = get_json_object(rest, '$.campaign') WHERE campaign IS NULL"
    stream.spark.sql(f"UPDATE {place} SET {filling}").collect()
    stream.send_and_merge(b'{"n": 3}', key=KEY_1)
    assert stream.spark.sql(f"SELECT id, n, campaign FROM {place} ORDER BY id").collect() == [
        (1, 3.0, "may"),
        (2, 2.0, "june"),
    ]
    stream.assert_accounted()


@pytest.mark.slow
@pytest.mark.invariant("8.5", "1.2")
@pytest.mark.parametrize("form", SHAPES, ids=repr)
def test_values_of_each_shape_become_rows_and_others_are_rejected(spark: Any, broker: Settings, form: Format) -> None:
    stream = Stream.of(spark, broker, declare(form))
    values = SHAPES[form]
    first, second, invalid = (
        [compress(value, form.codec) for value in values] if isinstance(form, Compressed) else values
    )
    records = [(KEY_1, first), (KEY_2, second), (KEY_2, invalid), (b'{"id": "x"}', first), (b"{", first)]
    for key, value in records:
        stream.send(value, key=key)
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=5, rejected=3, superseded=0, inserted=2, updated=0, stale=0)
    rows = {row["id"]: row for row in rows_of(broker, stream.table.name)}
    for key, value in records[:2]:
        expected_row = stream.table.decode(value, key=key)
        assert {name: rows[expected_row["id"]][name] for name in expected_row} == expected_row
    assert (rows[1]["n"], rows[2]["n"]) == (1.5, -2.0)
    stream.replay()
    assert {row["id"]: row for row in rows_of(broker, stream.table.name)} == rows
    stream.assert_accounted()
