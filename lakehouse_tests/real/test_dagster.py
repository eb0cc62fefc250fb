"""All tables of a declaration, built by one Dagster run on a real broker, Spark and Delta."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.cli.demo import Figures
from lakehouse.declaration import Check, Column
from lakehouse.defs.build import build_defs
from lakehouse.kafka import publish
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.dagster_runs import FIRST, Lakehouse, all_runs, checks, facts

TABLES = (
    "locations",
    "temperatures",
    "temperatures_base",
    "temperatures_by_location",
    "temperatures_changes",
    "temperatures_rejected",
)


COUNTS = ("records_read", "records_rejected", "rows_inserted", "rows_updated", "batches")
Facts = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def lakehouse(spark: SparkSession, broker: Settings, tmp_path_factory) -> Iterator[Lakehouse]:
    settings = Settings(home=tmp_path_factory.mktemp("home"), kafka_bootstrap_servers=bootstrap_servers(broker))
    with dg.DagsterInstance.ephemeral() as instance:
        lakehouse = Lakehouse(settings, instance, f"dagster-{uuid4().hex[:8]}")
        assert publish(settings, lakehouse.table, FIRST) == len(FIRST)
        yield lakehouse


@pytest.fixture(scope="module")
def run(lakehouse: Lakehouse) -> dg.ExecuteInProcessResult:
    """A run of all assets, without configuration."""
    return lakehouse.run()


@pytest.fixture(scope="module")
def first(run: dg.ExecuteInProcessResult) -> Facts:
    return facts(run)


@pytest.mark.invariant("7.1")
def test_a_run_without_configuration_creates_every_table_and_accounts_for_every_record(lakehouse, first) -> None:
    merge_metadata = first["temperatures"]
    assert {name: merge_metadata[name] for name in COUNTS} == {
        "records_read": len(FIRST),
        "records_rejected": 2,
        "rows_inserted": 60,
        "rows_updated": 0,
        "batches": 1,
    }
    assert not {"records_superseded", "rows_stale", "gaps", "base_rows_updated"} & set(merge_metadata)
    assert all_runs(merge_metadata["account"])["records_read"] == len(FIRST)
    assert (merge_metadata["lag_before"], merge_metadata["lag_after"]) == (len(FIRST), 0)
    assert merge_metadata["base_rows_inserted"] == first["temperatures_base"]["dagster/row_count"] == 336
    assert merge_metadata["dagster/row_count"] == 60 + merge_metadata["base_rows_inserted"]
    rejected_metadata = first["temperatures_rejected"]
    counts = ("dagster/row_count", "records_rejected", "records_unresolved")
    assert [rejected_metadata[name] for name in counts] == [2, 2, 2]
    reasons = {record.data["reason"]: record.data["value"] for record in rejected_metadata["reasons"].records}
    assert reasons == {"truncated": "{", "not_an_object": "[]"}
    assert first["locations"]["dagster/row_count"] == 6
    parts = [record.data for record in merge_metadata["offsets_read"].records]
    assert sum(part["end"] - part["start"] for part in parts) == len(FIRST)
    assert [record.data for record in merge_metadata["other_fields"].records] == [{"field": "station", "records": 1}]


def test_every_table_reports_its_location_version_and_duration(lakehouse, first) -> None:
    for name in TABLES:
        metadata = first[name]
        assert metadata["table_version"] > 0
        assert metadata["size_bytes"] > 0
        assert metadata["seconds"] >= 0
        assert metadata["dagster/uri"] == lakehouse.settings.table_uri(name)
        event = lakehouse.instance.get_latest_materialization_event(dg.AssetKey(name))
        assert event.asset_materialization.tags["dagster/data_version"] == str(metadata["table_version"])


@pytest.mark.slow
def test_maintenance_observes_every_table(lakehouse, first) -> None:
    assert set(first) == set(TABLES)
    lakehouse.run("maintain_temperatures")
    for name in TABLES:
        (record,) = lakehouse.instance.fetch_observations(dg.AssetKey(name), limit=1).records
        observation = record.asset_observation
        assert observation.description == "Compacted and vacuumed."
        assert observation.metadata["files_after"].value > 0
        assert observation.metadata["table_version"].value == version_of(lakehouse, name)


def test_every_check_runs_and_only_the_rejected_share_fails(run) -> None:
    results = checks(run)
    assert len(results) == 15
    assert [name for name, check in results.items() if not check.passed] == ["rejected_share"]
    assert results["rejected_share"].severity is dg.AssetCheckSeverity.WARN


def test_the_figures_of_the_demo_name_the_places_of_the_sample_files(lakehouse, first) -> None:
    """Two places have a week of base rows; the records cycle through all six places."""
    figures = Figures(lakehouse.settings, lakehouse.table)
    base_places = "178 at Anchorage, AK, USA, 178 at London, England"
    assert figures.count() == f"396 rows, 10 at each of 4 locations, {base_places}"
    group, newest = figures.newest_of_one_group(lakehouse.table.rollups[0])
    assert (group, [str(row[0]) for row in newest.rows]) == ("Anchorage, AK, USA", ["2022-01-01", "2023-01-01"])
    assert sum(row[newest.columns.index("rows")] for row in newest.rows) == 178


def version_of(lakehouse: Lakehouse, name: str) -> int:
    return DeltaTable(lakehouse.settings.table_uri(name)).version()


def test_a_second_run_changes_nothing(lakehouse, first) -> None:
    versions = {name: version_of(lakehouse, name) for name in TABLES}
    second = facts(lakehouse.run())
    assert {name: second[name]["table_version"] for name in TABLES} == versions
    assert [second["temperatures"][name] for name in COUNTS] == [0] * len(COUNTS)
    assert len(second["temperatures"]["offsets_read"].records) == 0


def test_a_changed_declaration_is_reported_only_by_the_run_that_applies_it(lakehouse, first) -> None:
    table = lakehouse.table
    columns = [*table.columns, Column("station", "STRING", doc="Its name.")]
    checks_ = [Check("warm", "temperature_2m < 60", doc="No warmer.")]
    lakehouse.defs = build_defs([replace(table, columns=columns, checks=checks_)], lakehouse.resources)
    results = facts(lakehouse.run("merge_temperatures"))
    changes_by_table = {
        name: [row.data for row in metadata["declaration_changes"].records]
        for name, metadata in results.items()
        if "declaration_changes" in metadata
    }
    assert [(row["change"], row["detail"]) for row in changes_by_table["temperatures"]] == [
        ("add column", "station STRING; NULL in existing rows"),
        ("declare", "check warm is new"),
    ]
    assert [row["change"] for row in changes_by_table["temperatures_changes"]] == ["add column"] * 2
    assert set(changes_by_table) == {"temperatures", "temperatures_changes"}
    second = facts(lakehouse.run("merge_temperatures"))
    assert not any("declaration_changes" in metadata for metadata in second.values())
