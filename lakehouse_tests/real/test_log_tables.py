"""A log table: every record that may enter is a row, exactly once, whatever is read again."""

from dataclasses import replace

import pytest
from deltalake import DeltaTable

from lakehouse.batch.redrive import redrive
from lakehouse.batch.rejected import is_covered
from lakehouse.batch.replay import replay
from lakehouse.declaration import Column
from lakehouse.errors import TableError
from lakehouse.topic import create_topic
from lakehouse.topic.offsets import Plan, Range
from lakehouse_tests.helpers.log_tables import COLUMNS, at_hours, is_right, log_table, logged, operations
from lakehouse_tests.helpers.streams import Stream, counts, hour, record
from lakehouse_tests.helpers.writers import by_spark

pytestmark = pytest.mark.invariant(1, 3, 7, 8, 11)


@pytest.fixture
def stream(spark, broker) -> Stream:
    made = Stream(spark, broker, log_table())
    create_topic(broker, made.table)
    return made


@pytest.mark.parametrize("spark_writes", [True, False])
def test_every_record_is_a_row_with_its_hour_also_where_records_are_the_same(stream, spark_writes):
    same = record(time=hour(5), temperature_2m=None)
    stream.send(same, *at_hours(0, 30), same)
    stream.send(same, b"{", partition=1)
    with by_spark(spark_writes):
        (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=6, rejected=1, duplicate=0, inserted=5, updated=0, stale=0)
    assert operations(stream) == ["WRITE"]
    writer = "Apache" if spark_writes else "delta-rs"
    assert DeltaTable(stream.uri).history(1)[0]["engineInfo"].startswith(writer)
    first = [(0, 0, hour(5), None), (0, 1, hour(0), 0.0), (0, 2, hour(30), 30.0), (0, 3, hour(5), None)]
    assert logged(stream) == [*first, (1, 0, hour(5), None)]
    assert stream.rejected() == [(1, 1, "truncated")]
    is_right(stream)
    stream.send(*at_hours(5))
    with by_spark(spark_writes):
        stream.merge()
    assert operations(stream) == ["WRITE", "WRITE"]
    assert stream.sql("SELECT sum(readings), max(hottest) FROM {rollup}") == [(5, 30.0)]
    is_right(stream)
    assert stream.sql("SELECT sum(readings), max(hottest) FROM {rollup}") == [(6, 30.0)]


def test_a_replay_in_any_split_writes_no_row_and_no_file(stream):
    stream.send(*at_hours(0, 1, 2, 3, 4))
    stream.merge(max_records=2)
    before, files = logged(stream), set(DeltaTable(stream.uri).file_uris())
    for size in (None, 2):
        outcomes = stream.replay(max_records=size)
        assert sum(counts(each.entry)["stale"] for each in outcomes) == 5
        assert not any(counts(each.entry)["inserted"] for each in outcomes)
    assert (logged(stream), set(DeltaTable(stream.uri).file_uris())) == (before, files)
    is_right(stream)


def test_a_batch_of_which_no_record_may_enter_is_a_commit_without_rows(stream):
    stream.send(b"{", None)
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=2, rejected=2, duplicate=0, inserted=0, updated=0, stale=0)
    assert stream.merge() == []
    is_right(stream)


def test_what_a_new_declaration_takes_is_redriven_once(stream):
    stream.send(*at_hours(0), record(time=hour(1), temperature_2m=99.0))
    stream.merge()
    wider = replace(stream.table, columns=[*COLUMNS[:3], replace(COLUMNS[3], between=(-100, 100))])
    stream.table = wider
    (outcome,) = redrive(stream.engine)
    assert counts(outcome.entry)["inserted"] == 1
    assert redrive(stream.engine) == []
    assert stream.rejected() == []
    assert logged(stream) == [(0, 0, hour(0), 0.0), (0, 1, hour(1), 99.0)]
    stream.replay()
    assert len(logged(stream)) == 2
    is_right(stream)


def test_a_table_with_a_key_does_not_become_a_log_table_nor_the_other_way_round(stream):
    log, keyed = stream.table, replace(stream.table, key=["latitude", "longitude", "observed_at"])
    stream.send(*at_hours(0))
    stream.merge()
    for first, then in ((log, keyed), (keyed, log)):
        name = f"{log.name}_{'k' if first is keyed else 'l'}"
        stream.table = replace(first, name=name)
        stream.merge()
        before = DeltaTable(stream.uri).version()
        stream.table = replace(then, name=name)
        with pytest.raises(TableError, match=r"no _record\.(base|incarnation).*table of another name"):
            stream.merge()
        assert DeltaTable(stream.uri).version() == before


def test_a_column_declared_later_is_null_in_rows_from_before(stream):
    stream.send(*at_hours(0))
    stream.merge()
    later = [
        Column("station", "STRING", doc="Its name."),
        Column("sent_at", "TIMESTAMP", epoch="seconds", doc="When, UTC."),
    ]
    stream.table = replace(stream.table, columns=[*COLUMNS, *later])
    stream.send(record(time=hour(1), station="north", sent_at=0))
    stream.merge()
    told = stream.sql("SELECT station, unix_seconds(sent_at) FROM {t} ORDER BY observed_at")
    assert told == [(None, None), ("north", 0)]
    assert DeltaTable(stream.uri).history(1)[0]["engineInfo"].startswith("delta-rs"), "statistics are those declared"
    is_right(stream)


def test_files_tell_which_positions_are_in_them_so_that_a_replay_reads_no_others(stream):
    """Of a few rows that deltalake wrote they tell once they are compacted."""
    for number in range(2):
        stream.send(*at_hours(number))
        with by_spark():
            stream.merge()
    plan = Plan(stream.table.topic, stream.ledger.progress.incarnation, (Range(0, 1, 2),))
    rows = stream.spark.read.format("delta").load(stream.uri).where(is_covered("_record", plan))
    assert len(rows.inputFiles()) == 1
    files = DeltaTable(stream.uri).get_add_actions(flatten=True)
    assert sorted(files["min._record.offset"].to_pylist()) == sorted(files["max._record.offset"].to_pylist()) == [0, 1]
    (outcome,) = replay(stream.engine, [Range(0, 1, 2)])
    assert counts(outcome.entry) == dict(read=1, rejected=0, duplicate=0, inserted=0, updated=0, stale=1)
