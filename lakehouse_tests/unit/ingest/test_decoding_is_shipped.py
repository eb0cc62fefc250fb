"""Decoding runs without an installed package on Spark's workers: it is shipped by value."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from lakehouse import Time, decoding, writer_schema
from lakehouse.declaration import (
    Avro,
    BigEndian,
    Column,
    Compressed,
    ConnectJson,
    Csv,
    Cut,
    Debezium,
    FixedWidth,
    Generated,
    Json,
    Late,
    Logfmt,
    ParentField,
    Protobuf,
    RecordKey,
    Regex,
    StreamTable,
    Text,
)
from lakehouse.declaration.sources import Choice, Counter, Hash
from lakehouse.decoding import records
from lakehouse.decoding.formats import FORMAT_KINDS, Format
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas, WriterSchema
from lakehouse.decoding.record_parts import PARSED_ENCODINGS, KeyEncoding
from lakehouse.decoding.rows import KnownValues
from lakehouse.examples.tables.heart_rates import heart_rates
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.decode import _decoder
from lakehouse.sources.generated_records import _generator

WORKER_WITHOUT_PACKAGE = """
import pickle, sys
sys.modules["lakehouse"] = None  # an import of it fails
decode, fields = pickle.load(sys.stdin.buffer)
print(decode(b'{"n":12345678901.5,"at":"2023-01-01","few":1,"raw":"AP8="}', fields))
"""


def run_worker(program: str, *pickled: Any, missing: Sequence[str] = (), fails: bool = False) -> str:
    """Run a program that reads what is pickled, without some modules; return what it printed, or its errors."""
    command = [sys.executable, "-c", program, *missing]
    process = subprocess.run(command, input=cloudpickle.dumps(pickled), capture_output=True, check=False)
    assert (process.returncode != 0) == fails, process.stderr.decode()
    return (process.stderr if fails else process.stdout).decode()


def test_a_record_is_decoded_where_the_package_cannot_be_imported() -> None:
    columns = [
        Column("n", "DECIMAL(38,18)", "A number.", between=(0.5, 1e12)),
        Column("at", "DATE", "A day.", written=Time("%Y-%m-%d")),
        Column("few", "INT", "A count."),
        Column("raw", "BINARY", "Bytes.", written="base64"),
    ]
    cloudpickle.register_pickle_by_value(decoding)
    output = run_worker(WORKER_WITHOUT_PACKAGE, records.decode, tuple(column.field for column in columns))
    assert "Decimal('12345678901.500000000000000000')" in output
    assert r"b'\x00\xff'" in output


WORKER = """
import pickle, sys
for name in ["lakehouse", *sys.argv[1:]]:
    sys.modules[name] = None  # an import of it fails
decode, batches = pickle.load(sys.stdin.buffer)
print([verdicts.to_pylist() for verdicts in decode(iter(batches))])
print("orjson" in sys.modules and sys.modules["orjson"] is not None)
"""
GOOD = b'{"latitude":51.5,"longitude":-0.099990845,"time":"2023-01-01T05:00","temperature_2m":10.4}'


LATE = Late("observed_at", timedelta(days=9_000), "accept")


def decode_on_worker(decode: Any, *batches: Any, missing: Sequence[str] = (), has_parser: bool = True) -> list[Any]:
    """Return the rows of each batch, decoded here; a worker without these modules decodes the same."""
    expected = [verdicts.to_pylist() for verdicts in decode(iter(batches))]
    rows, printed_parser = run_worker(WORKER, decode, batches, missing=missing).splitlines()
    assert (rows, printed_parser) == (repr(expected), str("orjson" not in missing))
    return expected


@pytest.mark.parametrize("late", [None, LATE])
@pytest.mark.parametrize("missing", [[], ["orjson"]])
def test_workers_without_the_parser_decode_the_same_rows(missing: list[str], late: Late | None) -> None:
    """If records may be late, the broker's times are sent with them."""
    values = pa.array([GOOD, None, b"{", GOOD[:-1] + b',"time":1}', GOOD], pa.binary())
    batch = (values, pa.array([1, 2, None, 4, 2**61], pa.int64())) if late else values
    expected = decode_on_worker(_decoder(replace(temperatures, late=late)), batch, batch, missing=missing)
    assert [row["_reason"] for row in expected[0]] == [None, "tombstone", "truncated", "duplicate_name", None]
    assert [row["_late"] for row in expected[0]] == [False, False, False, False, late is not None]


