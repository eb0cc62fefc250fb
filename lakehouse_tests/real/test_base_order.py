"""Base rows are older than any record, and among themselves the later load wins, whatever becomes of the base table."""

import shutil
from dataclasses import replace

import pytest

from lakehouse.batch.load import load_base
from lakehouse.declaration import Column
from lakehouse_tests.helpers.base_files import base_folder
from lakehouse_tests.helpers.streams import Stream, hour, record

pytestmark = pytest.mark.invariant(4, 6)


@pytest.fixture
def stream(spark, broker):
    return Stream.create(spark, broker)


def test_loads_into_a_base_table_made_anew_win_over_those_into_the_one_before(stream, tmp_path):
    """Its versions begin again; a row that its first load does not bring is replaced by a later one."""

    def load(number: int, values: dict[str, float | None]) -> None:
        folder = base_folder(tmp_path / str(number), values)
        load_base(stream.spark, stream.settings, stream.table, folder)

    for number in range(3):
        load(number, {hour(0): 50.0 + number, hour(1): 50.0 + number})
    stream.send(record(time=hour(2), temperature_2m=1.0))
    stream.merge()
    shutil.rmtree(stream.settings.table_uri(stream.table.base_name))
    load(3, {hour(0): 60.0, hour(2): 60.0})
    stream.merge()
    load(4, {hour(1): 61.0})
    stream.merge()
    assert stream.temperatures() == {hour(0): 60.0, hour(1): 61.0, hour(2): 1.0}
    stream.assert_accounted()


def test_a_column_declared_after_the_base_was_loaded_is_there_when_it_is_merged(stream, tmp_path):
    load_base(stream.spark, stream.settings, stream.table, base_folder(tmp_path / "base", {hour(0): 50.0}))
    later = Column("humidity", "DOUBLE", doc="Relative humidity, percent.")
    stream.table = replace(stream.table, columns=[*stream.table.columns, later])
    stream.send(record(time=hour(1), humidity=40.0))
    stream.merge()
    assert stream.sql("SELECT temperature_2m, humidity FROM {t} ORDER BY observed_at") == [(50.0, None), (20.0, 40.0)]
