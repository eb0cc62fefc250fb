"""How many requests the store gets from a command and from a tick of the sensor: a store bills and delays each."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.discovery import declared_tables
from lakehouse.settings import Settings
from lakehouse_tests.helpers.code_locations import sensor_context
from lakehouse_tests.helpers.tables.azurite import RUNNING
from lakehouse_tests.helpers.tables.store_commands import Commands, count_requests, count_table
from lakehouse_tests.helpers.tables.store_proxy import StoreProxy, running_proxy

MERGES_BEFORE = 3  # each makes versions that a later command may read


class CountedLake:
    """A table with a feed and a rollup in a store behind a proxy, and the counts of what is done with it."""

    def __init__(self, proxy: StoreProxy, folder: Path, root: str) -> None:
        self.proxy, self.commands, self.merge_count, self.root = proxy, Commands(folder, root), 0, root

    def merge_five_records(self) -> Counter[tuple[str, str, int]]:
        """Publish five records and count the requests of the command that merges them."""
        self.merge_count += 1
        self.commands.publish(dict.fromkeys(range(5), f"p{self.merge_count}"))
        return self.count("merge", "items")

    def count(self, *arguments: str) -> Counter[tuple[str, str, int]]:
        """Count the requests of a command."""
        self.proxy.reset()
        self.commands.run(*arguments)
        return count_requests(self.proxy.requests(), self.root)

    def count_ticks(self, patch: pytest.MonkeyPatch, count: int) -> list[Counter[tuple[str, str, int]]]:
        """Count the requests of each of some ticks of the table's sensor, in a process that begins with the first."""
        for name, value in self.commands.variables.items():
            patch.setenv(name, value)
        patch.setattr(sys, "path", [*sys.path])  # without the folder after the test, as another one has the module too
        patch.delitem(sys.modules, "items", raising=False)
        settings = Settings(_env_file=None)
        resources = {"lakehouse": LakehouseResource.with_settings(settings)}
        definitions = build_defs([*declared_tables(settings)], resources)
        sensor, cursor, counts = definitions.resolve_sensor_def("items_sensor"), None, []
        with dg.DagsterInstance.ephemeral() as instance:
            for _ in range(count):
                self.proxy.reset()
                with sensor_context(definitions, instance, resources, cursor, "lakehouse") as context:
                    cursor = sensor.evaluate_tick(context).cursor
                counts.append(count_requests(self.proxy.requests(), self.root))
        return counts


@pytest.fixture(params=RUNNING)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CountedLake]:
    with RUNNING[request.param]() as store, running_proxy(store) as proxy:
        lake = CountedLake(proxy, tmp_path, f"{store.root}/counted")
        for _ in range(MERGES_BEFORE):
            lake.merge_five_records()
        yield lake


def test_a_merge_and_a_tick_send_few_requests(
    lake: CountedLake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = {"a merge of five records": lake.merge_five_records(), "an idle merge": lake.count("merge", "items")}
    first_tick, *later_ticks = lake.count_ticks(monkeypatch, 3)
    counts |= {"the first tick": first_tick, "a later tick": later_ticks[-1]}
    with capsys.disabled():
        print()  # noqa: T201 - the counts are the result
        for action, count in counts.items():
            print(f"\n{action}\n{count_table(count)}")  # noqa: T201
    totals = {action: count.total() for action, count in counts.items()}
    assert totals["a merge of five records"] <= 120 and totals["an idle merge"] <= 15 and totals["a later tick"] <= 5


def test_the_requests_do_not_grow_with_the_number_of_versions(lake: CountedLake) -> None:
    """With every tenth version a checkpoint is made, and Spark reads the entries after the newest one.

    So a merge sends as many requests as the one that is ten versions before it.
    """
    totals = [lake.merge_five_records().total() for _ in range(21)]
    assert max(totals) <= 120
    assert totals[17:] <= totals[7:11], totals
    assert lake.count("merge", "items").total() <= 15
