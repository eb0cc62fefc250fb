"""A tick of the sensor plans and requests a run without a Spark session and without a JVM."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark import SparkContext

from lakehouse.declaration import Generated, StreamTable
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka.metadata import TopicState
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.positions import SourceId
from lakehouse.settings import Settings
from lakehouse.sources import table_sources
from lakehouse.sources.generated_records import source_id
from lakehouse_tests.helpers.sensors import MERGED, write_log
from lakehouse_tests.helpers.tables.tables import redeclare

pytestmark = pytest.mark.invariant("12.1")

SOURCE = SourceId("kafka", "c/t")


class NoSession(LakehouseResource):
    """A resource that never starts a session."""

    @property
    def spark_session(self) -> Any:
        raise AssertionError("a session is requested")


@pytest.mark.parametrize(("end", "requests"), [(10, 0), (12, 1)], ids=["nothing waits", "records wait"])
def test_a_tick_needs_neither_a_session_nor_a_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: int, requests: int
) -> None:
    gateway = SparkContext._gateway  # of other tests in this process
    write_progress(Settings(home=tmp_path, _env_file=None))
    assert tick(tmp_path, monkeypatch, temperatures, end) == requests
    assert SparkContext._gateway is gateway


@pytest.mark.invariant("2.6")
def test_a_tick_requests_a_run_that_records_the_start_of_a_new_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a start at the end would move on with the topic, and no record would ever be merged."""
    table = redeclare(temperatures, start="latest")
    assert tick(tmp_path, monkeypatch, table, 10) == 1
    write_progress(Settings(home=tmp_path, _env_file=None), kind="start")
    assert tick(tmp_path, monkeypatch, table, 10) == 0
    assert tick(tmp_path, monkeypatch, table, 11) == 1


def test_a_tick_requests_a_run_for_a_generator_until_its_start_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generated = Generated(rate=1, partitions=1, since=datetime(2026, 1, 1, tzinfo=UTC), count=5)
    table = replace(temperatures, topic="", source=generated)
    assert tick(tmp_path, monkeypatch, table, 0) == 1
    source = source_id(generated, int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000)
    for position, requests in ((0, 1), (4, 1), (5, 0)):
        write_progress(Settings(home=tmp_path, _env_file=None), source=source, progress={0: position})
        assert tick(tmp_path, monkeypatch, table, 0) == requests, position


def write_progress(settings: Settings, **changes: Any) -> None:
    """Write the log of a table that has the progress 10."""
    commit = Commit(**{**MERGED, "source": SOURCE, "progress": {0: 10}, **changes})
    write_log(Path(settings.table_uri("temperatures"), "_delta_log"), commit)


def tick(folder: Path, monkeypatch: pytest.MonkeyPatch, table: StreamTable, end: int) -> int:
    """Evaluate the sensor of a table whose topic ends there; return the number of requested runs."""
    settings = Settings(home=folder, _env_file=None)
    monkeypatch.setattr(
        table_sources, "read_topics", lambda *_, **__: [TopicState("temperatures", SOURCE, {0: 0}, {0: end})]
    )
    resources = {"lakehouse": NoSession.with_settings(settings)}
    with dg.DagsterInstance.ephemeral() as instance, dg.build_sensor_context(instance, resources=resources) as context:
        result = (
            build_defs([table], resources=resources).resolve_sensor_def("temperatures_sensor").evaluate_tick(context)
        )
    return len(result.run_requests or ())
