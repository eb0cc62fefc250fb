"""The component of a ``dg`` project: which tables it loads, and what ``dg`` shows and scaffolds."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from lakehouse import LakehouseTables
from lakehouse.errors import DeclarationError

TAG = {"tier": "gold"}
PROJECT = """
[project]
name = "my-lake"
version = "0.1.0"
[tool.lakehouse]
declarations = "tables"
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "my_lake"
"""
DEFINITIONS = """
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
SAMPLE = '{"id": 1, "price": 2.5}\n{"id": 2, "price": 3.5}\n'


class TaggedTables(LakehouseTables):
    """A component of a user, which tags each asset."""

    def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.merge_attributes(tags=TAG)


@pytest.fixture(autouse=True)
def _two_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", "lakehouse.examples.tables")


@contextmanager
def load_definitions(
    *components: Mapping[str, Any], component_type: type[LakehouseTables] = LakehouseTables
) -> Iterator[dg.Definitions]:
    """The definitions of a project with components that have these attributes."""
    with create_defs_folder_sandbox() as sandbox:
        for number, attributes in enumerate(components):
            contents = {"type": f"{component_type.__module__}.{component_type.__qualname__}", "attributes": attributes}
            sandbox.scaffold_component(component_type, defs_path=f"lake_{number}", defs_yaml_contents=contents)
        with sandbox.build_all_defs() as defs:
            yield defs


def keys(defs: dg.Definitions) -> set[str]:
    return {spec.key.to_user_string() for spec in defs.resolve_all_asset_specs()}


def test_a_component_without_attributes_loads_every_declared_table() -> None:
    with load_definitions({}) as defs:
        assert {"temperatures", "temperatures_changes", "movie_ratings", "movie_ratings_by_movie"} <= keys(defs)
        assert defs.get_repository_def().has_job("merge_movie_ratings")


def test_a_table_that_another_component_names_is_loaded_once_with_its_attributes() -> None:
    with load_definitions({}, {"tables": ["movie_ratings"], "key_prefix": ["films"], "group": "films"}) as defs:
        groups = {spec.key.to_user_string(): spec.group_name for spec in defs.resolve_all_asset_specs()}
        assert groups["films/movie_ratings"] == "films"
        assert groups["temperatures"] == "temperatures"
        assert "movie_ratings" not in groups


def test_a_component_of_a_user_changes_the_specs() -> None:
    with load_definitions(
        {"tables": ["temperatures"], "owners": ["team:weather"]}, component_type=TaggedTables
    ) as defs:
        specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
        assert specs["temperatures_changes"].tags["tier"] == "gold"
        assert specs["temperatures"].owners == ["team:weather"]


def test_an_unknown_table_is_refused_with_the_declared_ones() -> None:
    with pytest.raises(Exception, match="building definitions") as failure, load_definitions({"tables": ["humidity"]}):
        pass
    error: BaseException | None = failure.value
    while error and not isinstance(error, DeclarationError):
        error = error.__cause__ or error.__context__
    assert "Unknown table humidity" in str(error)
    assert "The declared tables are heart_rates, movie_ratings, temperatures." in str(error)


@pytest.mark.slow
def test_dg_lists_the_component_scaffolds_a_table_from_records_and_loads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEHOUSE_DECLARATIONS")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "src"), *sys.path[1:]]))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    files = {
        "pyproject.toml": PROJECT,
        "dagster.yaml": "telemetry: {enabled: false}\n",
        "prices.jsonl": SAMPLE,
        "tables/__init__.py": "",
        "src/my_lake/__init__.py": "",
        "src/my_lake/definitions.py": DEFINITIONS,
        "src/my_lake/defs/__init__.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def dg_output(*arguments: str) -> str:
        command = ["dg", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    components = json.loads(dg_output("list", "components", "--json"))
    components = json.loads(dg_output("list", "components", "--json"))["items"]
    assert "lakehouse.LakehouseTables" in {component["key"] for component in components}
    dg_output("scaffold", "defs", "lakehouse.LakehouseTables", "prices", "--from-sample", "prices.jsonl")
    assert (tmp_path / "tables" / "prices.py").exists()
    assert "All definitions loaded successfully" in dg_output("check", "defs")
    assert "prices_rejected" in dg_output("list", "defs", "--json")
