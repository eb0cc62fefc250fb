"""Decoding: its time compared to reading alone and to Spark's ``from_json``, in turns within one run.

The records are those of ``temperatures``, with keys and without headers: in JSON, in JSON with numbers as texts, with
times of ISO 8601, as a text in JSON, or with several readings in each, and in Avro. Parquet files hold them in the form
in which they are read from a topic.
"""

import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import fastavro
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from benchmarks.turns import Measurement, take_turns
from lakehouse.declaration import Avro, Month
from lakehouse.decoding import staged
from lakehouse.decoding.formats.avro.schemas import writer_schema
from lakehouse.decoding.formats.format import Schemas
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.verdicts import decode_values
from lakehouse.examples.samples.temperature_records import TemperatureSamples
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.decode import decode_records
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session, stop_session

_JSON = "latitude DECIMAL(9,6), longitude DECIMAL(9,6), time STRING, temperature_2m DOUBLE"
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
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_PARTITION = Month("observed_at")
TEXT_TABLE = replace(
    temperatures,
    columns=[column if column.pattern else replace(column, written="text") for column in temperatures.columns],
)
ISO_TABLE = replace(
    temperatures,
    columns=[replace(column, pattern="iso8601") if column.pattern else column for column in temperatures.columns],
)
HELD_TABLE = replace(
    temperatures,
    base=None,
    columns=[replace(column, source=("payload", column.field.source)) for column in temperatures.columns],
)
"""The table of records that are a text in JSON."""
ELEMENTS = 5
"""Readings in each record of ``ELEMENT_TABLE``."""
ELEMENT_TABLE = replace(temperatures, base=None, rows_from="readings")
_WARM_UP_ROUNDS = 8  # rounds before the measurement, while Java still compiles the code
_VERDICTS = "_reason STRING, _detail STRING, _late BOOLEAN"


def write_records(folder: Path, samples: Sequence[bytes], count: int, partitions: int = 4) -> None:
    """Write ``count`` records, which repeat the samples, into one file per partition."""
    folder.mkdir()
    values = list(islice(cycle(samples), count // partitions))
    size = len(values)
    for partition in range(partitions):
        columns = {
            "_time": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * size, pa.timestamp("us", tz="UTC")),
            "_partition": pa.array([partition] * size, pa.int32()),
            "_position": pa.array(range(size), pa.int64()),
            "_sequence": pa.nulls(size, pa.int64()),
            "_key": pa.array([b"51.5|-0.1|2023-01-01T05:00"] * size, pa.binary()),
            "_value": pa.array(values, pa.binary()),
            "_headers": pa.array([[]] * size, _HEADERS),
        }
        parquet.write_table(pa.table(columns), folder / f"{partition}.parquet")


def run(turns: int, count: int = 400_000) -> dict[str, Measurement]:
    """Measure each way to decode ``count`` records, in turns, once the process is warm."""
    with tempfile.TemporaryDirectory() as folder:
        spark = build_session(Settings(home=Path(folder) / "home", spark_master="local[2]"))
        try:
            samples = list(TemperatureSamples().stream())
            write_records(Path(folder, "json"), samples, count)
            write_records(Path(folder, "text"), [number_texts(sample) for sample in samples], count)
            write_records(Path(folder, "iso"), [iso_time(sample) for sample in samples], count)
            write_records(Path(folder, "held"), [as_text(sample) for sample in samples], count)
            write_records(Path(folder, "elements"), in_arrays(samples), count // ELEMENTS)
            write_records(Path(folder, "avro"), [_encode_avro(sample) for sample in samples], count)
            records, text_records, iso_records, held_records, element_records, avro_records = (
                spark.read.parquet(f"{folder}/{name}/*.parquet")
                for name in ("json", "text", "iso", "held", "elements", "avro")
            )
            schemas = Schemas({1: writer_schema(json.dumps(_AVRO))}, {})
            avro_table = replace(temperatures, format=Avro())
            frames: dict[str, Callable[[], DataFrame]] = {
                "read only": lambda: records,
                "from_json": lambda: _from_json(records),
                "decoded": lambda: decode_records(records, temperatures),
                "decoded, numbers as text": lambda: decode_records(text_records, TEXT_TABLE),
                "decoded, times of ISO 8601": lambda: decode_records(iso_records, ISO_TABLE),
                "decoded, JSON in a text": lambda: decode_records(held_records, HELD_TABLE),
                "decoded, 5 readings in a record": lambda: decode_records(element_records, ELEMENT_TABLE),
                "decoded, Avro": lambda: decode_records(avro_records, avro_table, schemas),
                "decoded strictly": lambda: _decode_strictly(records),
            }
            contenders = {name: partial(_drain, frame) for name, frame in frames.items()}
            take_turns(_WARM_UP_ROUNDS, contenders)
            return take_turns(turns, contenders)
        finally:
            stop_session(spark)


def number_texts(sample: bytes) -> bytes:
    """The same record, with each number as a text."""
    record = json.loads(sample, parse_float=str, parse_int=str)
    return json.dumps(record, separators=(",", ":")).encode()


def iso_time(sample: bytes) -> bytes:
    """The same record, with seconds and an offset in its time."""
    record = json.loads(sample)
    return json.dumps({**record, "time": f"{record['time']}:00+02:00"}, separators=(",", ":")).encode()


def as_text(sample: bytes) -> bytes:
    """A record that holds the same one as text."""
    return json.dumps({"payload": sample.decode()}, separators=(",", ":")).encode()


def in_arrays(samples: Sequence[bytes]) -> list[bytes]:
    """Records that hold several of these each."""
    groups = (samples[start : start + ELEMENTS] for start in range(0, len(samples), ELEMENTS))
    return [b'{"readings":[' + b",".join(group) + b"]}" for group in groups if len(group) == ELEMENTS]


def _encode_avro(sample: bytes) -> bytes:
    """Encode the same record in Avro."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(_AVRO), json.loads(sample))
    return add_frame(1, buffer.getvalue())


def _drain(frame: Callable[[], DataFrame]) -> None:
    frame().write.format("noop").mode("overwrite").save()


def _from_json(records: DataFrame) -> DataFrame:
    """Decode with Spark alone: typed columns and a time; no record is rejected."""
    parsed_records = records.withColumn("_json", F.from_json(F.col("_value").cast("string"), _JSON))
    observed_at = F.expr("to_timestamp(_json.time, \"yyyy-MM-dd'T'HH:mm\")").alias("observed_at")
    typed_rows = parsed_records.select(
        *staged.PLACE, *staged.RAW, "_json.latitude", "_json.longitude", observed_at, "_json.temperature_2m"
    )
    return typed_rows.withColumn(_PARTITION.name, F.expr(_PARTITION.expression))


def _decode_strictly(records: DataFrame) -> DataFrame:
    """Decode every record by the strict rules and every column in Python: the slow path."""
    rules = Rules(temperatures.fields, None)

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            verdicts = decode_values(
                batch.column("_value"), batch.column("_time").cast(pa.int64()), rules, None
            ).verdicts
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *verdicts.flatten()], names=[*batch.schema.names, *verdicts.type.names]
            )

    column_types = ", ".join(f"`{field.name}` {field.type}" for field in temperatures.fields)
    record_types = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in records.schema)
    return records.mapInArrow(decode, f"{record_types}, {_VERDICTS}, {column_types}")
