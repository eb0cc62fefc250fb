"""Base rows are older than any record; of two loads the later one wins, even if the base table is recreated."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakehouse.declaration import Column
from lakehouse.ingest.load import load_base, load_reference
from lakehouse.storage import stored_table
from lakehouse.storage.spark_writer import commit_merge
from lakehouse_tests.helpers.brokers.streams import Stream, hour, record
from lakehouse_tests.helpers.tables.base_files import base_folder


@pytest.fixture
def stream(spark, broker):
    return Stream.create(spark, broker)


@pytest.mark.invariant("6.1", "6.2", "10.2")
def test_loads_into_a_recreated_base_table_win_over_earlier_loads(stream, tmp_path):
    """Its versions start again; a later load replaces rows that its first load did not contain."""

    def load(number: int, values: dict[str, float | None]) -> None:
        folder = base_folder(tmp_path / str(number), values)
        load_base(stream.context, folder)

    for number in range(3):
        load(number, {hour(0): 50.0 + number, hour(1): 50.0 + number})
    stream.send_and_merge(record(time=hour(2), temperature_2m=1.0))
    shutil.rmtree(stream.settings.table_uri(stream.table.base_name))
    load(3, {hour(0): 60.0, hour(2): 60.0})
    stream.merge()
    load(4, {hour(1): 61.0})
    stream.merge()
    assert stream.temperatures() == {hour(0): 60.0, hour(1): 61.0, hour(2): 1.0}
    stream.assert_accounted()


def test_a_column_declared_after_a_base_load_is_in_the_merged_table(stream, tmp_path):
    load_base(stream.context, base_folder(tmp_path / "base", {hour(0): 50.0}))
    humidity = Column("humidity", "DOUBLE", doc="Relative humidity, percent.")
    stream.table = replace(stream.table, columns=[*stream.table.columns, humidity])
    stream.send_and_merge(record(time=hour(1), humidity=40.0))
    assert stream.sql("SELECT temperature_2m, humidity FROM {t} ORDER BY observed_at") == [(50.0, None), (20.0, 40.0)]


def overtake_once(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Let another load commit once, between the plan of the next one and its commit."""

    def overtake_and_commit(*arguments: Any) -> Any:
        monkeypatch.setattr(stored_table, "commit_merge", commit_merge)
        action()
        return commit_merge(*arguments)

    monkeypatch.setattr(stored_table, "commit_merge", overtake_and_commit)


@pytest.mark.invariant("11.1")
def test_an_overtaken_load_is_planned_again(stream, tmp_path, monkeypatch):
    own_folder, other_folder = (base_folder(tmp_path / str(n), {hour(0): n, hour(n): n}) for n in (1, 2))
    overtake_once(monkeypatch, lambda: load_base(stream.context, other_folder))
    base_outcome = load_base(stream.context, own_folder)
    assert (base_outcome.inserted, base_outcome.updated) == (1, 1)
    stream.merge()
    assert stream.temperatures() == {hour(0): 1.0, hour(1): 1.0, hour(2): 2.0}
    reference = replace(stream.table.references[0], name=f"{stream.table.name}_places")
    overtake_once(monkeypatch, lambda: load_reference(stream.context, reference))
    reference_outcome = load_reference(stream.context, reference)
    assert (
        reference_outcome.rows > 0,
        reference_outcome.inserted,
        reference_outcome.updated,
        reference_outcome.deleted,
    ) == (True, 0, 0, 0)
