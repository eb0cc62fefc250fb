"""A catalog that is away, refuses or cannot hold a table: what the error says, and that it shows no token."""

from dataclasses import replace
from socket import create_server
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.catalogs.register import open_catalog, register_all, register_table
from lakehouse.catalogs.registration import Registrable
from lakehouse.errors import CatalogError, SettingsError
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse_tests.helpers.unity_server import TOKEN, UnityServer
from lakehouse_tests.unit.catalogs.conftest import World


def test_without_the_setting_the_error_names_it() -> None:
    with pytest.raises(SettingsError, match="LAKEHOUSE_CATALOG is not set.*glue://"):
        open_catalog(Settings())


def test_columns_that_differ_by_case_are_refused_before_a_request(glue_world: World) -> None:
    sales = glue_world.read_table()
    columns = (*sales.columns, replace(sales.columns[0], name="ID"))
    with pytest.raises(CatalogError, match="Columns of sales differ only by case: id, ID"):
        register_table(glue_world.catalog, replace(sales, columns=columns))
    assert glue_world.take_requests() == []


def test_glue_has_names_in_lower_case_and_comments_of_255_characters(glue_world: World) -> None:
    sales = glue_world.read_table()
    sales = replace(sales, columns=(replace(sales.columns[0], name="Id", type="timestamp_ntz"), *sales.columns[1:]))
    assert register_table(glue_world.catalog, sales).outcome == "created"
    assert register_table(glue_world.catalog, sales).outcome == "unchanged"
    first, second, _ = glue_world.read_stored().columns
    assert (first.name, first.type, len(second.comment)) == ("id", "timestamp", 255)


def test_glue_has_comments_of_whole_characters_without_control_characters(glue_world: World) -> None:
    columns = (TableColumn("id", "STRING", f"I\x00d{'😀' * 200}"), TableColumn("price", "DOUBLE", f"{'😀' * 126}..."))
    sales = glue_world.catalog.fit(glue_world.read_table(columns=columns))
    assert [column.comment for column in sales.columns[:2]] == [f"I d{'😀' * 124}...", columns[1].doc]


def test_glue_refuses_columns_with_control_characters(glue_world: World) -> None:
    sales = glue_world.read_table()
    for name, type_ in ("a\tb", "string"), ("a", "struct<a\nb:int>"):
        columns = (replace(sales.columns[0], name=name, type=type_),)
        with pytest.raises(CatalogError, match="Columns of sales have control characters: a"):
            glue_world.catalog.fit(replace(sales, columns=columns))


