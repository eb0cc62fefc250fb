"""Tables in a Hive metastore: what it has after each change, and Spark that reads them by their names."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.catalogs.register import RegisteredTable, open_catalog, register_table
from lakehouse.catalogs.registration import Registrable, Registration
from lakehouse.errors import CatalogError
from lakehouse.query.connections import connect
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse_tests.helpers.databases.metastore import metastore
from lakehouse_tests.helpers.places import ROOT

DOCS = {"id": "Id.", "price": f"Price\nin €. {'x' * 300}"}
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from lakehouse.settings import Settings
from lakehouse.spark.sessions import spark_conf

builder = SparkSession.builder
for name, value in spark_conf(Settings(home=sys.argv[1], spark_master="local[1]", _env_file=None)).items():
    builder = builder.config(name, value)
spark = builder.config("spark.hadoop.hive.metastore.uris", sys.argv[2]).enableHiveSupport().getOrCreate()
rows = [row.asDict(recursive=True) for row in spark.sql("SELECT * FROM default.sales ORDER BY id").collect()]
print(json.dumps(rows, default=str))
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with metastore(tmp_path_factory.mktemp("metastore")) as port:
        yield port


@pytest.fixture
def settings(port: int, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, sync=False, catalog=f"hive://127.0.0.1:{port}/default")


def write(settings: Settings, **columns: list[Any]) -> str:
    """Write rows as a new version with these columns; return the address."""
    uri = settings.table_uri("sales")
    write_deltalake(uri, pa.table(columns), mode="overwrite", schema_mode="overwrite")
    return uri


def read_table(settings: Settings, uri: str) -> Registration:
    columns = [TableColumn(name, "STRING", doc) for name, doc in DOCS.items()]
    registration = Registrable(Layout("sales", uri, "Sales.", columns), "team:shop").read()
    assert registration
    return registration


def register(settings: Settings, uri: str) -> RegisteredTable:
    return register_table(open_catalog(settings), read_table(settings, uri))


@pytest.mark.timeout(300)
def test_a_table_is_registered_changed_and_read_by_its_name(settings: Settings, port: int) -> None:
    uri = write(settings, id=["a", "b"], price=[1.5, None])
    assert [register(settings, uri).outcome for _ in range(2)] == ["created", "unchanged"]
    nested = [{"Ab": 1, "tags": ["x"]}, None]
    write(settings, id=["a", "b"], day=pa.array([20_000, None], pa.date32()), price=[1.5, None], nested=nested)
    assert register(settings, uri).differences == ["The list of columns is 'id, price', not 'id, day, price, nested'."]
    write(settings, id=["a", "b"], price=["1.5", None], nested=nested)  # the metastore refuses that by itself
    update = register(settings, uri)
    assert (update.outcome, "grant again" in update.note) == ("updated", True)
    assert register(settings, uri).outcome == "unchanged"
    stored_table = open_catalog(settings).read("sales")
    assert stored_table
    assert [(column.name, column.type, len(column.comment)) for column in stored_table.columns] == [
        ("id", "string", 3),
        ("price", "string", 255),
        ("nested", "struct<Ab:bigint,tags:array<string>>", 0),
    ]
    assert (stored_table.owner, stored_table.doc, stored_table.location) == ("team:shop", "Sales.", f"file://{uri}")
    rows = DeltaTable(stored_table.location).to_pyarrow_table().to_pylist()
    with connect(settings) as connection:
        read = connection.execute(f"FROM delta_scan('{stored_table.location}') ORDER BY id")
        assert read.to_arrow_table().to_pylist() == rows
    command = [sys.executable, "-c", PROGRAM, str(settings.home), f"thrift://127.0.0.1:{port}"]
    environment = {**os.environ, "LAKEHOUSE_JARS": str(settings.jar_folder)}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert json.loads(result.stdout.splitlines()[-1]) == rows
    open_catalog(settings).replace(replace(stored_table, table_id="other"), stored_table)
    with pytest.raises(CatalogError, match=f"modified.*'{stored_table.table_id}'"):
        open_catalog(settings).replace(stored_table, stored_table)
    other_uri = settings.table_uri("sold")
    shutil.copytree(uri, other_uri)
    with pytest.raises(CatalogError, match="has sales of another lakehouse"):
        register(settings, other_uri)


def test_a_refused_type_keeps_the_former_registration(settings: Settings) -> None:
    uri = settings.table_uri("kept")
    write_deltalake(uri, pa.table({"id": ["a"], "price": [1.5]}))
    registration = replace(read_table(settings, uri), name="kept")
    catalog = open_catalog(settings)
    assert register_table(catalog, registration).outcome == "created"
    changed = replace(registration, columns=(registration.columns[0], replace(registration.columns[1], type="variant")))
    with pytest.raises(CatalogError, match="Invalid column") as caught:
        register_table(catalog, changed)
    assert "CREATE DATABASE" not in str(caught.value)
    stored_table = catalog.read("kept")
    assert stored_table
    catalog.replace(replace(stored_table, location=settings.table_uri("moved")), stored_table)
    assert register_table(catalog, registration).outcome == "updated"
    assert register_table(catalog, registration).outcome == "unchanged"


def test_a_metastore_that_is_away_or_has_no_such_database_is_named(settings: Settings) -> None:
    uri = write(settings, id=["a"])
    missing = settings.model_copy(update={"catalog": str(settings.catalog).replace("/default", "/shop")})
    with pytest.raises(CatalogError, match="CREATE DATABASE shop"):
        register(missing, uri)
    away = settings.model_copy(update={"catalog": "hive://127.0.0.1:1/default"})
    with pytest.raises(CatalogError, match=r"fails: .*127.0.0.1.*\(hive://127.0.0.1:1/default\)"):
        register(away, uri)
