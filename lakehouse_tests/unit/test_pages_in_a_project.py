"""Code of the pages about your own assets and lineage, in a new project whose component sets a prefix."""

import json
import re
from pathlib import Path

import pytest
import yaml

from lakehouse.cli.new_project import project_files
from lakehouse_tests.helpers.dg_projects import run_in_project, write_files
from lakehouse_tests.helpers.places import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
OWN_ASSETS = (ROOT / "docs" / "how-to" / "own-assets.md").read_text(encoding="utf-8")
PROGRAM = """
import json
from lakehouse.project_definitions import defs
from dagster import AssetKey
repository = defs().get_repository_def()
graph = repository.asset_graph
print(json.dumps({
    "jobs": sorted(job.name for job in repository.get_all_jobs() if not job.name.startswith("__")),
    "sensors": sorted(sensor.name for sensor in repository.sensor_defs),
    "report": [key.to_user_string() for key in graph.get(AssetKey("price_report")).parent_keys],
    "tables": [key.to_user_string() for key in graph.executable_asset_keys],
}))
"""


def first_code(text: str, language: str, number: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[number]


def load_project(folder: Path, files: dict[str, str]) -> dict[str, list[str]]:
    """What Dagster loads of a new project in which these files were written below its module."""
    write_files(folder, project_files("my-lake") | {f"src/my_lake/{name}": text for name, text in files.items()})
    loaded_names: dict[str, list[str]] = json.loads(run_in_project(folder, "python", "-c", PROGRAM).splitlines()[-1])
    return loaded_names


@pytest.fixture
def declaration() -> dict[str, str]:
    return {"tables/prices.py": first_code(README, "python")}


def test_the_asset_of_the_readme_is_behind_the_rollup(tmp_path: Path, declaration: dict[str, str]) -> None:
    (attributes,) = re.findall(r"`(attributes: \{.*\})`", README)
    component = f"type: lakehouse.LakehouseTables\n{attributes}\n"
    files = {"defs/lakehouse/defs.yaml": component, "defs/price_report.py": first_code(README, "python", 1)}
    loaded_names = load_project(tmp_path, declaration | files)
    assert loaded_names["report"] == ["sales/prices_by_shop"]
    assert "sales/prices_by_shop" in loaded_names["tables"]


def test_your_own_assets_and_the_lineage_sensor_load_next_to_the_component(
    tmp_path: Path, declaration: dict[str, str]
) -> None:
    component = first_code(OWN_ASSETS, "yaml")
    assert yaml.safe_load(component)["attributes"] == {"key_prefix": ["sales"]}
    files = {
        "defs/lakehouse/defs.yaml": component,
        "defs/price_report.py": first_code(OWN_ASSETS, "python"),
        "defs/lineage.py": first_code(OWN_ASSETS, "python", 2),
    }
    loaded_names = load_project(tmp_path, declaration | files)
    assert loaded_names["report"] == ["sales/prices"]
    assert {"export_prices", "merge_prices", "merge_readings"} <= {*loaded_names["jobs"]}
    assert {"conditions", "openlineage", "prices_merged", "prices_sensor"} <= {*loaded_names["sensors"]}
    assert "default_automation_condition_sensor" not in loaded_names["sensors"]
