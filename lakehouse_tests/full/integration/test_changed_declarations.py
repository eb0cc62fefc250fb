"""A declaration changes: which columns are kept, and what decides which record is newer."""

from dataclasses import replace

import pytest

from lakehouse.declaration import Column
from lakehouse.ingest.load import load_base
from lakehouse.ingest.replay import replay
from lakehouse.ledger.positions import Range
from lakehouse_tests.helpers.brokers.revised_streams import BY_REVISION
from lakehouse_tests.helpers.brokers.streams import ABSENT, Stream, hour, record
from lakehouse_tests.helpers.tables.base_files import base_folder

HUMIDITY = Column("humidity", "DOUBLE", keep=True, doc="Relative humidity, percent.")
REVISION = Column("revision", "BIGINT", doc="Revision of the reading.")


@pytest.mark.invariant("4.1", "5.1", "5.3")
def test_keep_and_version_take_effect_from_their_declaration(spark, broker):
    stream = Stream.create(spark, broker)
    original_columns = list(stream.table.columns)
    stream.table = replace(stream.table, columns=[*original_columns, HUMIDITY])
    stream.send_and_merge(record(time=hour(0), temperature_2m=1.0, humidity=10.0))
    stream.table = replace(stream.table, columns=[*original_columns, replace(HUMIDITY, keep=False)])
    stream.send(record(time=hour(0), temperature_2m=ABSENT, humidity=20.0), record(time=hour(1), temperature_2m=2.0))
    stream.merge()
    stream.table = replace(stream.table, columns=[*original_columns, HUMIDITY, REVISION], version=BY_REVISION)
    stream.send(
        record(time=hour(0), temperature_2m=5.0, humidity=30.0, revision=5),
        record(time=hour(0), temperature_2m=4.0, humidity=ABSENT, revision=4),
        record(time=hour(2), temperature_2m=3.0, revision=1),
    )
    stream.merge(max_records=1)
    stream.table = replace(stream.table, columns=[*original_columns, HUMIDITY, REVISION], version=None)
    stream.send_and_merge(record(time=hour(1), temperature_2m=7.0, humidity=40.0, revision=9))
    rows = stream.sql("SELECT temperature_2m, humidity, revision FROM {t} ORDER BY observed_at")
    assert rows == [(5.0, 30.0, 5), (7.0, 40.0, 9), (3.0, None, 1)]
    assert stream.sql("SELECT _kept.humidity.position, _kept.humidity.version FROM {t} ORDER BY observed_at")[:1] == [
        (3, 5)
    ]
    stream.assert_accounted()


def declare_keep(stream: Stream, *, keep: bool) -> None:
    columns = [
        replace(column, keep=keep) if column.name == "temperature_2m" else column
        for column in stream.table.record_columns
    ]
    stream.table = replace(stream.table, columns=columns)


def replay_record(stream: Stream, offset: int) -> None:
    replay(stream.context, [Range(0, offset, offset + 1)])


@pytest.mark.invariant("5.3", "6.2")
def test_a_column_that_becomes_kept_starts_with_the_value_of_its_row(spark, broker, tmp_path):
    """Offsets 0 to 3 are merged before the column is kept, 4 while it is kept, 5 and 6 after that."""
    stream = Stream.create(spark, broker)
    declare_keep(stream, keep=False)
    load_base(stream.context, base_folder(tmp_path / "before", {hour(0): 50.0, hour(1): 51.0}))
    values = [(0, 10.0), (0, 20.0), (2, 30.0), (2, ABSENT)]
    stream.send_and_merge(*(record(time=hour(number), temperature_2m=value) for number, value in values))
    declare_keep(stream, keep=True)
    replay_record(stream, 0)
    load_base(stream.context, base_folder(tmp_path / "after", {hour(0): 60.0, hour(1): 61.0}))
    stream.merge()
    assert stream.temperatures() == {hour(0): 20.0, hour(1): 61.0, hour(2): None}
    stream.send_and_merge(record(time=hour(0), temperature_2m=ABSENT))
    positions = stream.sql("SELECT _record.position, _kept.temperature_2m.position FROM {t} ORDER BY observed_at")
    assert positions[0] == (4, 1), "the kept value is from an older record"
    stream.replay()
    assert stream.temperatures() == {hour(0): 20.0, hour(1): 61.0, hour(2): 30.0}
    declare_keep(stream, keep=False)
    stream.send_and_merge(record(time=hour(0), temperature_2m=70.0), record(time=hour(0), temperature_2m=40.0))
    declare_keep(stream, keep=True)
    replay_record(stream, 5)
    assert stream.temperatures()[hour(0)] == 40.0
    stream.assert_accounted()


@pytest.mark.invariant("5.4")
def test_a_version_declared_later_is_that_of_the_record_behind_row_and_kept_column(spark, broker):
    stream = Stream.create(spark, broker)
    stream.table = replace(stream.table, columns=[*stream.table.columns, REVISION])
    stream.send_and_merge(
        record(time=hour(0), temperature_2m=3.0, revision=3), record(time=hour(0), temperature_2m=5.0, revision=5)
    )
    stream.table = replace(stream.table, version=BY_REVISION)
    replay_record(stream, 0)
    assert stream.temperatures() == {hour(0): 5.0}
    stream.send_and_merge(record(time=hour(0), temperature_2m=ABSENT, revision=6))
    replay_record(stream, 0)
    assert stream.temperatures() == {hour(0): 5.0}
    stream.assert_accounted()


@pytest.mark.invariant("5.5")
def test_a_column_that_is_not_declared_becomes_null_in_every_merged_row(spark, broker):
    """A column that another program added keeps its values."""
    stream = Stream.create(spark, broker)
    original_columns = list(stream.table.columns)
    stream.table = replace(stream.table, columns=[*original_columns, REVISION])
    stream.send_and_merge(*(record(time=hour(n), revision=n) for n in range(2)))
    spark.sql(f"ALTER TABLE delta.`{stream.uri}` ADD COLUMNS (seen_by STRING)")
    spark.sql(f"UPDATE delta.`{stream.uri}` SET seen_by = 'Ann'")
    stream.table = replace(stream.table, columns=original_columns)
    stream.send_and_merge(record(time=hour(1), temperature_2m=9.0))
    assert stream.sql("SELECT revision, seen_by FROM {t} ORDER BY observed_at") == [(0, "Ann"), (None, "Ann")]
    stream.table = replace(stream.table, columns=[*original_columns, REVISION])
    stream.send_and_merge(record(time=hour(0), temperature_2m=8.0))
    assert stream.sql("SELECT temperature_2m, revision FROM {t} ORDER BY observed_at") == [(8.0, None), (9.0, None)]
    stream.assert_accounted()
