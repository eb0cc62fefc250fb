"""A tick of the sensor plans and requests a run without a Spark session and without a JVM."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark import SparkContext

from lakehouse.defs import waiting
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.kafka.incarnation import TopicState
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.positions import SourceId
from lakehouse.settings import Settings
from lakehouse_tests.helpers.sensors import MERGED, write_log

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
    settings = Settings(home=tmp_path, _env_file=None)
    write_log(Path(settings.table_uri("temperatures"), "_delta_log"), Commit(**MERGED, source=SOURCE, progress={0: 10}))
    monkeypatch.setattr(waiting, "read_topic", lambda *_: TopicState("temperatures", SOURCE, {0: 0}, {0: end}))
    resources = {"lakehouse": NoSession.with_settings(settings)}
    with dg.DagsterInstance.ephemeral() as instance, dg.build_sensor_context(instance, resources=resources) as context:
        result = build_defs(resources=resources).resolve_sensor_def("temperatures_sensor").evaluate_tick(context)
    assert len(result.run_requests or ()) == requests
    assert SparkContext._gateway is gateway
