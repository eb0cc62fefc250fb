"""The page about a user's own assets: its definitions run, and request what the page promises."""

import re
import sys
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "own-assets.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[:2]  # the assets, and definitions without a component
DECLARATION = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0]
PRICES = dg.AssetKey(["sales", "prices"])
REPORT = dg.AssetKey("price_report")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the example of the page defines."""
    module = ModuleType("my_lake.tables.prices")
    module.__file__ = "prices.py"
    exec(DECLARATION, vars(module))  # noqa: S102 - our own text
    monkeypatch.setitem(sys.modules, "my_lake", ModuleType("my_lake"))
    monkeypatch.setitem(sys.modules, "my_lake.tables", ModuleType("my_lake.tables"))
    monkeypatch.setitem(sys.modules, "my_lake.tables.prices", module)
    names: dict[str, Any] = {}
    for example in EXAMPLES:
        exec(example, names)  # noqa: S102 - our own text
    return names


class Conditions:
    """Dagster's evaluation of the conditions of the page, tick by tick."""

    def __init__(self, defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
        self._defs, self._instance = defs, instance
        self._cursor: Any = None
        self.tick()  # the first tick only stores what exists

    def tick(self, hours: int = 0) -> int:
        """Evaluate the conditions this many hours from now, and return how often they request the report."""
        time = datetime.now(UTC) + timedelta(hours=hours)
        result = dg.evaluate_automation_conditions(
            self._defs, self._instance, cursor=self._cursor, evaluation_time=time
        )
        self._cursor = result.cursor
        return result.get_num_requested(REPORT)


@pytest.fixture
def conditions(page, instance) -> Conditions:
    return Conditions(page["defs"], instance)


def report_merge(instance: dg.DagsterInstance, version: int) -> None:
    """What a merge leaves in Dagster: a materialization with the version of the table."""
    tags = {"dagster/data_version": str(version)}
    instance.report_runless_asset_event(dg.AssetMaterialization(PRICES, tags=tags))


def test_the_key_of_the_page_is_the_merged_table(page) -> None:
    merged = page["defs"].resolve_assets_def(PRICES)
    assert merged.is_executable
    assert page["PRICES"] == PRICES


def test_without_a_component_all_steps_of_a_run_share_one_process(page) -> None:
    assert page["defs"].executor is dg.in_process_executor


def test_two_merges_before_a_tick_request_the_report_once(conditions, instance) -> None:
    report_merge(instance, 1)
    report_merge(instance, 2)
    assert [conditions.tick(), conditions.tick()] == [1, 0]


def test_a_merge_requests_the_report_once(conditions, instance) -> None:
    assert conditions.tick() == 0
    report_merge(instance, 1)
    assert [conditions.tick(), conditions.tick()] == [1, 0]


def test_a_merge_without_a_new_version_requests_the_report_too(conditions, instance) -> None:
    requests = []
    for _ in range(2):
        report_merge(instance, 1)
        requests += [conditions.tick(), conditions.tick()]
    assert requests == [1, 0, 1, 0]


def test_eager_drops_a_merge_right_after_a_request(conditions, instance) -> None:
    report_merge(instance, 1)
    assert conditions.tick() == 1
    report_merge(instance, 2)
    assert [conditions.tick() for _ in range(3)] == [0, 0, 0]
    report_merge(instance, 3)
    assert conditions.tick() == 1


def test_the_condition_with_a_schedule_requests_a_dropped_merge_within_the_hour(instance) -> None:
    (text,) = re.findall(r"`(dg\.AutomationCondition\S+ \| \S+)`", PAGE)
    condition = eval(text, {"dg": dg})  # noqa: S307 - our own text

    @dg.asset(key=REPORT, deps=[PRICES], automation_condition=condition)
    def price_report() -> None: ...

    conditions = Conditions(dg.Definitions(assets=[dg.AssetSpec(PRICES), price_report]), instance)
    report_merge(instance, 1)
    assert conditions.tick() == 1
    report_merge(instance, 2)
    assert [conditions.tick(), conditions.tick(hours=1)] == [0, 1]


def test_neither_an_observation_nor_the_topic_requests_the_report(conditions, instance) -> None:
    instance.report_runless_asset_event(dg.AssetObservation(PRICES))
    instance.report_runless_asset_event(dg.AssetMaterialization(dg.AssetKey(["sales", "prices_topic"])))
    assert [conditions.tick(), conditions.tick()] == [0, 0]


def test_the_sensor_requests_the_export_after_the_last_of_two_merges(page, instance) -> None:
    definitions = page["defs"].get_repository_def()
    sensor, cursor = definitions.get_sensor_def("prices_merged"), None

    def tick() -> int:
        nonlocal cursor
        context = dg.build_sensor_context(instance, cursor=cursor, repository_def=definitions)
        result = sensor.evaluate_tick(context)
        cursor = result.cursor
        return len(result.run_requests or [])

    assert tick() == 0
    report_merge(instance, 1)
    assert tick() == 1
    report_merge(instance, 2)
    report_merge(instance, 3)
    assert [tick(), tick()] == [1, 0]


def test_only_the_sensors_of_the_page_are_on_and_handle_only_its_assets(page) -> None:
    definitions = page["defs"].get_repository_def()
    running_sensors = {sensor.name for sensor in definitions.sensor_defs if sensor.default_status.value == "RUNNING"}
    assert running_sensors == {"prices_sensor", "prices_merged", "conditions"}
    graph = page["defs"].resolve_asset_graph()
    assert page["conditions"].asset_selection.resolve(graph) == {REPORT}
    assert {key for key in graph.get_all_asset_keys() if graph.get(key).automation_condition} == {REPORT}


def test_without_a_sensor_for_conditions_the_default_one_is_off(page) -> None:
    definitions = dg.Definitions(assets=[page["price_report"]]).get_repository_def()
    (sensor,) = definitions.sensor_defs
    assert (sensor.name, sensor.default_status) == (
        "default_automation_condition_sensor",
        dg.DefaultSensorStatus.STOPPED,
    )
