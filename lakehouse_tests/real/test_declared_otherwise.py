"""A table whose declaration changes: which columns are kept, and what decides which record is newer."""

from dataclasses import replace

import pytest

from lakehouse.declaration import Column
from lakehouse_tests.helpers.streams import ABSENT, Stream, hour, record

pytestmark = pytest.mark.invariant(4, 5)
HUMIDITY = Column("humidity", "DOUBLE", keep=True, doc="Relative humidity, percent.")
REVISION = Column("revision", "BIGINT", doc="Revision of the reading.")


def test_columns_are_kept_or_not_and_a_version_decides_from_when_it_is_declared(spark, broker):
    stream = Stream.create(spark, broker)
    plain = list(stream.table.columns)
    stream.table = replace(stream.table, columns=[*plain, HUMIDITY])
    stream.send(record(time=hour(0), temperature_2m=1.0, humidity=10.0))
    stream.merge()
    stream.table = replace(stream.table, columns=[*plain, replace(HUMIDITY, keep=False)])
    stream.send(record(time=hour(0), temperature_2m=ABSENT, humidity=20.0), record(time=hour(1), temperature_2m=2.0))
    stream.merge()
    stream.table = replace(stream.table, columns=[*plain, HUMIDITY, REVISION], version="revision")
    stream.send(
        record(time=hour(0), temperature_2m=5.0, humidity=30.0, revision=5),
        record(time=hour(0), temperature_2m=4.0, humidity=ABSENT, revision=4),
        record(time=hour(2), temperature_2m=3.0, revision=1),
    )
    stream.merge(max_records=1)
    stream.table = replace(stream.table, columns=[*plain, HUMIDITY, REVISION], version=None)
    stream.send(record(time=hour(1), temperature_2m=7.0, humidity=40.0, revision=9))
    stream.merge()
    rows = stream.sql("SELECT temperature_2m, humidity, revision FROM {t} ORDER BY observed_at")
    assert rows == [(5.0, 30.0, 5), (7.0, 40.0, 9), (3.0, None, 1)]
    assert stream.sql("SELECT _kept.humidity.offset, _kept.humidity.version FROM {t} ORDER BY observed_at")[:1] == [
        (3, 5)
    ]
    stream.assert_accounted()
