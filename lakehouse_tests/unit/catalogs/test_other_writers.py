"""What other programs do in a catalog: other kinds of tables, races, and replacements that a server refuses."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.errors import CatalogError
from lakehouse_tests.helpers.unity_server import UnityServer
from lakehouse_tests.unit.catalogs.conftest import World

_INPUT = ("Name", "Owner", "Description", "Parameters", "StorageDescriptor", "TableType", "PartitionKeys")


def _change_glue(aws: Any, facts: dict[str, Any]) -> None:
    table = aws.get_table(DatabaseName="lake", Name="sales")["Table"]
    serde = {"Parameters": {"path": facts.pop("path", table["StorageDescriptor"]["Location"])}}
    facts = {**facts, "Parameters": table["Parameters"] | facts.pop("Parameters", {})}
    storage = {**table["StorageDescriptor"], "SerdeInfo": serde}
    changed = {name: table[name] for name in _INPUT} | {"StorageDescriptor": storage} | facts
    aws.update_table(DatabaseName="lake", TableInput=changed)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"Parameters": {"table_type": "ICEBERG"}}, "table_type ICEBERG"),
        ({"Parameters": {"spark.sql.sources.provider": "parquet"}}, "spark.sql.sources.provider parquet"),
        ({"path": "s3://b/x"}, "path s3://b/x"),
        ({"TableType": "VIRTUAL_VIEW"}, "TableType VIRTUAL_VIEW"),
        ({"PartitionKeys": [{"Name": "day", "Type": "date"}]}, "PartitionKeys [{'Name': 'day', 'Type': 'date'}]"),
    ],
)
def test_what_hides_from_readers_that_a_table_is_of_delta_is_mended_in_glue(
    facts: dict[str, Any], text: str, glue_world: World, aws: Any
) -> None:
    glue_world.register()
    _change_glue(aws, dict(facts))
    update = glue_world.register()
    assert (update.outcome, update.differences) == ("updated", [f"The format is {text!r}, not 'delta'."])
    assert glue_world.register().outcome == "unchanged"


@pytest.mark.parametrize("facts", [{"data_source_format": "PARQUET"}, {"table_type": "MANAGED"}])
def test_what_hides_from_readers_that_a_table_is_of_delta_is_mended_in_unity(
    facts: dict[str, str], unity_world: World, unity: UnityServer
) -> None:
    unity_world.register()
    unity.tables["main.lake.sales"] |= facts
    assert unity_world.register().outcome == "updated"
    assert unity_world.register().outcome == "unchanged"


def test_the_later_of_two_first_registrations_finds_its_table(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.register()
    read, earlier_answers = world.catalog.read, [None]
    monkeypatch.setattr(world.catalog, "read", lambda name: earlier_answers.pop() if earlier_answers else read(name))
    assert world.register().outcome == "unchanged"
    earlier_answers.append(None)
    with pytest.raises(CatalogError, match="AlreadyExists|answers with 409"):
        world.register(doc="Sold.")


def test_a_change_in_glue_is_of_the_version_that_was_read(glue_world: World, aws: Any) -> None:
    versions: list[str] = []
    events = glue_world.catalog._client.meta.events  # type: ignore[attr-defined]
    events.register("before-parameter-build.glue.UpdateTable", lambda params, **_: versions.append(params["VersionId"]))
    glue_world.register()
    glue_world.register(doc="Sold.")
    version = aws.get_table(DatabaseName="lake", Name="sales")["Table"]["VersionId"]
    glue_world.register(doc="Sales.")
    assert versions[1:] == [version]


def test_a_table_of_glue_that_another_program_deleted_is_not_a_missing_database(glue_world: World, aws: Any) -> None:
    glue_world.register()
    stored_table = glue_world.read_stored()
    aws.delete_table(DatabaseName="lake", Name="sales")
    with pytest.raises(CatalogError, match="EntityNotFoundException") as caught:
        glue_world.catalog.replace(replace(stored_table, doc="Sold."), stored_table)
    assert "create-database" not in str(caught.value)


def test_a_refused_replacement_brings_the_former_registration_back(unity_world: World, unity: UnityServer) -> None:
    unity_world.register()
    unity.refused_creations = [429]
    with pytest.raises(CatalogError, match=r"429: not now. The former registration was created again, but grants"):
        unity_world.register(doc="Sold.")
    assert unity_world.read_stored().doc == "Sales of a shop."
    unity.refused_creations = [400, 429]
    with pytest.raises(CatalogError, match=r"400: not now. The table may now have no registration, and grants"):
        unity_world.register(doc="Sold.")
    assert unity_world.register(doc="Sold.").outcome == "created"