@pytest.mark.parametrize("missing", [[], ["orjson"]])
def test_records_with_many_rows_are_decoded_on_workers_too(missing: list[str]) -> None:
    columns = [Column("id", "INT", "Number.", source=ParentField("id")), Column("sku", "STRING", "Article.")]
    table = StreamTable("t", "t", "", columns, [], rows_from="items")
    values = [b'{"id": 1, "items": [{"sku": "a"}, {"sku": 7}, 5]}', b'{"id": 2}', b"{"]
    expected = decode_on_worker(_decoder(table), pa.array(values, pa.binary()), missing=missing)
    rows = [(row["_index"], row["_reason"], row["_keeps_raw"]) for rows in expected[0] for row in rows]
    rejections = [(1, "wrong_type", True), (2, "not_an_object", False)]
    assert rows == [(0, None, False), *rejections, (None, "empty", False), (None, "truncated", True)]


@pytest.mark.parametrize("missing", [[], ["orjson"]])
def test_values_that_a_reference_does_not_know_are_found_on_workers_too(missing: list[str]) -> None:
    (reference,) = heart_rates.references
    known_values = KnownValues(("mrn",), (pa.array([7], pa.int64()),))
    rules = [heart_rates.rejects[1]]
    columns = [Column("mrn", "BIGINT", "Patient.")]
    table = StreamTable("t", "t", "", columns, [], references=[reference], rejects=rules)
    batch = pa.array([b'{"mrn": 7}', b'{"mrn": 8}', b"{}"])
    expected = decode_on_worker(_decoder(table, known_values=[known_values]), batch, missing=missing)
    assert [row["_unknown_0"] for row in expected[0]] == [False, True, False]


AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}'
PROTOBUF = 'syntax = "proto3"; message R { int32 id = 1; }'
KEYS: dict[str, tuple[bytes, dict[int, WriterSchema]]] = {
    "json": (b'{"id": 3}', {}),
    "framed_json": (b'\x00\x00\x00\x00\x07{"id": 3}', {}),
    "avro": (b"\x00\x00\x00\x00\x07\x06", {7: writer_schema(AVRO)}),
    "protobuf": (b"\x00\x00\x00\x00\x07\x00\x08\x03", {7: writer_schema(PROTOBUF, kind="PROTOBUF")}),
}


def test_every_form_of_a_parsed_key_is_shipped() -> None:
    assert [*KEYS] == [*PARSED_ENCODINGS]


WORKERS = """
import os, pickle, sys
import pyarrow  # before the fork of a worker, as Spark's daemon does
sys.modules["lakehouse"] = None  # an import of it fails
while size := sys.stdin.buffer.readline():
    pickled_data = sys.stdin.buffer.read(int(size))
    if os.fork() == 0:
        decode, batches = pickle.loads(pickled_data)
        print([verdicts.to_pylist() for verdicts in decode(iter(batches))], flush=True)
        os._exit(0)
    os.wait()
    print(flush=True)
"""