def test_an_error_of_glue_does_not_show_the_session_token(glue_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    message = f"It does not match.\n\nThe Canonical String was\nx-amz-security-token:{TOKEN}"
    answer = (SimpleNamespace(status_code=403), {"Error": {"Code": "InvalidSignatureException", "Message": message}})
    events = glue_world.catalog._client.meta.events  # type: ignore[attr-defined]
    events.register("before-call.glue", lambda **_: answer)
    with pytest.raises(CatalogError, match="answers InvalidSignatureException: It does not match") as caught:
        glue_world.register()
    assert TOKEN not in str(caught.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_SESSION_TOKEN", f"{TOKEN}\n.")
    with pytest.raises(CatalogError, match="AWS Glue cannot be used") as caught:
        open_catalog(glue_world.settings).read("sales")
    assert TOKEN not in str(caught.value)


def test_a_wrong_address_of_glue_is_named(glue_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "127.0.0.1:1")
    with pytest.raises(CatalogError, match="Invalid endpoint: 127.0.0.1:1"):
        open_catalog(glue_world.settings)


def test_text_of_a_metastore_that_is_not_utf_8_is_an_error_of_the_catalog() -> None:
    with create_server(("127.0.0.1", 0)) as server:
        catalog = open_catalog(Settings(catalog=f"hive://127.0.0.1:{server.getsockname()[1]}/lake"))
        client = SimpleNamespace(get_table=lambda *_: b"\xff".decode())
        catalog._client_class = lambda _: client  # type: ignore[attr-defined]
        with pytest.raises(CatalogError, match="The Hive metastore fails: 'utf-8' codec") as caught:
            catalog.read("sales")
    assert type(caught.value) is CatalogError, "it is of this table alone"


@pytest.mark.parametrize("catalog", ["unity+http://127.0.0.1:1/main.lake", "hive://127.0.0.1:1/lake", "glue://x/lake"])
def test_a_catalog_that_is_away_is_asked_once_for_all_tables(
    catalog: str, glue_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:1")
    settings = glue_world.settings.model_copy(update={"catalog": catalog, "catalog_token": None})
    layout = Layout("sales", settings.table_uri("sales"), "", ())
    tables = [Registrable(replace(layout, name=name), "") for name in ("sales", "sold")]
    results, errors = register_all(settings, tables)
    assert (results, list(errors)) == ([], ["sales", "sold"])
    assert errors["sales"] is errors["sold"]


def test_what_other_programs_wrote_into_glue_stays(glue_world: World, aws: Any) -> None:
    glue_world.register()
    table = aws.get_table(DatabaseName="lake", Name="sales")["Table"]
    assert (table["TableType"], table["PartitionKeys"]) == ("EXTERNAL_TABLE", [])
    assert table["Parameters"].items() >= {"table_type": "DELTA", "spark.sql.sources.provider": "delta"}.items()
    assert table["StorageDescriptor"]["SerdeInfo"]["Parameters"] == {"path": table["StorageDescriptor"]["Location"]}
    names = ("Name", "Owner", "StorageDescriptor", "TableType")
    changed = {name: table[name] for name in names} | {"Parameters": {**table["Parameters"], "classification": "x"}}
    aws.update_table(DatabaseName="lake", TableInput=changed)
    assert glue_world.register().outcome == "updated"
    assert aws.get_table(DatabaseName="lake", Name="sales")["Table"]["Parameters"]["classification"] == "x"


def test_a_missing_database_of_glue_names_the_command_that_creates_it(glue_world: World, aws: Any) -> None:
    aws.delete_database(Name="lake")
    with pytest.raises(CatalogError, match="create-database --region eu-central-1 --database-input Name=lake"):
        glue_world.register()


def test_a_glue_that_is_away_is_named(glue_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:1")
    with pytest.raises(CatalogError, match="cannot be used.*127.0.0.1:1.*glue://eu-central-1/lake"):
        open_catalog(glue_world.settings).read("sales")


def test_a_missing_schema_of_unity_is_named(unity_world: World, unity: UnityServer) -> None:
    unity.schemas.clear()
    with pytest.raises(CatalogError, match="has no schema main.lake"):
        unity_world.register()


def test_a_change_in_unity_deletes_and_creates_and_warns_of_grants(unity_world: World) -> None:
    assert unity_world.register().note == ""
    unity_world.take_requests()
    assert "grant again" in unity_world.register(doc="Sold.").note
    assert unity_world.take_requests() == ["GET", "DELETE", "POST"]


@pytest.mark.parametrize(
    ("status", "message"),
    [(401, "LAKEHOUSE_CATALOG_TOKEN"), (403, "CREATE TABLE"), (429, "run it again"), (500, "500"), (307, "307")],
)
def test_an_answer_of_unity_is_explained_without_the_token(
    status: int, message: str, unity_world: World, unity: UnityServer
) -> None:
    unity.answer = (status, f"no {TOKEN} here", unity.address.removeprefix("unity+"))
    with pytest.raises(CatalogError, match=message) as caught:
        unity_world.register()
    assert ("no *** here" in str(caught.value), TOKEN in str(caught.value)) == (True, False)
    assert len(unity_world.take_requests()) == 1, "no redirect was followed"


def test_an_answer_of_another_server_is_not_taken_for_one_of_unity(unity_world: World, unity: UnityServer) -> None:
    unity.text = "<html>Log in</html>"
    with pytest.raises(CatalogError, match="answers with 200"):
        unity_world.register()


@pytest.mark.parametrize("token", ["wr0ng", "wr0ng-ü-😀"])
def test_a_wrong_token_is_not_shown(token: str, unity: UnityServer) -> None:
    catalog = open_catalog(Settings(catalog=unity.address, catalog_token=token))
    with pytest.raises(CatalogError, match="LAKEHOUSE_CATALOG_TOKEN") as caught:
        catalog.read("sales")
    assert "wr0ng" not in str(caught.value)


def test_a_unity_that_is_away_is_named(unity_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert unity_world.register().outcome == "created", "the proxy of this machine does not get the token"
    catalog = open_catalog(Settings(catalog="unity+http://127.0.0.1:1/main.lake", catalog_token=TOKEN))
    with pytest.raises(CatalogError, match="cannot be reached") as caught:
        catalog.read("sales")
    assert TOKEN not in str(caught.value)
