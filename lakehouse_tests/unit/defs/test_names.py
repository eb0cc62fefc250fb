"""A name that Dagster has from a declaration is refused for other tables and rollups, before Dagster refuses it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from lakehouse.declaration import Column, Measure, Reference, Rollup, StreamTable
from lakehouse.declaration.table import require_distinct_names
from lakehouse.defs.build import build_defs
from lakehouse.errors import DeclarationError
from lakehouse_tests.helpers.tables.tables import redeclare

ID = Column("id", "BIGINT", required=True, doc="Number.")


def rollup(name: str) -> Rollup:
    return Rollup(name, by=["id"], measures={"n": Measure("count(*)", "BIGINT", "Rows.")}, doc="By number.")


def declare(name: str, *rollups: Rollup) -> StreamTable:
    return StreamTable(name=name, topic=name, doc="Prices.", columns=[ID], key=["id"], rollups=rollups)


PRICES = redeclare(
    declare("prices", rollup("by_id")),
    references=[Reference("things", Path("things.jsonl"), [ID], ["id"], "Things.")],
    replay_from=date(2026, 8, 1),
)


def names_in_dagster(table: StreamTable) -> Iterator[str]:
    """The names of all assets, ops, jobs, schedules and sensors in Dagster."""
    repository = build_defs([table]).get_repository_def()
    yield from (key.to_user_string() for key in repository.asset_graph.get_all_asset_keys())
    for asset in {*repository.assets_defs_by_key.values(), *repository.asset_checks_defs_by_key.values()}:
        if asset.is_executable:
            yield asset.op.name
    yield from (job.name for job in repository.get_all_jobs() if not job.name.startswith("__"))
    yield from (schedule.name for schedule in repository.schedule_defs)
    yield from (sensor.name for sensor in repository.sensor_defs)


def test_the_names_of_a_declaration_include_all_names_in_dagster() -> None:
    names = set(names_in_dagster(PRICES))
    assert {"prices", "prices_topic", "prices_warnings", "by_id_rollup_equals_recomputation", "merge_prices"} <= names
    assert {"prices_sensor", "prices_maintenance_daily", "prices_checks_daily"} <= names
    assert "prices_replayed" in names
    assert names <= set(PRICES.names)


@pytest.mark.parametrize("name", sorted(set(names_in_dagster(PRICES)) | set(PRICES.names)))
def test_a_name_in_dagster_is_refused_for_another_rollup_and_table(name: str) -> None:
    if name not in {"by_id", "by_id_rollup_equals_recomputation"}:
        with pytest.raises(DeclarationError, match=name):
            replace(PRICES, rollups=[*PRICES.rollups, rollup(name)])
    with pytest.raises(DeclarationError, match=name):
        require_distinct_names(PRICES, declare(name))


def test_a_rollup_with_the_name_of_another_rollup_s_check_is_refused() -> None:
    with pytest.raises(DeclarationError, match="a_rollup_equals_recomputation"):
        declare("prices", rollup("a"), rollup("a_rollup_equals_recomputation"))


@pytest.mark.parametrize("name", ["prices_daily", "maintain", "verify", "merge", "prices_by_id", "by_id_replayed"])
def test_a_name_that_is_not_in_dagster_is_accepted(name: str) -> None:
    tables = require_distinct_names(PRICES, declare(name))
    repository: dg.RepositoryDefinition = build_defs(tables).get_repository_def()
    assert repository.has_job(f"verify_{name}")
