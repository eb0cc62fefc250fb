"""The newest wins, always: inside a batch, across batches, over partitions, for columns kept by themselves."""

from dataclasses import replace

import pytest

from lakehouse import merge
from lakehouse.declaration import Column
from lakehouse.load import load_base
from lakehouse.offsets import Range
from lakehouse.tables.temperatures import temperatures
from lakehouse.topic import add_partitions
from lakehouse_tests.helpers.base_files import base_folder
from lakehouse_tests.helpers.streams import ABSENT, Stream, counts, hour, record

pytestmark = pytest.mark.invariant(4, 5, 6)


@pytest.fixture
def stream(spark, broker):
    return Stream.create(spark, broker)


def test_records_of_all_partitions_are_merged_and_accounted_for(stream):
    for partition in range(3):
        stream.send(record(time=hour(partition), temperature_2m=1.0 + partition), partition=partition)
    (outcome,) = stream.merge()
    assert stream.temperatures() == {hour(0): 1.0, hour(1): 2.0, hour(2): 3.0}
    assert counts(outcome.entry) == dict(read=3, rejected=0, duplicate=0, inserted=3, updated=0, stale=0)
    assert (outcome.lag_before, outcome.lag_after) == (3, 0)
    stream.assert_accounted()


def test_a_second_run_finds_nothing_to_do(stream):
    stream.send(record())
    stream.merge()
    version = stream.ledger.version
    assert stream.merge() == []
    assert stream.ledger.version == version


def test_an_empty_topic_gives_an_empty_table_and_no_commit_of_a_batch(stream):
    assert stream.merge() == []
    assert stream.temperatures() == {}
    assert stream.ledger.entries == ()


def test_duplicates_inside_a_batch_leave_the_newest(stream):
    stream.send(record(temperature_2m=1.0), record(temperature_2m=2.0), record(temperature_2m=3.0))
    (outcome,) = stream.merge()
    assert stream.temperatures() == {hour(0): 3.0}
    assert stream.sql("SELECT _record.offset FROM {t}") == [(2,)]
    assert counts(outcome.entry) == dict(read=3, rejected=0, duplicate=2, inserted=1, updated=0, stale=0)


def test_duplicates_across_batches_leave_the_newest(stream):
    stream.send(*(record(temperature_2m=float(number)) for number in range(3)))
    outcomes = stream.merge(max_records=1)
    assert [counts(outcome.entry)["updated"] for outcome in outcomes] == [0, 1, 1]
    assert stream.temperatures() == {hour(0): 2.0}


def test_a_record_that_reaches_the_table_late_does_not_replace_a_newer_one(stream):
    stream.send(record(temperature_2m=1.0), partition=1)
    stream.send(record(temperature_2m=2.0), partition=0)
    stream.merge(until={0: 1, 1: 0, 2: 0})
    (outcome,) = stream.merge()
    assert stream.temperatures() == {hour(0): 2.0}
    assert counts(outcome.entry)["stale"] == 1


def test_partitions_added_later_are_read_from_their_first_record(stream):
    stream.send(record(time=hour(0)))
    stream.merge()
    add_partitions(stream.settings, stream.table.topic, 5)
    stream.send(record(time=hour(1)), partition=4)
    stream.merge()
    assert set(stream.temperatures()) == {hour(0), hour(1)}
    assert stream.ledger.progress.offsets == {0: 1, 1: 0, 2: 0, 3: 0, 4: 1}


def test_a_batch_limit_splits_a_backlog_into_many(stream):
    for partition in range(3):
        stream.send(*(record(time=hour(10 * partition + number)) for number in range(4)), partition=partition)
    outcomes = stream.merge(max_records=5)
    assert [outcome.plan.span for outcome in outcomes] == [5, 5, 2]
    assert [outcome.lag_after for outcome in outcomes] == [7, 2, 0]
    assert len(stream.temperatures()) == 12
    assert stream.ledger.totals.batches == 3
    stream.assert_accounted()


