"""The records of ``temperatures`` in each form that ``decoding`` measures, with the tables that read them.

One record is one reading, unless a form says otherwise. Every record is valid: a rejected one costs more.
"""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import fastavro

from lakehouse.declaration import Avro, Csv, Debezium, Protobuf, StreamTable, Time
from lakehouse.decoding.formats import writer_schema
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.examples.tables.temperatures import temperatures

_NAMES = ("latitude", "longitude", "time", "temperature_2m")
_AVRO = {
    "type": "record",
    "name": "Temperature",
    "fields": [
        {"name": "latitude", "type": "double"},
        {"name": "longitude", "type": "double"},
        {"name": "time", "type": "string"},
        {"name": "temperature_2m", "type": ["null", "double"], "default": None},
    ],
}
_PROTOBUF = """syntax = "proto3";
message Temperature {
  double latitude = 1;
  double longitude = 2;
  string time = 3;
  optional double temperature_2m = 4;
}"""
_SOURCE_TYPES = {"connector": "string", "ts_ms": "int64", "snapshot": "string", "db": "string", "lsn": "int64"}
_TEXT_COLUMNS = [
    column if column.time.pattern else replace(column, written="text") for column in temperatures.record_columns
]
_ISO_COLUMNS = [
    replace(column, written=Time("iso8601")) if column.time.pattern else column
    for column in temperatures.record_columns
]
_HELD_COLUMNS = [replace(column, source=("payload", column.field.source)) for column in temperatures.record_columns]
_UNKEPT_COLUMNS = [replace(column, keep=False) for column in temperatures.record_columns]
_CHANGES = replace(temperatures, base=None, columns=_UNKEPT_COLUMNS, format=Debezium(decimal_handling_mode="double"))
READINGS = 5
"""Readings in each record of the form with several."""


class Form(NamedTuple):
    """How records are written, and the table that reads them; ``encode`` takes plain records."""

    table: StreamTable
    encode: Callable[[Sequence[bytes]], list[bytes]]
    schemas: Schemas = NO_SCHEMAS
    readings: int = 1


def _each(encode: Callable[[bytes], bytes]) -> Callable[[Sequence[bytes]], list[bytes]]:
    return lambda samples: [encode(sample) for sample in samples]


def _number_texts(sample: bytes) -> bytes:
    """The same record, with each number as a text."""
    return _json(json.loads(sample, parse_float=str, parse_int=str))


def _iso_time(sample: bytes) -> bytes:
    """The same record, with seconds and an offset in its time."""
    record = json.loads(sample)
    return _json({**record, "time": f"{record['time']}:00+02:00"})


def _as_text(sample: bytes) -> bytes:
    """A record that holds the same one as text."""
    return _json({"payload": sample.decode()})


def _in_arrays(samples: Sequence[bytes]) -> list[bytes]:
    """Records that hold several of these each."""
    groups = (samples[start : start + READINGS] for start in range(0, len(samples), READINGS))
    return [b'{"readings":[' + b",".join(group) + b"]}" for group in groups if len(group) == READINGS]


def _odd(sample: bytes) -> bytes:
    """The same record with an exponent in its latitude, which only the strict rules decode."""
    return sample.replace(b',"longitude"', b'e0,"longitude"', 1)


def _some_odd(samples: Sequence[bytes], every: int) -> list[bytes]:
    return [sample if number % every else _odd(sample) for number, sample in enumerate(samples)]


def _encode_avro(sample: bytes) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(_AVRO), json.loads(sample))
    return add_frame(1, buffer.getvalue())


def _encode_csv(sample: bytes) -> bytes:
    record = json.loads(sample)
    return ",".join(str(record.get(name, "")) for name in _NAMES).encode()


def _as_changes(samples: Sequence[bytes], *, with_schemas: bool) -> list[bytes]:
    """The same records as Debezium writes inserts, with or without the schema in each."""
    return [_change(json.loads(sample), position, with_schemas) for position, sample in enumerate(samples, 1)]


def _change(record: dict[str, Any], position: int, with_schemas: bool) -> bytes:
    source = {"connector": "postgresql", "ts_ms": 1, "snapshot": "false", "db": "weather", "lsn": position}
    row = {name: record.get(name) for name in _NAMES}
    envelope = {"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1}
    return _json({"schema": _change_schema(), "payload": envelope} if with_schemas else envelope)


def _change_schema() -> dict[str, Any]:
    """The schema of a change, as the JSON converter writes it with ``schemas.enable``."""
    row = _struct({name: "string" if name == "time" else "double" for name in _NAMES})
    sides = [{**row, "field": side} for side in ("before", "after")]
    metadata = [{"type": "string", "field": "op"}, {"type": "int64", "optional": True, "field": "ts_ms"}]
    return {"type": "struct", "fields": [*sides, {**_struct(_SOURCE_TYPES), "field": "source"}, *metadata]}


def _struct(types: dict[str, str]) -> dict[str, Any]:
    fields = [{"type": type_, "optional": True, "field": name} for name, type_ in types.items()]
    return {"type": "struct", "optional": True, "fields": fields}


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def forms() -> dict[str, Form]:
    """The forms by name; *JSON* is the plain one."""
    avro, protobuf = writer_schema(json.dumps(_AVRO)), writer_schema(_PROTOBUF, kind="PROTOBUF")
    encode_protobuf = Protobuf().writer(1, protobuf)
    return {
        "JSON": Form(temperatures, list),
        "JSON, numbers as text": Form(replace(temperatures, columns=_TEXT_COLUMNS), _each(_number_texts)),
        "JSON, times of ISO 8601": Form(replace(temperatures, columns=_ISO_COLUMNS), _each(_iso_time)),
        "JSON in a text": Form(replace(temperatures, base=None, columns=_HELD_COLUMNS), _each(_as_text)),
        f"JSON, {READINGS} readings in a record": Form(
            replace(temperatures, base=None, rows_from="readings"), _in_arrays, readings=READINGS
        ),
        "JSON, one record in ten odd": Form(temperatures, partial(_some_odd, every=10)),
        "JSON, all records odd": Form(temperatures, partial(_some_odd, every=1)),
        "Debezium, JSON without schemas": Form(_CHANGES, partial(_as_changes, with_schemas=False)),
        "Debezium, JSON with schemas": Form(_CHANGES, partial(_as_changes, with_schemas=True)),
        "Avro": Form(replace(temperatures, format=Avro()), _each(_encode_avro), Schemas({1: avro}, {})),
        "Protobuf": Form(replace(temperatures, format=Protobuf()), _each(encode_protobuf), Schemas({1: protobuf}, {})),
        "CSV": Form(replace(temperatures, base=None, format=Csv(list(_NAMES))), _each(_encode_csv)),
    }