@pytest.fixture(scope="module")
def decode_by_worker() -> Iterator[Callable[[Any, list[Any]], str]]:
    """Decode batches in a new worker; returns what it printed, nothing if it failed."""
    with subprocess.Popen([sys.executable, "-c", WORKERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        requests, answers = process.stdin, process.stdout

        def decode_there(decode: Any, batches: list[Any]) -> str:
            pickled_data = cloudpickle.dumps((decode, batches))
            requests.write(b"%d\n%b" % (len(pickled_data), pickled_data))
            requests.flush()
            return b"".join(iter(answers.readline, b"\n")).decode().strip()

        yield decode_there


@pytest.mark.parametrize("encoding", PARSED_ENCODINGS)
def test_every_form_of_a_key_is_shipped_with_its_schemas(
    encoding: KeyEncoding, decode_by_worker: Callable[[Any, list[Any]], str]
) -> None:
    key, schemas = KEYS[encoding]
    columns = [Column("id", "INT", "Number.", source=RecordKey(encoding, "id")), Column("n", "INT", "A field.")]
    decode = _decoder(StreamTable("t", "t", "", columns, []), Schemas(schemas, {}))
    batch = pa.array([b'{"n": 1}'] * 2, pa.binary()), pa.array([key, b"?"], pa.binary())
    expected = [verdicts.to_pylist() for verdicts in decode(iter([batch]))]
    assert decode_by_worker(decode, [batch]) == repr(expected)
    assert [(row["id"], row["n"], row["_reason"] is None) for row in expected[0]] == [(3, 1, True), (None, None, False)]


FORMATS = {
    Json(): b'{"id": 3}',
    Json(framed=True): b'{"id": 3}',
    Json(framed=True, checked=True): b'{"id": 3}',
    Json(in_text=True): b'{"id": 3}',
    Json(encoding="latin-1"): b'{"id": 3}',
    Avro(): b'{"id": 3}',
    Avro(named_branches=True): b'{"id": 3}',
    Avro(schema=AVRO): b'{"id": 3}',
    Avro(schemas=[AVRO]): b'{"id": 3}',
    Protobuf(): b'{"id": 3}',
    Debezium(): b'{"id": 3}',
    ConnectJson(): b'{"schema": null, "payload": {"id": 3}}',
    Text(): b'{"value": "3"}',
    Csv(["id"]): b'{"id": 3}',
    Logfmt(): b'{"id": 3}',
    Regex("(?P<id>.)"): b"3",
    FixedWidth([("id", 0, 1)]): b"3",
    BigEndian(): b'{"value": 3}',
    Compressed(Json(), "gzip"): b'{"id": 3}',
    Compressed(Logfmt(), "zstd"): b'{"id": 3}',
}


def test_every_class_of_formats_is_shipped() -> None:
    assert {type(record_format) for record_format in FORMATS} == {*FORMAT_KINDS}


@pytest.mark.parametrize("record_format", FORMATS, ids=repr)
def test_every_format_is_shipped_with_its_schemas(
    record_format: Format, decode_by_worker: Callable[[Any, list[Any]], str]
) -> None:
    """A module with a value that cannot be pickled would stop every batch of its format."""
    schema = {
        "AVRO": writer_schema(AVRO),
        "PROTOBUF": writer_schema(PROTOBUF, kind="PROTOBUF"),
        "JSON": writer_schema('{"patternProperties": {"^i.$": {"type": "integer"}}, "maxProperties": 1}', kind="JSON"),
    }.get(record_format.schema_kind or "")
    source = "value" if isinstance(record_format, Text | BigEndian) else "id"
    columns = [Column("id", "INT", "Number.", required=True, source=source)]
    table = StreamTable("t", "t", "", columns, ["id"], format=record_format)
    schemas = Schemas({7: schema}, {}) if schema else NO_SCHEMAS
    line = FORMATS[record_format]
    value = line if isinstance(record_format, Regex | FixedWidth) else record_format.writer(7, schema)(line)
    values = pa.array([value, None], pa.binary())
    decode = _decoder(table, schemas)
    expected = [verdicts.to_pylist() for verdicts in decode(iter([values]))]
    assert decode_by_worker(decode, [values]) == repr(expected)
    assert [row["id"] for row in expected[0]] == [None if record_format == Debezium() else 3, None]


def test_parts_of_texts_are_cut_on_workers_too(decode_by_worker: Callable[[Any, list[Any]], str]) -> None:
    columns = [Column("id", "INT", "Number.", source=Cut("line", r"n=(?P<id>\d+)"), null_values=["0"])]
    decode = _decoder(StreamTable("t", "t", "", columns, []))
    values = pa.array([b'{"line": "n=3"}', b'{"line": "n=0"}', b'{"line": "x"}', b'{"line": 3}'], pa.binary())
    expected = [verdicts.to_pylist() for verdicts in decode(iter([values]))]
    assert decode_by_worker(decode, [values]) == repr(expected)
    assert [row["_reason"] or row["id"] for row in expected[0]] == [3, None, "no_match", "wrong_type"]


@pytest.mark.parametrize(("record_format", "runs"), [(Json(), True), (Protobuf(), False)], ids=["Json", "Protobuf"])
def test_only_a_table_in_protobuf_needs_its_library_on_workers(record_format: Format, runs: bool) -> None:
    schema = writer_schema(PROTOBUF, kind="PROTOBUF")
    decode = _decoder(
        StreamTable("t", "t", "", [Column("id", "INT", "Number.")], [], format=record_format), Schemas({7: schema}, {})
    )
    values = pa.array([record_format.writer(7, schema)(b'{"id": 3}')], pa.binary())
    output = run_worker(WORKER, decode, [values], missing=["google.protobuf"], fails=not runs)
    message = "ModuleNotFoundError: reading Protobuf needs the Python package protobuf: install protobuf>=6.31 on every"
    assert (message in output) != runs


WORKER_THAT_GENERATES = """
import pickle, sys
sys.modules["lakehouse"] = None  # an import of it fails
generate, batches = pickle.load(sys.stdin.buffer)
print([batch.to_pylist() for batch in generate(iter(batches))])
"""


def test_records_are_generated_on_workers_too() -> None:
    cloudpickle.register_pickle_by_value(decoding)
    generate = _generator(Generated(fields={"a": Hash(), "b": Counter(), "c": Choice([1, "x"])}), 7)
    batch = pa.RecordBatch.from_pylist([{"partition": 3, "first": 0, "end": 5_001}])
    output = run_worker(WORKER_THAT_GENERATES, generate, [batch])
    expected = [batch.to_pylist() for batch in generate(iter([batch]))]
    assert [len(rows) for rows in expected] == [5_000, 1]
    (last,) = expected[1]  # the record 500,003 at 10,000 per second
    assert (last["_partition"], last["_position"]) == (3, 5_000)
    assert last["_time"] == datetime(1970, 1, 1, 0, 0, 50, 307, UTC)
    assert last["_value"].startswith(b'{"a": "') and b'"b": 500003, "c": ' in last["_value"]
    assert output.splitlines() == [repr(expected)]
