"""A table with deletion vectors: batches hide rows instead of copying files, and readers see the same rows."""

from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaProtocolError

from lakehouse.declaration import Column, Upkeep
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.added_files import added_files
from lakehouse.ledger.versions import count_rows, scan_rows
from lakehouse.operations.erase_rows import erase
from lakehouse.operations.maintain import maintain
from lakehouse.query.connections import connect
from lakehouse.storage import stored_table
from lakehouse_tests.helpers.attacks.writers import by_writer
from lakehouse_tests.helpers.brokers.revised_streams import BY_REVISION
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record

COLUMNS = [*temperatures.columns, Column("revision", "BIGINT", doc="d"), Column("note", "STRING", doc="d")]


@pytest.fixture
def stream(spark, broker) -> Stream:
    """A table with 40 rows, of which one batch has updated two."""
    upkeep = Upkeep(deletion_vectors=True)
    stream = Stream.create(spark, broker, columns=COLUMNS, version=BY_REVISION, upkeep=upkeep)
    stream.send_and_merge(*(record(time=hour(number), temperature_2m=1.0, revision=1) for number in range(40)))
    stream.send_and_merge(*updates(3, 5, revision=2))
    return stream


def updates(*hours: int, revision: int) -> list[bytes]:
    return [record(time=hour(number), temperature_2m=float(revision), revision=revision) for number in hours]


def rows(stream: Stream) -> list[Any]:
    return stream.sql("SELECT observed_at, temperature_2m, revision FROM {t} ORDER BY 1")


def hidden_counts(stream: Stream) -> list[int]:
    adds = added_files(stream.uri, DeltaTable(stream.uri).version()).values()
    return [add["deletionVector"]["cardinality"] for add in adds if add.get("deletionVector")]


def engine(stream: Stream) -> str:
    return str(DeltaTable(stream.uri).history(1)[0]["engineInfo"]).split("-")[0]


@pytest.mark.invariant("7.4")
def test_rows_counts_and_changes_are_those_of_a_table_without_deletion_vectors(stream, spark, broker):
    other_stream = Stream.create(spark, broker, columns=COLUMNS, version=BY_REVISION)
    other_stream.send_and_merge(*(record(time=hour(n), temperature_2m=1.0, revision=1) for n in range(40)))
    other_stream.send_and_merge(*updates(3, 5, revision=2))
    for number, writer in enumerate(("slots", "Spark", "slots")):
        for tested_stream in (stream, other_stream):
            with by_writer(writer):
                tested_stream.send_and_merge(*updates(3, 4, 7 + number, 50, revision=3 + number), b"{")
            tested_stream.refresh()
        assert rows(stream) == rows(other_stream) and hidden_counts(stream)
    changes = "SELECT observed_at, change, source_version, temperature_2m_after FROM {changes} ORDER BY 1, 3"
    assert stream.sql(changes) == other_stream.sql(changes)
    for tested_stream in (stream, other_stream):
        tested_stream.assert_accounted()


def test_an_update_hides_the_stored_row_and_copies_no_file(stream):
    assert (engine(stream), hidden_counts(stream)) == ("lakehouse", [2])
    assert count_rows(stream.uri) == len(rows(stream)) == 40


def test_a_replay_changes_nothing(stream):
    before = rows(stream)
    stream.replay()
    assert rows(stream) == before and hidden_counts(stream) == [2]


def test_readers_that_know_deletion_vectors_see_the_rows(stream):
    expected = {row[1] for row in rows(stream)}, 40
    duckdb = connect(stream.settings).sql(f"SELECT temperature_2m FROM delta_scan('{stream.uri}')").fetchall()
    assert ({value for (value,) in duckdb}, len(duckdb)) == expected
    for polars in (pl.read_delta(stream.uri), pl.scan_delta(stream.uri).collect()):
        assert ({*polars["temperature_2m"]}, len(polars)) == expected
    table = DeltaTable(stream.uri)
    datafusion = pa.table(QueryBuilder().register("t", table).execute("SELECT temperature_2m FROM t").read_all())
    assert ({*datafusion["temperature_2m"].to_pylist()}, datafusion.num_rows) == expected
    assert scan_rows(table, ["temperature_2m"], pa.compute.field("temperature_2m") == 2.0).count_rows() == 2


def test_deltalake_refuses_the_table_for_pyarrow(stream):
    with pytest.raises(DeltaProtocolError, match="deletionVectors"):
        DeltaTable(stream.uri).to_pyarrow_dataset()


def test_maintenance_copies_a_file_of_which_many_rows_are_hidden(stream):
    stream.refresh()
    stream.send_and_merge(*updates(*range(10), revision=3))
    assert sum(hidden_counts(stream)) > 2
    before = rows(stream)
    maintain(stream.context)
    assert hidden_counts(stream) == [] and rows(stream) == before


def test_rows_are_hidden_after_a_checkpoint_of_spark(stream):
    """It has the values of partitions once more, as dates."""
    revisions = iter(range(3, 20))
    with by_writer("Spark"):
        while DeltaTable(stream.uri).version() % 10:
            stream.send_and_merge(*updates(20, revision=next(revisions)))
    stream.send_and_merge(*updates(3, 21, revision=20))
    assert engine(stream) == "lakehouse" and count_rows(stream.uri) == len(rows(stream)) == 40


def test_spark_stores_a_batch_whose_stored_rows_are_too_large_to_be_held_here(stream, monkeypatch):
    monkeypatch.setattr(stored_table, "MOST_MEMORY", 100)
    stream.send_and_merge(*updates(8, revision=3))
    assert engine(stream) == "Apache" and len(rows(stream)) == 40


def test_a_row_that_was_hidden_before_the_option_was_taken_away_is_erased(stream):
    stream.table = replace(stream.table, upkeep=Upkeep())
    erase(stream.context, f"observed_at = TIMESTAMP '{hour(3)}'")
    assert len(rows(stream)) == 39 and hidden_counts(stream) == []


def test_an_erased_row_stays_in_no_file_of_the_table(stream):
    erase(stream.context, f"observed_at = TIMESTAMP '{hour(7)}'")
    assert len(rows(stream)) == 39 and hidden_counts(stream) == []


def test_a_table_changes_to_deletion_vectors_and_back(stream):
    stream.table = replace(stream.table, upkeep=Upkeep())
    stream.send_and_merge(*updates(9, revision=4))
    assert engine(stream) == "Apache" and len(rows(stream)) == 40
    stream.table = replace(stream.table, upkeep=Upkeep(deletion_vectors=True))
    stream.send_and_merge(*updates(10, revision=4))
    assert engine(stream) == "lakehouse" and count_rows(stream.uri) == 40
    assert sorted(row[2] for row in rows(stream)) == [1] * 36 + [2, 2, 4, 4]
