"""Declared tables beside assets of one's own: their keys, group and owners are chosen by whoever builds them."""

import dagster as dg
import pytest

from lakehouse.defs.build import build_defs
from lakehouse.examples.tables.movie_ratings import movie_ratings
from lakehouse.examples.tables.temperatures import temperatures

PREFIX = ("weather", "raw")


@pytest.fixture(scope="module")
def defs() -> dg.Definitions:
    return build_defs([temperatures], key_prefix=PREFIX, group="weather", owners=["team:weather"])


@pytest.fixture(scope="module")
def specs(defs: dg.Definitions) -> list[dg.AssetSpec]:
    return list(defs.resolve_all_asset_specs())


def test_every_key_begins_with_the_prefix_also_of_what_assets_are_made_from(specs: list[dg.AssetSpec]) -> None:
    keys = [spec.key for spec in specs]
    keys += [dep.asset_key for spec in specs for dep in spec.deps]
    assert {key.path[:2] == [*PREFIX] and len(key.path) == 3 for key in keys} == {True}


def test_columns_come_from_columns_of_assets_that_are_there(specs: list[dg.AssetSpec]) -> None:
    lineages = [spec.metadata["dagster/column_lineage"] for spec in specs if "dagster/column_lineage" in spec.metadata]
    origins = {dep.asset_key for each in lineages for deps in each.deps_by_column.values() for dep in deps}
    assert origins
    assert origins <= {spec.key for spec in specs}


def test_group_and_owners_are_those_that_were_named(specs: list[dg.AssetSpec]) -> None:
    assert {(spec.group_name, *spec.owners) for spec in specs} == {("weather", "team:weather")}


def test_without_any_of_them_the_declaration_decides() -> None:
    specs = build_defs([temperatures]).resolve_all_asset_specs()
    assert {(spec.group_name, *spec.owners) for spec in specs} == {("temperatures", "team:lakehouse")}
    assert {len(spec.key.path) for spec in specs} == {1}


def test_jobs_and_checks_are_of_the_same_assets(defs: dg.Definitions) -> None:
    job = defs.resolve_job_def("merge_temperatures")
    assert dg.AssetKey([*PREFIX, "temperatures_by_location"]) in job.asset_layer.executable_asset_keys
    checks = defs.resolve_asset_graph().asset_check_keys
    assert checks
    assert {key.asset_key.path[:2] == [*PREFIX] for key in checks} == {True}
    verification = defs.resolve_job_def("verify_temperatures").asset_layer.asset_graph.asset_check_keys
    assert dg.AssetCheckKey(dg.AssetKey([*PREFIX, "temperatures"]), "keys_unique") in verification


def test_they_stand_beside_assets_of_one_s_own_which_keep_their_executor() -> None:
    @dg.asset(deps=[dg.AssetKey([*PREFIX, "temperatures_by_location"])])
    def temperatures_changes() -> None:
        """Named like one of ours, in another place."""

    own = dg.Definitions(assets=[temperatures_changes], executor=dg.multiprocess_executor)
    both = dg.Definitions.merge(build_defs([temperatures], key_prefix=PREFIX), own)
    repository = both.get_repository_def()
    assert repository.get_job("merge_temperatures").executor_def.name == "in_process"
    assert repository.get_job("__ASSET_JOB").executor_def.name == "multiprocess"
    assert dg.AssetKey("temperatures_changes") in repository.asset_graph.get_all_asset_keys()


def test_a_prefix_or_an_owner_may_be_told_as_one_text_of_any_characters() -> None:
    defs = build_defs([temperatures], key_prefix="my-team.raw", owners="team:weather")
    keys = {(*spec.key.path[:-1], *spec.owners) for spec in defs.resolve_all_asset_specs()}
    assert keys == {("my-team.raw", "team:weather")}
    assert defs.resolve_job_def("merge_temperatures")


def test_tables_in_groups_of_their_own_are_merged() -> None:
    both = dg.Definitions.merge(build_defs([temperatures], group="weather"), build_defs([movie_ratings], group="films"))
    groups = {spec.key.path[-1]: spec.group_name for spec in both.resolve_all_asset_specs()}
    assert (groups["temperatures"], groups["movie_ratings"]) == ("weather", "films")
