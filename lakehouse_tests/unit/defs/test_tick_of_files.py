"""A tick of the sensor of a table of files: what stops merging fails it, and a store that does not answer skips it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse.declaration import Files, Promise
from lakehouse.defs.build import build_defs
from lakehouse.defs.freshness import HELD_CHECK, LAG
from lakehouse.defs.resources import LakehouseResource
from lakehouse.defs.waiting import CHECK
from lakehouse.errors import SourceError
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.commits import Commit
from lakehouse.settings import Settings
from lakehouse.sources.files import listing
from lakehouse.sources.files.folder import FileLog
from lakehouse_tests.helpers.code_locations import check_results, sensor_context
from lakehouse_tests.helpers.sensors import MERGED, write_log

NO_STORE = (
    "When listing objects under key 'in/' in bucket 'bucket': AWS Error NETWORK_CONNECTION during ListObjectsV2"
    " operation: curlCode: 7, Could not connect to server; Details: Failed to connect to 127.0.0.1:9 after 0 ms"
)


class Sensor:
    """The sensor of a table whose records are in this folder, and the newest results of the checks of the table."""

    def __init__(self, instance: dg.DagsterInstance, home: Path, folder: str, settle: timedelta = timedelta(0)) -> None:
        files, self.settings = Files(folder, settle=settle), Settings(home=home, _env_file=None)
        self.table = replace(temperatures, topic="", source=files, promise=Promise(max_lag=0))
        self.instance, self.cursor = instance, ""
        self.resources = {"lakehouse": LakehouseResource.with_settings(self.settings)}
        self.defs = build_defs([self.table], resources=self.resources)

    def tick(self) -> Any:
        sensor = self.defs.resolve_sensor_def("temperatures_sensor")
        with sensor_context(self.defs, self.instance, self.resources, self.cursor, None) as context:
            result = sensor.evaluate_tick(context)
        self.cursor = result.cursor or self.cursor
        return result

    def merged(self) -> None:
        """Write the log of a table that has merged the folder while it was empty, without a JVM."""
        commit = Commit(**MERGED, source=FileLog().source, progress={0: 0})
        write_log(Path(self.settings.table_uri("temperatures"), "_delta_log"), commit)

    def results(self, check: str) -> list[tuple[bool, str]]:
        """Whether a check of the table passed, and its description, oldest first."""
        return check_results(self.instance, dg.AssetKey("temperatures"), check)


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


@pytest.mark.invariant("12.10")
def test_files_that_cannot_be_read_and_that_change_all_the_time_fail_a_check_and_count_in_the_lag(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    sensor = Sensor(instance, tmp_path, str(tmp_path / "in"), settle=timedelta(hours=1))
    (tmp_path / "in").mkdir()
    sensor.tick()
    (tmp_path / "in" / "caf\udce9.jsonl").write_bytes(b"1")
    (tmp_path / "in" / "grows.jsonl").write_bytes(b"1")
    sensor.merged()
    assert "Not read: 2 files: caf\\xe9.jsonl (its name is not UTF-8), grows.jsonl" in sensor.tick().skip_message
    (_, (held_passes, held_text)), (_, lag_result) = sensor.results(HELD_CHECK), sensor.results(LAG)
    assert not held_passes
    assert "caf\\xe9.jsonl (its name is not UTF-8), since 2" in held_text
    assert "grows" not in held_text, "a file may change for ten minutes"
    assert lag_result == (False, "Offsets to merge: 2; declared max_lag: 0.")


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
