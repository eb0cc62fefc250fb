"""Views in Dagster: assets with lineage, a job and a sensor for those that are materialized, all without a JVM."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse.declaration import View
from lakehouse.defs.build import build_defs
from lakehouse.defs.resources import LakehouseResource
from lakehouse.errors import DeclarationError, TableError
from lakehouse.settings import Settings
from lakehouse_tests.helpers.dagster_runs import tick
from lakehouse_tests.unit.views.orders import CUSTOMERS, ORDERS, add_orders

DEAR = View("dear", "SELECT id, upper(customer) AS customer FROM orders WHERE price > 10", "A dear order.")
COUNTS = View(
    "dear_counts",
    "SELECT customer, count(*) AS number FROM dear GROUP BY customer",
    "A customer with dear orders.",
    materialized=True,
    file=__file__,
)


@pytest.fixture
def definitions(settings: Settings) -> dg.Definitions:
    resources = {"lakehouse": LakehouseResource.with_settings(settings)}
    return build_defs([ORDERS, CUSTOMERS, COUNTS, DEAR], resources)


def run_job(definitions: dg.Definitions, instance: dg.DagsterInstance) -> Any:
    return definitions.resolve_job_def("materialize_dear_counts").execute_in_process(instance=instance)


def test_views_are_assets_with_lineage_to_tables_and_columns(definitions: dg.Definitions) -> None:
    specs = {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}
    dear, counts = specs["dear"], specs["dear_counts"]
    assert [[dep.asset_key.to_user_string() for dep in spec.deps] for spec in (dear, counts)] == [["orders"], ["dear"]]
    assert (dear.kinds, counts.kinds) == ({"duckdb", "view"}, {"duckdb", "delta", "table"})
    assert (dear.description, dear.owners, dear.group_name) == ("A dear order.", ["team:lakehouse"], "views")
    origins = dear.metadata["dagster/column_lineage"].deps_by_column
    assert origins["customer"] == [dg.TableColumnDep(asset_key=dg.AssetKey("orders"), column_name="customer")]
    columns = counts.metadata["dagster/column_schema"].columns
    assert [(column.name, column.type) for column in columns] == [("customer", "varchar"), ("number", "bigint")]
    (reference,) = counts.metadata["dagster/code_references"].code_references
    assert reference.file_path == __file__
    assert "FROM dear" in counts.metadata["sql"].value


def test_prefix_group_and_owners_are_those_of_the_call() -> None:
    definitions = build_defs([ORDERS, DEAR], key_prefix=["shop"], group="sales", owners=["team:sales"])
    spec = definitions.resolve_assets_def(dg.AssetKey(["shop", "dear"])).get_asset_spec(dg.AssetKey(["shop", "dear"]))
    assert [dep.asset_key for dep in spec.deps] == [dg.AssetKey(["shop", "orders"])]
    assert (spec.group_name, spec.owners) == ("sales", ["team:sales"])


def test_a_view_whose_table_is_not_in_the_call_is_refused() -> None:
    with pytest.raises(DeclarationError, match="View 'dear': unknown table orders"):
        build_defs([CUSTOMERS, DEAR])


def test_before_its_tables_exist_the_sensor_says_so(definitions, instance):
    news, reason = tick(definitions, instance, "dear_counts_sensor")
    assert news == []
    assert reason == "dear_counts reads orders, which does not exist yet."


@pytest.mark.invariant("12.13")
@pytest.mark.parametrize("table", ["orders", "dear_counts"])
def test_a_log_that_cannot_be_read_fails_the_tick(definitions, instance, settings, table):
    add_orders(settings, ("1", "ann", "15.00"))
    assert run_job(definitions, instance).success
    next(Path(settings.table_uri(table), "_delta_log").glob("*.json")).write_text("{")
    with pytest.raises(TableError):
        tick(definitions, instance, "dear_counts_sensor")


@pytest.mark.invariant("12.13")
def test_a_table_that_is_gone_after_it_was_read_fails_the_tick(definitions, instance, settings):
    add_orders(settings, ("1", "ann", "15.00"))
    assert run_job(definitions, instance).success
    shutil.rmtree(settings.table_uri("orders"))
    with pytest.raises(TableError, match="reads orders, which does not exist yet"):
        tick(definitions, instance, "dear_counts_sensor")


def test_the_sensor_requests_a_run_only_if_there_is_news(definitions, instance, settings):
    add_orders(settings, ("1", "ann", "15.00"))
    assert tick(definitions, instance, "dear_counts_sensor") == (["dear_counts"], None)
    assert run_job(definitions, instance).success
    assert tick(definitions, instance, "dear_counts_sensor") == ([], "No news: dear_counts has every row of dear.")
    add_orders(settings, ("2", "bob", "15.00"))
    assert tick(definitions, instance, "dear_counts_sensor") == (["orders"], None)


def test_the_materialization_names_the_versions_and_the_state_of_the_table(definitions, instance, settings):
    add_orders(settings, ("1", "ann", "15.00"))
    add_orders(settings, ("2", "bob", "15.00"))
    for rows_written in (2, 0):
        (event,) = run_job(definitions, instance).asset_materializations_for_node("dear_counts")
        (record,) = event.metadata["consumed_versions"].records
        assert record.data == {"table": "orders", "version": 1}
        assert event.metadata["rows_written"].value == rows_written
        assert event.metadata["dagster/row_count"].value == 2
        assert event.tags["dagster/data_version"] == "0"


def test_after_a_failed_run_the_sensor_waits(instance, settings):
    broken = replace(COUNTS, sql="SELECT id::INT AS number FROM orders")
    resources = {"lakehouse": LakehouseResource.with_settings(settings)}
    definitions = build_defs([ORDERS, broken], resources)
    add_orders(settings, ("x", "ann", "15.00"))
    result = definitions.resolve_job_def(broken.job_name).execute_in_process(instance=instance, raise_on_error=False)
    assert "Could not convert string 'x' to INT32" in str(result.failure_data_for_node("dear_counts"))
    news, reason = tick(definitions, instance, "dear_counts_sensor")
    assert news == []
    assert "The sensor requests it again at" in reason
