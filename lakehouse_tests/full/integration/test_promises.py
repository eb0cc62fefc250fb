"""A promise, measured by the sensor of a real daemon: red while the broker is silent, green after a merge."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.declaration import Column, StreamTable, Topic
from lakehouse.kafka import publish
from lakehouse.settings import Settings
from lakehouse_tests.helpers.up import Up
from lakehouse_tests.helpers.waiting import wait_until

DECLARATION = """
from datetime import timedelta
from lakehouse import Column, Promise, StreamTable, Topic

columns = [Column("id", "BIGINT", "Number.", required=True)]
topic, promise = Topic("promised", partitions=1), Promise(fresh=timedelta(seconds=30), max_lag=0)
promised = StreamTable("promised", source=topic, doc="Numbers.", columns=columns, key=["id"], promise=promise)
"""
TABLE = StreamTable(
    "promised",
    source=Topic("promised", partitions=1),
    doc="",
    columns=[Column("id", "BIGINT", "", required=True)],
    key=["id"],
)


class Home:
    """A home with the daemon alone at first; ``results`` are those of a check, oldest first."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(home=folder, spark_master="local[2]", _env_file=None)
        self.declarations = folder.parent / "promised_tables"
        self.declarations.mkdir()
        (self.declarations / "promised.py").write_text(DECLARATION)
        self.stacks: list[Up] = []

    def start(self, service: str) -> None:
        self.stacks.append(Up(self.settings.home, service, declarations=self.declarations))

    def results(self, check: str) -> list[bool]:
        key = dg.AssetCheckKey(dg.AssetKey("promised"), check)
        with dg.DagsterInstance.from_config(str(self.settings.home / "dagster")) as instance:
            records = instance.event_log_storage.get_asset_check_execution_history(key, limit=100)
        evaluations = [record.evaluation for record in reversed(records)]
        return [evaluation.passed for evaluation in evaluations if isinstance(evaluation, dg.AssetCheckEvaluation)]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    for stack in home.stacks:
        stack.stop()


def test_a_silent_broker_breaks_the_promise_and_a_merge_restores_it(home: Home) -> None:
    home.start("daemon")
    folder = home.settings.home / "dagster"
    assert wait_until((folder / "dagster.yaml").exists, 60)
    assert wait_until(lambda: home.results("records_fresh") == [True, False], 180), home.stacks[0].log.read_text()
    home.start("broker")
    assert home.stacks[-1].wait_for_log("Up: broker"), home.stacks[-1].log.read_text()
    assert publish(home.settings, TABLE, [b'{"id": 1}']) == 1
    assert wait_until(lambda: home.results("lag_within_limit")[-1:] == [True], 180), home.stacks[0].log.read_text()
    assert wait_until(lambda: home.results("records_fresh")[-1:] == [True], 60)