def test_a_newer_record_of_equal_values_leaves_its_order_behind(stream):
    stream.send(record())
    stream.merge()
    stream.send(record())
    stream.merge()
    assert stream.sql("SELECT _record.offset, _kept.temperature_2m.offset FROM {t}") == [(1, 1)]


@pytest.mark.parametrize("batches", [1, 2])
def test_a_missing_value_never_erases_a_kept_one(stream, batches):
    """Absent or null, before or after the value, in one batch or in two."""
    absent, null = ({"temperature_2m": missing} for missing in (ABSENT, None))
    value = {"temperature_2m": 7.5}
    cases = [(absent, value), (null, value), (value, absent), (value, null)]
    for step in (0, 1):
        stream.send(*(record(time=hour(number), **case[step]) for number, case in enumerate(cases)))
        if step or batches == 2:
            stream.merge()
    assert stream.temperatures() == {hour(number): 7.5 for number in range(4)}
    kept = stream.sql("SELECT _record.offset, _kept.temperature_2m.offset FROM {t} ORDER BY observed_at")
    assert kept == [(4, 4), (5, 5), (6, 2), (7, 3)]
    assert stream.ledger.totals.batches == batches


def test_a_kept_value_comes_from_an_older_record_that_is_merged_later(stream):
    stream.send(record(temperature_2m=7.5), partition=1)
    stream.send(record(temperature_2m=ABSENT), partition=0)
    stream.merge(until={0: 1, 1: 0, 2: 0})
    assert stream.temperatures() == {hour(0): None}
    stream.merge()
    assert stream.temperatures() == {hour(0): 7.5}
    assert stream.sql("SELECT _record.partition, _kept.temperature_2m.partition FROM {t}") == [(0, 1)]


def test_a_column_that_is_not_kept_is_null_where_the_newest_record_has_none(spark, broker):
    plain = replace(temperatures.by_name["temperature_2m"], keep=False)
    stream = Stream.create(spark, broker, columns=[*temperatures.columns[:3], plain])
    stream.send(record(temperature_2m=7.5), record(temperature_2m=ABSENT))
    stream.merge(max_records=1)
    assert stream.temperatures() == {hour(0): None}


@pytest.mark.parametrize("base_first", [True, False], ids=["base first", "records first"])
def test_base_rows_are_older_than_any_record_whenever_they_are_loaded(stream, tmp_path, base_first):
    folder = base_folder(tmp_path / "base", {hour(0): 50.0, hour(1): 51.0, hour(2): 52.0})
    stream.send(record(time=hour(0), temperature_2m=1.0), record(time=hour(1), temperature_2m=ABSENT))
    if not base_first:
        stream.merge()
    load_base(stream.spark, stream.settings, stream.table, folder)
    stream.merge()
    assert stream.temperatures() == {hour(0): 1.0, hour(1): 51.0, hour(2): 52.0}
    origin = stream.sql("SELECT _record.offset, _record.base, _kept.temperature_2m.base FROM {t} ORDER BY observed_at")
    number = 1 if base_first else 2
    assert origin == [(0, None, None), (1, None, number), (None, number, number)]
    stream.assert_accounted()


def test_a_second_base_load_touches_only_base_rows(stream, tmp_path):
    load_base(stream.spark, stream.settings, stream.table, base_folder(tmp_path / "1", {hour(0): 50.0, hour(1): 51.0}))
    stream.send(record(time=hour(0), temperature_2m=1.0))
    stream.merge()
    again = base_folder(tmp_path / "2", {hour(0): 60.0, hour(1): 61.0})
    loaded = load_base(stream.spark, stream.settings, stream.table, again)
    assert (loaded.inserted, loaded.updated) == (0, 2)
    (outcome,) = stream.merge()
    assert counts(outcome.entry)["updated"] == 1
    assert stream.temperatures() == {hour(0): 1.0, hour(1): 61.0}


