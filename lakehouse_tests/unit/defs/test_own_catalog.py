"""Declared tables next to other assets: the caller of ``build_defs`` chooses their key prefix, group and owners."""

import dagster as dg
import pytest

from lakehouse.defs.build import build_defs
from lakehouse.examples.tables.heart_rates import heart_rates
from lakehouse.examples.tables.movie_ratings import movie_ratings
from lakehouse.examples.tables.temperatures import temperatures

PREFIX = ("weather", "raw")


@pytest.fixture(scope="module")
def defs() -> dg.Definitions:
    return build_defs([temperatures], key_prefix=PREFIX, group="weather", owners=["team:weather"])


@pytest.fixture(scope="module")
def specs(defs: dg.Definitions) -> list[dg.AssetSpec]:
    return list(defs.resolve_all_asset_specs())


def test_every_key_of_an_asset_or_dependency_begins_with_the_prefix(specs: list[dg.AssetSpec]) -> None:
    keys = [spec.key for spec in specs]
    keys += [dep.asset_key for spec in specs for dep in spec.deps]
    assert {key.path[:2] == [*PREFIX] and len(key.path) == 3 for key in keys} == {True}


def test_the_column_lineage_refers_only_to_existing_assets(specs: list[dg.AssetSpec]) -> None:
    lineages = [spec.metadata["dagster/column_lineage"] for spec in specs if "dagster/column_lineage" in spec.metadata]
    origins = {dep.asset_key for lineage in lineages for deps in lineage.deps_by_column.values() for dep in deps}
    assert origins
    assert origins <= {spec.key for spec in specs}


def test_the_caller_s_group_and_owners_are_used(specs: list[dg.AssetSpec]) -> None:
    assert {(spec.group_name, *spec.owners) for spec in specs} == {("weather", "team:weather")}


def test_group_owner_and_keys_come_from_the_declaration_by_default() -> None:
    specs = build_defs([temperatures]).resolve_all_asset_specs()
    assert {(spec.group_name, *spec.owners) for spec in specs} == {("temperatures", "team:lakehouse")}
    assert {len(spec.key.path) for spec in specs} == {1}


def test_jobs_and_checks_refer_to_the_prefixed_assets(defs: dg.Definitions) -> None:
    job = defs.resolve_job_def("merge_temperatures")
    assert dg.AssetKey([*PREFIX, "temperatures_by_location"]) in job.asset_layer.executable_asset_keys
    checks = defs.resolve_asset_graph().asset_check_keys
    assert checks
    assert {key.asset_key.path[:2] == [*PREFIX] for key in checks} == {True}
    verification = defs.resolve_job_def("verify_temperatures").asset_layer.asset_graph.asset_check_keys
    assert dg.AssetCheckKey(dg.AssetKey([*PREFIX, "temperatures"]), "keys_unique") in verification


def test_other_assets_in_the_same_definitions_keep_their_executor() -> None:
    @dg.asset(deps=[dg.AssetKey([*PREFIX, "temperatures_by_location"])])
    def temperatures_changes() -> None:
        """Has the same name as a declared table, but no prefix."""

    other_defs = dg.Definitions(assets=[temperatures_changes], executor=dg.multiprocess_executor)
    merged_defs = dg.Definitions.merge(build_defs([temperatures], key_prefix=PREFIX), other_defs)
    repository = merged_defs.get_repository_def()
    assert repository.get_job("merge_temperatures").executor_def.name == "in_process"
    assert repository.get_job("__ASSET_JOB").executor_def.name == "multiprocess"
    assert dg.AssetKey("temperatures_changes") in repository.asset_graph.get_all_asset_keys()


def test_a_prefix_and_an_owner_may_be_a_single_text_with_any_characters() -> None:
    defs = build_defs([temperatures], key_prefix="my-team.raw", owners="team:weather")
    keys = {(*spec.key.path[:-1], *spec.owners) for spec in defs.resolve_all_asset_specs()}
    assert keys == {("my-team.raw", "team:weather")}
    assert defs.resolve_job_def("merge_temperatures")


def test_definitions_of_tables_in_different_groups_can_be_merged() -> None:
    weather, films = build_defs([temperatures], group="weather"), build_defs([movie_ratings], group="films")
    specs = dg.Definitions.merge(weather, films).resolve_all_asset_specs()
    groups = {spec.key.path[-1]: spec.group_name for spec in specs}
    assert (groups["temperatures"], groups["movie_ratings"]) == ("weather", "films")


def test_a_run_loads_a_reference_that_a_rule_names_before_it_merges() -> None:
    defs = build_defs([heart_rates])
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    for name in ("heart_rates", "heart_rates_rejected"):
        upstream = {dep.asset_key.to_user_string() for dep in specs[name].deps}
        assert upstream == {"heart_rates_folder", "patients"}
    assert defs.resolve_job_def("merge_heart_rates")
