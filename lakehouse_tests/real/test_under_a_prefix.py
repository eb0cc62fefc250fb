"""A table under a key prefix: its sensor requests a run, the run merges, and its declared check warns."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest

from lakehouse.declaration import Check, Column, Measure, Rollup, StreamTable, Time
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.kafka import publish
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.dagster_runs import checks, facts

ORDERS = StreamTable(
    name="orders",
    topic=f"orders-{uuid4().hex[:8]}",
    doc="Orders: the latest state of each.",
    columns=[
        Column("id", "BIGINT", required=True, doc="Number of the order."),
        Column("city", "STRING", source=("to", "city"), doc="Where it is sent to."),
        Column("paid_at", "TIMESTAMP", written=Time(epoch="milliseconds"), doc="UTC."),
        Column("pieces", "INT", default=1, doc="How many."),
    ],
    key=["id"],
    rollups=[Rollup("orders_by_city", ["city"], {"pieces": Measure("sum(pieces)", "BIGINT", "All.")}, "By city.")],
    checks=[
        Check("few_pieces", "pieces < 5", "Nobody orders that many.", severity="warn"),
        Check("paid", "paid_at IS NOT NULL", "Every order is paid."),
        Check("readable", "element_at(array(1), pieces + 5) > 0", "What cannot be computed."),
    ],
)
RECORDS: list[dict[str, Any]] = [
    {"id": 1, "to": {"city": "Rome"}, "paid_at": 1767225600000, "pieces": 7},
    {"id": 2, "to": None, "paid_at": 1767225600001.5},
    {"id": 3, "to": "Rome", "paid_at": 1767225600000},
]


@pytest.fixture(scope="module")
def settings(spark: Any, broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"), kafka_bootstrap_servers=bootstrap_servers(broker))


@pytest.fixture(scope="module")
def resources(settings: Settings) -> dict[str, Any]:
    return {"lakehouse": LakehouseResource.with_settings(settings)}


@pytest.fixture(scope="module")
def defs(resources: dict[str, Any]) -> dg.Definitions:
    return build_defs([ORDERS], resources, key_prefix=["sales", "raw"], group="sales", owners=["team:sales"])


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def tick(defs: dg.Definitions, instance: dg.DagsterInstance, resources: dict[str, Any]) -> Any:
    with dg.build_sensor_context(instance, resources=resources) as context:
        return defs.resolve_sensor_def("orders_sensor").evaluate_tick(context)


@pytest.fixture(scope="module")
def merged(
    defs: dg.Definitions, instance: dg.DagsterInstance, resources: dict[str, Any], settings: Settings
) -> dict[str, Any]:
    """The facts of the run that the sensor requested for the records."""
    publish(settings, ORDERS, [json.dumps(record).encode() for record in RECORDS])
    (request,) = tick(defs, instance, resources).run_requests
    run = defs.resolve_job_def("merge_orders").execute_in_process(instance=instance, run_config=request.run_config)
    return facts(run)


@pytest.mark.slow
def test_the_sensor_requests_a_run_of_the_prefixed_assets_until_all_is_merged(
    merged: dict[str, Any], defs: dg.Definitions, instance: dg.DagsterInstance, resources: dict[str, Any]
) -> None:
    assert {key.rpartition("/")[0] for key in merged} == {"sales/raw"}
    assert {
        name: merged["sales/raw/orders"][name] for name in ("records_read", "records_rejected", "rows_inserted")
    } == {
        "records_read": 3,
        "records_rejected": 1,
        "rows_inserted": 2,
    }
    assert merged["sales/raw/orders_by_city"]["dagster/row_count"] == 2
    assert not tick(defs, instance, resources).run_requests


@pytest.mark.slow
@pytest.mark.usefixtures("merged")
def test_a_declared_check_fails_with_its_declared_severity(defs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    run = defs.resolve_job_def("verify_orders").execute_in_process(instance=instance)
    evaluations = checks(run)
    assert {name: evaluations[name].passed for name in ("few_pieces", "paid", "readable", "keys_unique")} == {
        "few_pieces": False,
        "paid": True,
        "readable": False,
        "keys_unique": True,
    }
    assert evaluations["few_pieces"].severity == dg.AssetCheckSeverity.WARN
    assert "Row 1. Rows that do not pass: 1." in (evaluations["few_pieces"].description or "")
    assert evaluations["readable"].severity == dg.AssetCheckSeverity.ERROR
    assert "The condition cannot be computed" in (evaluations["readable"].description or "")