def test_loading_the_same_base_files_again_changes_nothing(stream, tmp_path):
    folder = base_folder(tmp_path / "base", {hour(0): 50.0})
    first = load_base(stream.spark, stream.settings, stream.table, folder)
    assert (first.inserted, first.changed) == (1, True)
    stream.merge()
    second = load_base(stream.spark, stream.settings, stream.table)
    assert (second.folder, second.version, second.changed) == (folder, first.version, False)
    assert stream.merge() == []


def test_inside_one_load_the_order_is_file_name_then_place(stream, tmp_path):
    base_folder(tmp_path / "base", {hour(0): 2.0}, name="b.json")
    folder = base_folder(tmp_path / "base", {hour(0): 1.0, hour(1): 1.0}, name="a.json")
    loaded = load_base(stream.spark, stream.settings, stream.table, folder)
    stream.merge()
    assert (loaded.rows, loaded.duplicate) == (3, 1)
    assert stream.temperatures() == {hour(0): 2.0, hour(1): 1.0}


def test_a_declared_version_decides_before_the_broker_does(spark, broker):
    version = Column("revision", "BIGINT", doc="Revision of the reading.")
    stream = Stream.create(spark, broker, columns=[*temperatures.columns, version], version="revision")
    stream.send(
        record(temperature_2m=5.0, revision=5), record(temperature_2m=4.0, revision=4), record(temperature_2m=0.0)
    )
    stream.merge(max_records=1)
    assert stream.temperatures() == {hour(0): 5.0}


def test_coordinates_are_rounded_half_up_to_one_key(stream):
    stream.send(record(longitude=-0.0999905, temperature_2m=1.0), record(longitude=-0.099991, temperature_2m=2.0))
    stream.merge()
    assert stream.sql("SELECT CAST(longitude AS STRING), temperature_2m FROM {t}") == [("-0.099991", 2.0)]


def test_a_month_is_found_again_by_its_partition(stream):
    stream.send(*(record(time=f"2023-{month:02d}-01T00:00") for month in range(1, 13)))
    stream.merge()
    stream.send(record(time="2023-07-01T00:00", temperature_2m=1.0))
    (outcome,) = stream.merge()
    assert counts(outcome.entry)["updated"] == 1
    assert stream.sql("SELECT count(DISTINCT observed_month) FROM {t}") == [(12,)]


def test_delta_counts_the_rows_of_a_batch_that_no_row_of_the_files_it_reads_is_near(stream):
    """The file holds hours on both sides, so that its statistics do not exclude it."""
    stream.send(record(time=hour(0)), record(time=hour(2)))
    stream.merge()
    stream.send(record(time=hour(1)), b"{")
    (outcome,) = stream.merge()
    assert counts(outcome.entry) == dict(read=2, rejected=1, duplicate=0, inserted=1, updated=0, stale=0)


def test_a_batch_records_its_ranges_and_the_progress_after_it(stream):
    stream.send(record(), partition=1)
    (outcome,) = stream.merge()
    commit = outcome.entry.commit
    assert commit.ranges == (Range(0, 0, 0), Range(1, 0, 1), Range(2, 0, 0))
    assert commit.progress == {0: 0, 1: 1, 2: 0}
    assert (commit.number, commit.kind, commit.topic) == (1, "batch", stream.table.topic)
    assert commit.incarnation


@pytest.mark.parametrize("few_rows", [merge._FEW_ROWS, -1])
def test_every_row_is_counted_where_spark_joins_without_generated_code(stream, spark, monkeypatch, few_rows):
    """Spark does so for tables of more than a hundred columns; the file read here holds no row of that key."""
    monkeypatch.setattr(merge, "_FEW_ROWS", few_rows)
    stream.send(*(record(time=hour(number)) for number in (0, 1, 3)))
    stream.merge()
    stream.send(record(time=hour(2), temperature_2m=None), b"{", b"{")
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        (outcome,) = stream.merge()
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    assert counts(outcome.entry)["inserted"] == 1
    stream.assert_accounted()
