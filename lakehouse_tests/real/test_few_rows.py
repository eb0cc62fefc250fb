"""Few rows are stored without Spark, with the same rows, counts and changes as by Spark."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from lakehouse.declaration import Column
from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.errors import TableError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.ledger import read_ledger
from lakehouse.spark.own_session import collect_rows
from lakehouse.storage import stored_table
from lakehouse.storage.data_files import read_rows
from lakehouse.storage.delta_rs_writer import append_quickly
from lakehouse.storage.eligibility import can_append_quickly
from lakehouse.storage.key_hashes import KEYS_FOLDER
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.row_order import merged_layout
from lakehouse.storage.schema_change import ensure_table
from lakehouse.storage.spark_writer import commit_append, read_table
from lakehouse_tests.helpers.attacks.writers import by_writer
from lakehouse_tests.helpers.brokers.revised_streams import BY_REVISION
from lakehouse_tests.helpers.brokers.streams import ABSENT, Stream, counts, hour, record

ODD_TEXT = 'it\'s "odd" \\ \n ä😀'


def send_batches(stream: Stream) -> None:
    """Merge three batches: new rows; updates, duplicates, stale and rejected records of two months; repetitions."""
    first = [record(time=hour(number), temperature_2m=float(number), note=ODD_TEXT, revision=2) for number in range(4)]
    stream.send_and_merge(*first)
    stream.send_and_merge(
        record(time=hour(0), temperature_2m=ABSENT, note=None, revision=3),
        record(time=hour(1), temperature_2m=9.5, revision=1),  # older than the row, newer than its temperature
        record(time=hour(2), temperature_2m=ABSENT, revision=1),
        record(time="2023-02-03T08:00", temperature_2m=1.0),
        record(time="2023-02-03T08:00", temperature_2m=2.0),
        b"{",
    )
    stream.send_and_merge(*first[:2], record(time=hour(5)))


def tables_and_counts(stream: Stream) -> list[Any]:
    """Rows without record times, which differ between streams; counts; changes of each version; the rollup."""
    columns = (
        "observed_at, temperature_2m, note, revision, observed_month, _record.position, _kept.temperature_2m.position"
    )
    rows = stream.sql(f"SELECT {columns} FROM {{t}} ORDER BY 1")
    changes = stream.sql(
        "SELECT observed_at, change, source_version, temperature_2m_before, temperature_2m_after, note_before,"
        " note_after FROM {changes} ORDER BY 1, 3"
    )
    return [
        rows,
        [counts(entry) for entry in stream.ledger.entries],
        changes,
        stream.sql("SELECT * FROM {rollup} ORDER BY observed_month"),
    ]


def writers(stream: Stream) -> list[str]:
    """The writers of the newest commits, the newest first."""
    return [info["engineInfo"].split("-")[0] for info in DeltaTable(stream.uri).history(3)]


def collect_one_byte(rows: DataFrame) -> Any:
    """Collect rows while Spark returns at most one byte."""
    conf = rows.sparkSession.sparkContext._jsc.sc().conf()
    conf.set("spark.driver.maxResultSize", "1")
    try:
        collected_rows = collect_rows(rows)
        assert collected_rows is None, "the rows were not too large"
    finally:
        conf.remove("spark.driver.maxResultSize")


@pytest.fixture
def stream(spark, broker) -> Stream:
    extra_columns = [Column("note", "STRING", doc="d"), Column("revision", "BIGINT", doc="d")]
    return Stream.create(spark, broker, columns=[*temperatures.columns, *extra_columns], version=BY_REVISION)


@pytest.mark.invariant("7.4")
@pytest.mark.slow
def test_rows_counts_and_changes_equal_those_of_spark(stream, spark, broker):
    send_batches(stream)
    stream.refresh()
    stream.assert_accounted()
    assert writers(stream) == ["delta"] * 3
    assert not Path(stream.uri, KEYS_FOLDER).exists(), "a small table needs no hashes"
    for writer, engine in (("Spark", "Apache"), ("slots", "lakehouse"), ("new keys", "lakehouse")):
        other_stream = Stream.create(spark, broker, columns=stream.table.columns, version=BY_REVISION)
        with by_writer(writer):
            send_batches(other_stream)
            other_stream.refresh()
        assert writers(other_stream)[:2] == [engine] * 2
        assert tables_and_counts(other_stream) == tables_and_counts(stream)
        other_stream.assert_accounted()


@pytest.mark.parametrize("rows", ["all stale", "too large to be held here"])
def test_spark_commits_what_delta_rs_does_not(stream, monkeypatch, rows):
    stream.send_and_merge(record(revision=5))
    if rows == "all stale":
        stream.send(record(revision=4))
    else:
        stream.send(record(revision=6))
        monkeypatch.setattr(stored_table, "collect_rows", collect_one_byte)
    (outcome,) = stream.merge()
    assert writers(stream)[:2] == ["Apache", "delta"] and counts(outcome.entry)["stale"] == (rows == "all stale")
    stream.assert_accounted()


@pytest.mark.invariant("7.8")
@pytest.mark.slow
def test_a_duplicate_key_from_another_writer_is_refused(stream):
    stream.send_and_merge(record(revision=5))
    stream.sql("INSERT INTO {t} SELECT * FROM {t}")
    stream.send(record(revision=6))
    before = stream.ledger.version
    with pytest.raises(TableError, match="more than one row"):
        stream.merge()
    assert stream.ledger.version == before


@pytest.mark.slow
def test_rows_read_from_files_equal_those_that_delta_reads(stream):
    send_batches(stream)
    stream.sql("UPDATE {t} SET observed_month = NULL WHERE observed_at = TIMESTAMP'2023-01-01 03:00:00'")
    layout, version = merged_layout(stream.table, stream.settings), stream.ledger.version

    def rows_and_types(rows: Any) -> Any:
        return sorted(map(str, rows.collect())), rows.dtypes

    assert rows_and_types(read_rows(stream.spark, layout, version)) == rows_and_types(
        read_table(stream.spark, layout, version)
    )
    january = "observed_month = DATE'2023-01-01'"
    january_rows = read_rows(stream.spark, layout, version, ["2023-01-01"])
    assert (
        rows_and_types(january_rows)
        == rows_and_types(read_table(stream.spark, layout).where(january))
        != rows_and_types(january_rows.limit(0))
    )
    before = read_rows(stream.spark, layout, version - 1, ["2023-01-01"])
    assert rows_and_types(before) == rows_and_types(read_table(stream.spark, layout, version - 1)), (
        "Delta reads another version"
    )


VALUES: dict[str, Any] = {
    "STRING": ("é" * 10, "b", "\U0001f600"),
    "BOOLEAN": (True, False, True),
    "INT": (1, -(2**31), 2**31 - 1),
    "BIGINT": (2**53 + 1, 0, -1),
    "DATE": (date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)),
    "TIMESTAMP": tuple(datetime(y, 1, 1, 0, 0, 0, us, UTC) for y, us in ((1500, 1), (1969, 999999), (9999, 123456))),
    "DECIMAL(9,2)": (Decimal("1.10"), Decimal("-3.00"), Decimal("9999999.99")),
    "DECIMAL(15,6)": (Decimal("1.100000"), Decimal("123456789.123456"), Decimal("-0.000001")),
}


def rows_of_every_type(folder: Path) -> tuple[Layout, pa.Table]:
    """A layout with a column of every type that has statistics, and rows; the last two values of each are NULL."""
    columns = [TableColumn(f"c{number}", type_, "d") for number, type_ in enumerate(VALUES)]
    columns += [TableColumn("none", "BIGINT", "d"), TableColumn("other", "DOUBLE", "d")]
    statistics_columns = [column.name for column in columns[:-1]]
    columns.append(TableColumn.struct("s", "d", [TableColumn("a", "INT", "d")]))
    values = {
        f"c{number}": pa.array([*items, None, None], arrow_type(type_))
        for number, (type_, items) in enumerate(VALUES.items())
    }
    values |= {"none": pa.nulls(5, pa.int64()), "other": pa.array([1.5, float("nan"), None, None, None])}
    inner = pa.array([{"a": 1}, {"a": None}, None, None, None], pa.struct([("a", pa.int32())]))
    return Layout("t", str(folder / "t"), "d", columns, statistics=statistics_columns), pa.table({**values, "s": inner})


def file_statistics(layout: Layout, version: int) -> tuple[list[Any], dict[str, Any]]:
    """Column facts in the footer of the file that a version added, and the statistics of the file in the log."""
    log = Path(layout.uri, "_delta_log", f"{version:020d}.json").read_text()
    (added_file,) = (action["add"] for action in map(json.loads, log.splitlines()) if "add" in action)
    footer = pq.read_metadata(Path(layout.uri, added_file["path"]))
    columns = [footer.row_group(0).column(number) for number in range(footer.num_columns)]
    footer_columns = [(c.path_in_schema, c.physical_type, c.compression, c.statistics.null_count) for c in columns]
    return footer_columns, json.loads(added_file["stats"])


def test_files_and_log_have_the_statistics_that_spark_writes_for_every_type(spark, tmp_path):
    layout, rows = rows_of_every_type(tmp_path)
    ensure_table(spark, layout)
    assert can_append_quickly(layout, 5)
    append_quickly(layout, rows, read_ledger(layout.uri, "t").next_commit("derived", "test"))
    commit = read_ledger(layout.uri, "t").next_commit("derived", "test")
    commit_append(spark, layout, read_table(spark, layout).coalesce(1), commit)
    by_delta_rs, by_spark_writer = (file_statistics(layout, version) for version in (1, 2))
    assert by_delta_rs == by_spark_writer
    assert {column[2] for column in by_delta_rs[0]} == {"SNAPPY"} and len(by_spark_writer[1]["nullCount"]) == len(
        VALUES
    )
