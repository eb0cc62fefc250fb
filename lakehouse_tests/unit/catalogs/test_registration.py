"""What a catalog has of a table, after each change of it: Glue by moto, Unity Catalog by a double."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from lakehouse.catalogs.registration import type_text
from lakehouse.errors import CatalogError
from lakehouse_tests.helpers.tables.exported import append, day, sales
from lakehouse_tests.unit.catalogs.conftest import COLUMNS, World

READS = {"glue": "GetTable", "unity+http": "GET"}


def reads(world: World) -> str:
    return READS[str(world.settings.catalog).partition(":")[0]]


def test_a_table_is_registered_once(world: World) -> None:
    assert world.register().outcome == "created"
    stored_table = world.read_stored()
    assert (stored_table.location, stored_table.doc) == (
        f"file://{world.settings.table_uri('sales')}",
        "Sales of a shop.",
    )
    id_, price, sold_at = stored_table.columns
    assert (id_.name, id_.type, id_.comment) == ("id", "string", "Id.")
    assert price.comment.startswith("Price in €. xxx")
    assert (sold_at.type, sold_at.comment) == ("timestamp", "")
    assert stored_table.table_id == str(DeltaTable(world.settings.table_uri("sales")).metadata().id)
    world.take_requests()
    assert (world.register().outcome, world.take_requests()) == ("unchanged", [reads(world)])
    append(world.settings, ("b", 2.0, day(2)))
    assert (world.register().outcome, world.take_requests()) == ("unchanged", [reads(world)])


def test_a_check_writes_nothing(world: World) -> None:
    assert world.register(check=True).differences == ["It is not registered."]
    assert (world.catalog.read("sales"), world.take_requests()) == (None, [reads(world), reads(world)])


def test_an_added_column_and_another_meaning_are_written(world: World) -> None:
    world.register()
    table = DeltaTable(world.settings.table_uri("sales"))
    table.alter.add_columns(Field("tags", PrimitiveType("integer"), metadata={"comment": "Tags."}))
    new_columns = [COLUMNS[0], replace(COLUMNS[1], doc="Price.")]
    update = world.register(columns=new_columns, doc="Sold.")
    assert update.outcome == "updated"
    description, columns, comment = update.differences
    assert description == "The description is 'Sales of a shop.', not 'Sold.'."
    assert columns == "The list of columns is 'id, price, sold_at', not 'id, price, sold_at, tags'."
    assert comment.startswith("The comment of price is 'Price in €. xxx") and comment.endswith(", not 'Price.'.")
    assert [(column.name, column.type) for column in world.read_stored().columns][-1] == ("tags", "int")
    assert world.register(columns=new_columns, doc="Sold.").outcome == "unchanged"


def test_a_table_that_moved_is_still_the_same(world: World) -> None:
    world.register()
    uri, other_uri = world.settings.table_uri("sales"), world.settings.table_uri("sold")
    shutil.move(uri, other_uri)
    update = world.register(uri=other_uri)
    assert (update.outcome, len(update.differences)) == ("updated", 1)
    assert world.read_stored().location == f"file://{other_uri}"


@pytest.mark.parametrize("former_place", ["whole", "broken"])
def test_a_copy_does_not_take_over_the_registration(former_place: str, world: World) -> None:
    world.register()
    uri, other_uri = world.settings.table_uri("sales"), world.settings.table_uri("sold")
    shutil.copytree(uri, other_uri)
    if former_place == "broken":
        shutil.rmtree(Path(uri) / "_delta_log")
    with pytest.raises(CatalogError, match="has sales of another lakehouse, in file://.*/sales"):
        world.register(uri=other_uri)
    assert world.read_stored().location == f"file://{uri}"


def test_a_table_that_was_created_again_is_registered_again(world: World) -> None:
    world.register()
    former_id = world.read_stored().table_id
    shutil.rmtree(world.settings.table_uri("sales"))
    append(world.settings, ("a", 1.0, day(1)))
    assert world.register().outcome == "updated"
    assert world.read_stored().table_id not in ("", former_id)


def test_the_table_of_another_lakehouse_is_not_touched(world: World) -> None:
    world.register()
    other_uri = world.settings.table_uri("sold")
    write_deltalake(other_uri, sales(("a", 1.0, day(1))))
    world.take_requests()
    with pytest.raises(CatalogError, match="has sales of another lakehouse, in file://.*/sales"):
        world.register(uri=other_uri)
    assert world.take_requests() == [reads(world)]


def test_a_table_of_another_program_is_not_touched(world: World) -> None:
    world.catalog.create(replace(world.read_table(), table_id=""))
    world.take_requests()
    for check in (True, False):
        with pytest.raises(CatalogError, match="has a table sales that lakehouse did not register"):
            world.register(check=check)
    assert world.take_requests() == [reads(world)] * 2


def test_a_type_has_the_text_of_spark() -> None:
    nested = {
        "type": "struct",
        "fields": [
            {"name": "a", "type": {"type": "array", "elementType": "long", "containsNull": True}},
            {"name": "m", "type": {"type": "map", "keyType": "string", "valueType": "byte"}},
            {"name": "d", "type": "decimal(10,2)"},
            {"name": "t", "type": "timestamp_ntz"},
        ],
    }
    assert type_text(nested) == "struct<a:array<bigint>,m:map<string,tinyint>,d:decimal(10,2),t:timestamp_ntz>"
    assert [type_text(name) for name in ("integer", "short", "double")] == ["int", "smallint", "double"]
