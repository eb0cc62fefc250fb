"""Everything that follows from a declaration, as one run of Dagster makes it: a real broker, Spark and Delta."""

import os
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.local.broker import bootstrap_servers
from lakehouse.settings import Settings
from lakehouse.topic import publish
from lakehouse_tests.helpers.dagster_runs import FIRST, Lakehouse, checks, facts

pytestmark = pytest.mark.invariant(7, 10)

WRITTEN = ("temperatures", "temperatures_changes", "temperatures_by_location")


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def lakehouse(spark: SparkSession, broker: Settings, instance, tmp_path, request) -> Lakehouse:
    settings = Settings(home=tmp_path, kafka_bootstrap_servers=bootstrap_servers(broker))
    return Lakehouse(settings, instance, f"dagster-{os.getpid()}-{tmp_path.name}")


def assert_told(lakehouse: Lakehouse, name: str, told: dict[str, Any]) -> None:
    """A table tells where it is, its version and how long it took."""
    assert told["table_version"] > 0
    assert told["seconds"] >= 0
    assert told["dagster/uri"] == lakehouse.settings.table_uri(name)
    version = lakehouse.instance.get_latest_materialization_event(dg.AssetKey(name)).asset_materialization.tags
    assert version["dagster/data_version"] == str(told["table_version"])


def test_everything_materializes_without_configuration_and_again_without_effect(lakehouse):
    assert publish(lakehouse.settings, lakehouse.table, FIRST) == len(FIRST)
    run = lakehouse.run()
    first = facts(run)
    maintained = first.pop("temperatures_maintenance")
    assert set(first) == {*WRITTEN, "locations", "temperatures_base", "temperatures_rejected"}
    assert {row.data["table"] for row in maintained["tables"].records} == set(first)
    assert (maintained["idle"], maintained["kept"], maintained["removed"]) == (False, "", 0)
    now = {name: DeltaTable(lakehouse.settings.table_uri(name)).version() for name in first}
    merged = first["temperatures"]
    counts = ("read", "rejected", "duplicate", "source_rows", "inserted", "updated", "stale", "batches")
    assert {name: merged[name] for name in counts} == {
        "read": len(FIRST),
        "rejected": 2,
        "duplicate": 0,
        "source_rows": 60,
        "inserted": 60,
        "updated": 0,
        "stale": 0,
        "batches": 1,
    }
    assert merged["total_read"] == len(FIRST)
    assert (merged["lag_before"], merged["lag_after"]) == (len(FIRST), 0)
    assert merged["base_rows_inserted"] == first["temperatures_base"]["dagster/row_count"] > 0
    assert merged["dagster/row_count"] == 60 + merged["base_rows_inserted"]
    assert first["temperatures_rejected"]["dagster/row_count"] == 2
    assert first["locations"]["dagster/row_count"] == 6
    parts = [record.data for record in merged["ranges"].records]
    assert sum(part["end"] - part["start"] for part in parts) == len(FIRST)
    for name in first:
        assert_told(lakehouse, name, first[name])
    assert len(checks(run)) == 9
    assert [name for name, check in checks(run).items() if not check.passed] == ["rejected_share"]
    assert checks(run)["rejected_share"].severity is dg.AssetCheckSeverity.WARN

    second = facts(lakehouse.run())
    assert {name: second[name]["table_version"] for name in first} == now
    assert second["temperatures_maintenance"]["idle"]
    assert [second["temperatures"][name] for name in counts] == [0] * len(counts)
    assert len(second["temperatures"]["ranges"].records) == 0
