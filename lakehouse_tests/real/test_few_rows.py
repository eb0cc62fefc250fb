"""Few rows are stored without Spark: to the same rows, counts and changes, or by Spark after all."""

from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from lakehouse.batch import merge
from lakehouse.declaration import Column
from lakehouse.delta.files import read_rows
from lakehouse.delta.order import merged_layout
from lakehouse.delta.write import read_table
from lakehouse.errors import TableError
from lakehouse.spark import collected
from lakehouse.tables.temperatures import temperatures
from lakehouse_tests.helpers.streams import ABSENT, Stream, counts, hour, record
from lakehouse_tests.helpers.writers import by_spark

pytestmark = pytest.mark.invariant(3, 4, 5, 7, 10)
ODD = 'it\'s "odd" \\ \n ä😀'


def sent(stream: Stream) -> None:
    """Three batches: new rows, then updates, duplicates, stale and rejected ones in two months, then a replay's."""
    first = [record(time=hour(number), temperature_2m=float(number), note=ODD, revision=2) for number in range(4)]
    stream.send(*first)
    stream.merge()
    stream.send(
        record(time=hour(0), temperature_2m=ABSENT, note=None, revision=3),
        record(time=hour(1), temperature_2m=9.5, revision=1),  # older than the row, newer than its temperature
        record(time=hour(2), temperature_2m=ABSENT, revision=1),
        record(time=hour(800), temperature_2m=1.0),
        record(time=hour(800), temperature_2m=2.0),
        b"{",
    )
    stream.merge()
    stream.send(*first[:2], record(time=hour(5)))
    stream.merge()


def told(stream: Stream) -> list[Any]:
    """Rows without the positions of records, which differ by their time, counts, and the changes of each version."""
    columns = "observed_at, temperature_2m, note, revision, observed_month, _record.offset, _kept.temperature_2m.offset"
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
    """Who made the newest commits, the newest first."""
    return [info["engineInfo"].split("-")[0] for info in DeltaTable(stream.uri).history(3)]


def within_a_byte(rows: DataFrame) -> Any:
    """Collect rows where Spark gives away no more than a byte."""
    conf = rows.sparkSession.sparkContext._jsc.sc().conf()
    conf.set("spark.driver.maxResultSize", "1")
    try:
        found = collected(rows)
        assert found is None, "they were not too large"
    finally:
        conf.remove("spark.driver.maxResultSize")


@pytest.fixture
def stream(spark, broker) -> Stream:
    added = [Column("note", "STRING", doc="d"), Column("revision", "BIGINT", doc="d")]
    return Stream.create(spark, broker, columns=[*temperatures.columns, *added], version="revision")


def test_rows_counts_and_changes_are_those_that_spark_makes(stream, spark, broker):
    sent(stream)
    other = Stream.create(spark, broker, columns=stream.table.columns, version="revision")
    with by_spark():
        sent(other)
        other.refresh()
    stream.refresh()
    assert (writers(stream), writers(other)) == (["delta"] * 3, ["Apache"] * 3)
    assert told(stream) == told(other)
    for each in (stream, other):
        each.assert_accounted()


@pytest.mark.parametrize("rows", ["all stale", "too large to be held here"])
def test_what_deltalake_does_not_commit_spark_does(stream, monkeypatch, rows):
    stream.send(record(revision=5))
    stream.merge()
    if rows == "all stale":
        stream.send(record(revision=4))
    else:
        stream.send(record(revision=6))
        monkeypatch.setattr(merge, "collected", within_a_byte)
    (outcome,) = stream.merge()
    assert writers(stream)[:2] == ["Apache", "delta"] and counts(outcome.entry)["stale"] == (rows == "all stale")
    stream.assert_accounted()


def test_a_key_that_somebody_made_to_stand_twice_is_refused(stream):
    stream.send(record(revision=5))
    stream.merge()
    stream.sql("INSERT INTO {t} SELECT * FROM {t}")
    stream.send(record(revision=6))
    before = stream.ledger.version
    with pytest.raises(TableError, match="more than one row"):
        stream.merge()
    assert stream.ledger.version == before


def test_rows_read_from_their_files_are_those_that_delta_reads(stream):
    sent(stream)
    stream.sql("UPDATE {t} SET observed_month = NULL WHERE observed_at = TIMESTAMP'2023-01-01 03:00:00'")
    layout, version = merged_layout(stream.table, stream.settings), stream.ledger.version

    def found(rows: Any) -> Any:
        return sorted(map(str, rows.collect())), rows.dtypes

    assert found(read_rows(stream.spark, layout, version)) == found(read_table(stream.spark, layout, version))
    january = "observed_month = DATE'2023-01-01'"
    few = read_rows(stream.spark, layout, version, ["2023-01-01"])
    assert found(few) == found(read_table(stream.spark, layout).where(january)) != found(few.limit(0))
    before = read_rows(stream.spark, layout, version - 1, ["2023-01-01"])
    assert found(before) == found(read_table(stream.spark, layout, version - 1)), "another version is Delta's to read"
