"""Decoding: its time compared to reading alone and to Spark's ``from_json``, in turns within one run.

The records are those of ``temperatures``, with keys and without headers, in each form of ``decoded_forms``. Parquet
files hold them in the form in which they are read from a topic. Before a run for the record, nothing else may run.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from benchmarks.decoded_forms import Form, forms
from benchmarks.turns import Measurement, take_turns
from lakehouse.declaration import Month
from lakehouse.decoding import staged
from lakehouse.decoding.rules import Rules
from lakehouse.decoding.verdicts import decode_values
from lakehouse.examples.samples import TemperatureSamples
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.decode import decode_records
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session, stop_session

_JSON = "latitude DECIMAL(9,6), longitude DECIMAL(9,6), time STRING, temperature_2m DOUBLE"
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_PARTITION = Month("observed_at")
_BASE = "from_json"
_WARM_UP_ROUNDS = 8  # rounds before the measurement, while Java still compiles the code
_WARM_UP_SHARE = 8  # one record in so many: the slow forms would take longer to warm up than to measure
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
    """Measure each way to decode ``count`` readings, in turns, once the process is warm."""
    with tempfile.TemporaryDirectory() as folder:
        spark = build_session(Settings(home=Path(folder) / "home", spark_master="local[2]"))
        try:
            warm_up = _contenders(spark, Path(folder, "warm-up"), count // _WARM_UP_SHARE)
            contenders = _contenders(spark, Path(folder, "measured"), count)
            take_turns(_WARM_UP_ROUNDS, warm_up)
            return take_turns(turns, contenders)
        finally:
            stop_session(spark)


def cpu_rows(measurements: Mapping[str, Measurement]) -> list[dict[str, object]]:
    """The CPU seconds of each contender, of all processes; the ratio is that of the medians of CPU seconds."""
    base = statistics.median(measurements[_BASE].cpu)
    return [
        {
            "": name,
            "CPU seconds": f"{statistics.median(measurement.cpu):.2f}",
            "from - to": f"{min(measurement.cpu):.2f} - {max(measurement.cpu):.2f}",
            "seconds": f"{measurement.median:.2f}",
            f"CPU / {_BASE}": f"{statistics.median(measurement.cpu) / base:.2f}",
        }
        for name, measurement in measurements.items()
    ]


def _contenders(spark: SparkSession, folder: Path, count: int) -> dict[str, Callable[[], None]]:
    samples, frames = list(TemperatureSamples().stream()), dict[str, Callable[[], DataFrame]]()
    folder.mkdir()
    for name, form in forms().items():
        write_records(folder / name, form.encode(samples), count // form.readings)
        records = spark.read.parquet(f"{folder / name}/*.parquet")
        if not frames:
            frames["read only"] = partial(_read, records)
            frames[_BASE] = partial(_from_json, records)
            frames["decoded strictly"] = partial(_decode_strictly, records)
        frames[f"decoded, {name}"] = partial(_decode, records, form)
        if not _decode(records, form).where(f"{staged.REASON} IS NOT NULL").isEmpty():
            raise ValueError(f"Records of the form {name!r} are rejected")
    return {name: partial(_drain, frame) for name, frame in frames.items()}


def _drain(frame: Callable[[], DataFrame]) -> None:
    frame().write.format("noop").mode("overwrite").save()


def _read(records: DataFrame) -> DataFrame:
    return records


def _decode(records: DataFrame, form: Form) -> DataFrame:
    return decode_records(records, form.table, form.schemas)


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
