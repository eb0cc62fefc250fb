"""A table of sales, and catalogs in which it is registered."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from lakehouse.catalogs.register import RegisteredTable, open_catalog, register_table
from lakehouse.catalogs.registration import Catalog, Registrable, Registration
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse_tests.helpers.tables.exported import append, day
from lakehouse_tests.helpers.unity_server import TOKEN, UnityServer, unity_server

COLUMNS = (TableColumn("id", "STRING", "Id."), TableColumn("price", "DOUBLE", f"Price\r\nin €. {'x' * 300}"))


@dataclass
class World:
    """A table, and its catalog. ``take_requests`` returns the kinds of requests since the last call."""

    settings: Settings
    catalog: Catalog
    take_requests: Callable[[], list[str]]

    def read_table(self, **changes: Any) -> Registration:
        options = {"uri": self.settings.table_uri("sales"), "doc": "Sales\nof a shop.", "columns": COLUMNS} | changes
        registration = Registrable(Layout("sales", **options), "team:shop").read()
        assert registration
        return registration

    def register(self, *, check: bool = False, **changes: Any) -> RegisteredTable:
        return register_table(self.catalog, self.read_table(**changes), check=check)

    def read_stored(self) -> Registration:
        stored_table = self.catalog.read("sales")
        assert stored_table
        return stored_table


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An account with an empty database of Glue."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "s3cret")
    with mock_aws():
        client = boto3.client("glue", region_name="eu-central-1")
        client.create_database(DatabaseInput={"Name": "lake"})
        yield client


@pytest.fixture
def unity() -> Iterator[UnityServer]:
    """A Unity Catalog with an empty schema."""
    with unity_server() as server:
        yield server


def new_world(tmp_path: Path, take_requests: Callable[[], list[str]], **settings: Any) -> World:
    settings_of_world = Settings(home=tmp_path, sync=False, **settings)
    append(settings_of_world, ("a", 1.0, day(1)))
    return World(settings_of_world, open_catalog(settings_of_world), take_requests)


@pytest.fixture
def unity_world(unity: UnityServer, tmp_path: Path) -> World:
    def take_requests() -> list[str]:
        return [method for method, _ in unity.take_requests()]

    return new_world(tmp_path, take_requests, catalog=unity.address, catalog_token=TOKEN)


@pytest.fixture
def glue_world(aws: Any, tmp_path: Path) -> World:
    calls: list[str] = []

    def take_requests() -> list[str]:
        names, calls[:] = calls[:], []
        return names

    world = new_world(tmp_path, take_requests, catalog="glue://eu-central-1/lake")
    events = world.catalog._client.meta.events  # type: ignore[attr-defined]
    events.register("before-call.glue", lambda model, **_: calls.append(model.name))
    return world


@pytest.fixture(params=["glue_world", "unity_world"])
def world(request: pytest.FixtureRequest) -> World:
    """The same table in each catalog."""
    catalog_world: World = request.getfixturevalue(request.param)
    return catalog_world
