"""The page about OpenLineage: its sensor sends datasets, columns and lineage to a local receiver."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster_openlineage import OpenLineageEventLogStorage, openlineage_sensor

from lakehouse.defs.specs import CatalogEntry, merged_spec, rollup_spec
from lakehouse.defs.steps import materialize_result
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.receivers import receiving

PAGE = (ROOT / "docs" / "how-to" / "own-assets.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[2]
ENTRY = CatalogEntry(temperatures, ("sales",))
SPECS = [merged_spec(ENTRY), rollup_spec(ENTRY, temperatures.rollups[0])]
Event = dict[str, Any]


@pytest.fixture
def received_events(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Event]]:
    """The events that a receiver on this machine got."""
    with receiving() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url.partition("/hooks")[0])
        yield receiver.bodies


@contextmanager
def filled_instance(instance: dg.DagsterInstance, home: Path) -> Iterator[dg.DagsterInstance]:
    """An instance in which the topic was reported outside of a run, and a run wrote two tables."""

    @dg.multi_asset(specs=SPECS)
    def tables() -> Iterator[dg.MaterializeResult]:
        yield from (materialize_result(spec, Settings(home=home), {"read": 3}) for spec in SPECS)

    with instance:
        instance.report_runless_asset_event(dg.AssetMaterialization(ENTRY.key(ENTRY.topic_name)))
        assert dg.materialize([tables], instance=instance).success
        yield instance


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with filled_instance(dg.DagsterInstance.ephemeral(), tmp_path) as instance:
        yield instance


@pytest.fixture(scope="module")
def default_instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """An instance with Dagster's default storage, as ``lakehouse up`` starts it."""
    folder = tmp_path_factory.mktemp("dagster")
    with filled_instance(dg.DagsterInstance.local_temp(str(folder)), folder / "home") as instance:
        yield instance


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names that the example of the page defines, for the example tables."""
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEHOUSE_DECLARATIONS", "lakehouse.examples.tables")
        exec(EXAMPLE, names)  # noqa: S102 - our own text
    return names


def tick(sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None = None) -> tuple[str, str]:
    """Evaluate a sensor once, and return its cursor and skip reason."""
    result = sensor.evaluate_tick(dg.build_sensor_context(instance, cursor=cursor))
    return str(result.cursor), str(result.skip_message)


def outputs(events: list[Event]) -> dict[str, Event]:
    """The events by the name of the dataset that each wrote."""
    return {event["outputs"][0]["name"]: event for event in events}


def test_the_receiver_gets_each_dataset_with_its_inputs(page, received_events, instance) -> None:
    _, reason = tick(page["openlineage"], instance)
    assert reason == "Sent 3 materializations."
    inputs = {
        name: {dataset["name"] for dataset in event["inputs"]} for name, event in outputs(received_events).items()
    }
    assert inputs == {
        "sales/temperatures_topic": set(),
        "sales/temperatures": {"sales/temperatures_topic", "sales/temperatures_base"},
        "sales/temperatures_by_location": {"sales/temperatures"},
    }
    assert {event["outputs"][0]["namespace"] for event in received_events} == {"lakehouse"}


def test_the_receiver_gets_the_columns_of_each_dataset(page, received_events, instance) -> None:
    tick(page["openlineage"], instance)
    fields = outputs(received_events)["sales/temperatures"]["outputs"][0]["facets"]["schema"]["fields"]
    columns = {field["name"]: field for field in fields}
    assert {column.name for column in temperatures.columns} <= columns.keys()
    declared_column = temperatures.by_name["latitude"]
    assert columns["latitude"]["description"] == declared_column.doc
    assert columns["latitude"]["type"].upper() == declared_column.type
    assert all(event["outputs"][0]["facets"]["schema"]["fields"] for event in received_events)


def test_the_receiver_gets_the_lineage_of_columns(page, received_events, instance) -> None:
    tick(page["openlineage"], instance)
    facets = outputs(received_events)["sales/temperatures_by_location"]["outputs"][0]["facets"]
    (origin,) = facets["columnLineage"]["fields"]["latitude"]["inputFields"]
    assert (origin["namespace"], origin["name"], origin["field"]) == ("lakehouse", "sales/temperatures", "latitude")


def test_the_receiver_gets_the_address_of_each_table(page, received_events, instance, tmp_path) -> None:
    tick(page["openlineage"], instance)
    facets = outputs(received_events)["sales/temperatures"]["outputs"][0]["facets"]
    assert facets["dataSource"]["uri"] == Settings(home=tmp_path).table_uri("temperatures")


def test_a_second_tick_sends_nothing_again(page, received_events, instance) -> None:
    cursor, _ = tick(page["openlineage"], instance)
    sent_count = len(received_events)
    assert tick(page["openlineage"], instance, cursor) == (cursor, "Sent 0 materializations.")
    assert len(received_events) == sent_count


def test_a_backlog_is_sent_in_order_over_several_ticks(page, received_events, instance, monkeypatch) -> None:
    monkeypatch.setitem(page, "AT_ONCE", 2)
    cursor, _ = tick(page["openlineage"], instance)
    assert [*outputs(received_events)] == ["sales/temperatures_topic", "sales/temperatures"]
    tick(page["openlineage"], instance, cursor)
    assert [*outputs(received_events)][2:] == ["sales/temperatures_by_location"]


def test_a_receiver_that_is_down_does_not_fail_the_tick(page, instance, monkeypatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    assert tick(page["openlineage"], instance)[1] == "Sent 3 materializations."


def test_the_receiver_gets_the_same_from_the_default_storage(page, received_events, default_instance) -> None:
    cursor, reason = tick(page["openlineage"], default_instance)
    assert reason == "Sent 3 materializations."
    assert outputs(received_events).keys() == {
        "sales/temperatures_topic",
        "sales/temperatures",
        "sales/temperatures_by_location",
    }
    assert tick(page["openlineage"], default_instance, cursor) == (cursor, "Sent 0 materializations.")


@pytest.mark.filterwarnings("ignore:Use fetch_:UserWarning")
def test_the_sensor_of_the_package_never_passes_an_event_outside_of_a_run(
    received_events, instance, monkeypatch
) -> None:
    # the module creates its client when it is imported, which may have been before this test
    monkeypatch.setattr(sys.modules["dagster_openlineage.sensor"]._ADAPTER._client, "emit", received_events.append)
    sensor = openlineage_sensor(include_asset_events=True)
    cursor, reason = tick(sensor, instance)
    assert "badly formed hexadecimal UUID string" in reason
    assert tick(sensor, instance, cursor) == (cursor, reason)
    assert received_events == []


def test_the_sensor_of_the_package_fails_on_the_default_storage(default_instance) -> None:
    with pytest.raises(Exception, match="run-sharded event log storage"):
        tick(openlineage_sensor(include_asset_events=True), default_instance)


def test_the_storage_of_the_package_turns_pools_off(default_instance) -> None:
    storage = default_instance.event_log_storage
    assert storage.supports_global_concurrency_limits
    assert not OpenLineageEventLogStorage(storage).supports_global_concurrency_limits
