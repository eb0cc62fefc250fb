"""A tick of the sensor of a table of files: what stops merging fails it, and a store that does not answer skips it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse.declaration import Files
from lakehouse.defs.build import build_defs
from lakehouse.defs.freshness import LAG
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.waiting import CHECK
from lakehouse.errors import SourceError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings
from lakehouse.sources.files import listing
from lakehouse_tests.helpers.code_locations import sensor_context

NO_STORE = (
    "When listing objects under key 'in/' in bucket 'bucket': AWS Error NETWORK_CONNECTION during ListObjectsV2"
    " operation: curlCode: 7, Could not connect to server; Details: Failed to connect to 127.0.0.1:9 after 0 ms"
)


class Sensor:
    """The sensor of a table whose records are in this folder, and the newest results of the checks of the table."""

    def __init__(self, instance: dg.DagsterInstance, home: Path, folder: str) -> None:
        files = Files(folder, settle=timedelta(0))
        self.table = replace(temperatures, topic="", source=files, replay_from=None, max_lag=0)
        self.instance, self.cursor = instance, ""
        self.resources = {"lakehouse": LakehouseResource.with_settings(Settings(home=home, _env_file=None))}
        self.defs = build_defs([self.table], resources=self.resources)

    def tick(self) -> Any:
        sensor = self.defs.resolve_sensor_def("temperatures_sensor")
        with sensor_context(self.defs, self.instance, self.resources, self.cursor, None) as context:
            result = sensor.evaluate_tick(context)
        self.cursor = result.cursor or self.cursor
        return result

    def results(self, check: str) -> list[tuple[bool, str]]:
        """Whether a check of the table passed, and its description, oldest first."""
        key = dg.AssetCheckKey(dg.AssetKey("temperatures"), check)
        records = self.instance.event_log_storage.get_asset_check_execution_history(key, limit=100)
        evaluations = [record.evaluation for record in reversed(records)]
        return [(evaluation.passed, evaluation.description or "") for evaluation in evaluations if evaluation]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral_instance:
        yield ephemeral_instance


@pytest.mark.invariant("12.3")
def test_a_folder_that_does_not_exist_fails_the_tick_and_the_check(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    sensor = Sensor(instance, tmp_path, str(tmp_path / "in"))
    (tmp_path / "in").mkdir()
    sensor.tick()
    assert [passed for name in (CHECK, LAG) for passed, _ in sensor.results(name)] == [True, True]
    (tmp_path / "in").rmdir()
    with pytest.raises(SourceError, match="No such file or directory") as raised:
        sensor.tick()
    assert sensor.results(CHECK)[-1] == (False, str(raised.value))
    assert [passed for passed, _ in sensor.results(LAG)] == [True, False]


@pytest.mark.invariant("12.3")
def test_a_store_that_does_not_answer_skips_the_tick_and_makes_the_lag_unknown(
    instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Double: what pyarrow says of a store that has stopped, which takes it six seconds."""

    def raise_error(_: str) -> None:
        raise OSError(NO_STORE)

    monkeypatch.setattr(listing, "_list_store", raise_error)
    sensor = Sensor(instance, tmp_path, "s3://bucket/in")
    assert "Could not connect to server" in (sensor.tick().skip_message or "")
    assert sensor.results(CHECK) == []
    ((passed, text),) = sensor.results(LAG)
    assert not passed
    assert text.startswith("The lag is unknown")
