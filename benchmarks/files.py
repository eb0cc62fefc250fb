"""Files of JSON lines into a log table, next to Spark: it reads the same files with the same schema, and appends.

Each turn fills a table of its own. Of ``lakehouse``, it also numbers the files, and accounts for each record.
"""

import json
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

from benchmarks.turns import Measurement, take_turns
from benchmarks.world import START
from lakehouse.declaration import Column, Files, StreamTable, Time
from lakehouse.ingest.batches import merge_all
from lakehouse.settings import Settings
from lakehouse.spark.sessions import build_session, stop_session
from lakehouse.storage.table_context import TableContext

LINES = 11_000  # of a file: 1 MB
PLACES = 110
_WARM_UP_FILES = 40
_SCHEMA = "latitude DECIMAL(9,6), longitude DECIMAL(9,6), time TIMESTAMP, temperature_2m DOUBLE"
READINGS = StreamTable(
    name="readings",
    source=Files("in"),
    doc="Readings of temperatures.",
    key=[],
    columns=[
        Column("latitude", "DECIMAL(9,6)", "Degrees north.", required=True),
        Column("longitude", "DECIMAL(9,6)", "Degrees east.", required=True),
        Column("time", "TIMESTAMP", "Hour of the reading.", required=True, written=Time("%Y-%m-%dT%H:%M")),
        Column("temperature_2m", "DOUBLE", "Degrees Celsius, two metres above the ground."),
    ],
)


def run(turns: int, files: int) -> dict[str, Measurement]:
    """Measure both in turns, on ``files`` files of 1 MB each. Raise ``ValueError`` if their rows differ."""
    with tempfile.TemporaryDirectory() as home:
        warm_up_folder, folder = (_write_files(Path(home, str(count)), count) for count in (_WARM_UP_FILES, files))
        settings = Settings(home=Path(home, "home"), spark_master="local[2]")
        spark = build_session(settings)
        try:
            _measure(spark, settings, warm_up_folder, 2)
            measurements, tables = _measure(spark, settings, folder, turns)
            _require_same_rows(spark, tables)
            return measurements
        finally:
            stop_session(spark)


def _write_files(folder: Path, files: int) -> Path:
    folder.mkdir()
    for number in range(files):
        lines = (json.dumps(_reading(number * LINES + line)).encode() for line in range(LINES))
        (folder / f"{number:05d}.json").write_bytes(b"\n".join(lines) + b"\n")
    return folder


def _reading(number: int) -> dict[str, object]:
    hour = START + timedelta(hours=number // PLACES)
    place = {"latitude": number % PLACES - 50.25, "longitude": 13.4}
    return {**place, "time": f"{hour:%Y-%m-%dT%H:%M}", "temperature_2m": number % 400 / 10}


def _measure(
    spark: SparkSession, settings: Settings, folder: Path, turns: int
) -> tuple[dict[str, Measurement], dict[str, str]]:
    tables = dict[str, str]()

    def append() -> None:
        tables["Spark"] = settings.table_uri(f"t_{uuid4().hex[:8]}")
        reader = spark.read.schema(_SCHEMA).option("timestampFormat", "yyyy-MM-dd'T'HH:mm")
        reader.json(str(folder)).write.format("delta").mode("append").save(tables["Spark"])

    def merge() -> None:
        source = Files(str(folder), settle=timedelta(0))
        table = replace(READINGS, name=f"t_{uuid4().hex[:8]}", source=source)
        tables["lakehouse"] = settings.table_uri(table.name)
        merge_all(TableContext(spark, settings, table, "benchmark"))

    return take_turns(turns, {"Spark": append, "lakehouse": merge}), tables


def _require_same_rows(spark: SparkSession, tables: dict[str, str]) -> None:
    """Compare the tables of the last turns: the number of rows and the sum of their hashes."""
    hash_sql = "CAST(xxhash64(latitude, longitude, time, temperature_2m) AS DECIMAL(38,0))"
    sums = {
        name: tuple(spark.read.format("delta").load(uri).selectExpr("count(*)", f"sum({hash_sql})").collect()[0])
        for name, uri in tables.items()
    }
    if len({*sums.values()}) > 1:
        raise ValueError(f"Rows differ: {sums}")
