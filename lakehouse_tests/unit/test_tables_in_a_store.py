"""Tables in a real object store are queried, read and served without a JVM, and nothing else is."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakehouse
from lakehouse.errors import LakehouseError, QueryError, SetupError, StoreRefusedError
from lakehouse.query import connections, queries, query
from lakehouse.settings import Settings
from lakehouse.settings.store import Store
from lakehouse.spark import sessions
from lakehouse_tests.helpers.api_servers import api_server
from lakehouse_tests.helpers.tables.azurite import KEY, AnyStore

ROWS = pa.table({"id": [1, 2, 3], "place": ["Rome", "Oslo", "Bergen"]})


@pytest.fixture(scope="module")
def written_store(store: AnyStore) -> AnyStore:
    for table in ("lake/temperatures", "other/secrets"):
        write_deltalake(f"{store.root}/{table}", ROWS)
    return store


@pytest.fixture(params=["", "a"])
def root(
    request: pytest.FixtureRequest, written_store: AnyStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> str:
    address = f"{written_store.root}/lake".replace("s3:", f"s3{request.param}:")
    monkeypatch.setenv("LAKEHOUSE_TABLES", address)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    return address


def count(sql: str, root: str) -> list[tuple[object, ...]]:
    return query(Settings(tables=root), sql, ["temperatures"]).rows


def test_tables_in_a_store_are_queried_and_read(root: str) -> None:
    assert count("SELECT count(*), sum(id) FROM temperatures", root) == [(3, 6)]
    assert lakehouse.read("temperatures").arrow().num_rows == 3
    own_connection = duckdb.connect()
    assert lakehouse.read("temperatures", where="id > 1").duckdb(own_connection).fetchall() == [
        (2, "Oslo"),
        (3, "Bergen"),
    ]


def test_rows_of_a_store_are_served(root: str, tmp_path: Path) -> None:
    with api_server(tmp_path, LAKEHOUSE_TABLES=root) as server:
        rows = server.read("/tables/temperatures/rows", columns="id", limit=2)["rows"]
    assert [row["id"] for row in rows] == [1, 2]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM delta_scan('s3://bucket/other/secrets')",
        "SELECT * FROM 's3://bucket/other/secrets/*.parquet'",
        "SELECT * FROM 'https://127.0.0.1:1/x.parquet'",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM 's3://bucket/lake/../other/secrets.csv'",
        r"SELECT * FROM E's3:\x2f/bucket/lake/../other/secrets.csv'",
        'SELECT * FROM "s3://bucket/lake/../other/secrets".csv',
        "PIVOT 's3://bucket/lake/../other/secrets.csv' ON id",
        r"PIVOT (FROM E's3:\x2f/bucket/lake/../other/secrets.csv') ON id",
        "DESCRIBE 's3://bucket/lake/x.csv?s3_endpoint=127.0.0.1:1'",
        "SELECT * FROM read_text(concat('s3://bucket/la', 'ke/x?s3_endpoint=127.0.0.1:1'))",
        "SELECT * FROM glob('s3://bucket/lake/../other/*')",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    ],
)
def test_a_query_opens_only_the_tables(root: str, sql: str) -> None:
    if Store(root).kind == "azure":
        sql = sql.replace("s3:", "az:").replace("s3_endpoint", "azure_account_name")
    with pytest.raises(QueryError, match="cannot open a|/etc/passwd does not exist"):
        count(sql, root)


def test_each_function_that_opens_files_is_known(root: str) -> None:
    rows = count("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'table'", root)
    other_names = {str(name) for (name,) in rows if not is_opening(str(name))}
    harmless = re.compile(
        r"duckdb_\w+|pragma_\w+|(en|dis)able_\w+|\w*checkpoint|test_\w+|json_(each|tree)|repeat(_row)?"
    )
    assert {name for name in other_names if not harmless.fullmatch(name)} == {
        *("generate_series", "icu_calendar_names", "pg_timezone_names", "python_map_function", "range", "summary"),
        *("truncate_duckdb_logs", "unnest", "which_secret"),
    }


def is_opening(name: str) -> bool:
    return any(pattern.fullmatch(name.upper()) for pattern in (queries._FILE_FUNCTIONS, queries._OPENING_FUNCTIONS))


def test_a_query_shows_no_secret_of_the_store(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = str(count("SELECT * FROM duckdb_secrets()", root))
    assert "=redacted" in rows and KEY not in rows
    monkeypatch.setenv("AWS_SESSION_TOKEN", "no-token-for-a-query")
    with connections.connect(Settings(tables=root)) as connection:
        settings = connection.sql("SELECT value FROM duckdb_settings()").fetchall()
    assert {("no-token-for-a-query",), ("secret",), ("key",), (KEY,)}.isdisjoint(settings)
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "bm90LXRoZS1zZWNyZXQ=")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(StoreRefusedError) as error:
        count("SELECT * FROM temperatures", root)
    assert "not-the-secret" not in str(error.value) and "bm90" not in str(error.value)


def test_without_keys_or_extensions_an_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    root = "s3://bucket/lake"
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    with pytest.raises(LakehouseError, match="no keys for the object store.*AWS_ACCESS_KEY_ID"):
        connections.connect(Settings(tables=root))
    monkeypatch.setenv("AWS_PROFILE", "missing")
    with pytest.raises(SetupError, match=r"cannot be read: .*\(missing\) could not be found.*AWS_PROFILE"):
        connections.connect(Settings(tables=root))
    monkeypatch.setattr(connections, "find_spec", lambda name: None if "httpfs" in name else find_spec(name))
    with pytest.raises(SetupError, match=r"extension httpfs is missing.*\[s3\]"):
        connections.connect(Settings(tables=root))


def test_a_spark_for_a_store_has_its_endpoint_and_only_our_log_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:9000")
    conf = sessions._base_conf(Settings(tables="s3://bucket/lake"), [])
    assert conf["spark.hadoop.fs.s3a.endpoint"] == "http://store:9000"
    assert conf["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert {value for name, value in conf.items() if "logStore" in name} == {"lakehouse.ConditionalLogStore"}
    assert not any("s3" in name or "logStore" in name for name in sessions._base_conf(Settings(tables="/lake"), []))
    other_conf = {"spark.delta.logStore.class": "io.delta.storage.HDFSLogStore"}
    with pytest.raises(SetupError, match=r"spark\.delta\.logStore\.class cannot be set.*Remove it"):
        sessions._base_conf(Settings(tables="s3://bucket/lake", spark_conf=other_conf), [])
    monkeypatch.setenv("AWS_ENDPOINT_URL", "store:9000")
    with pytest.raises(SetupError, match="AWS_ENDPOINT_URL is not the address of a store.*https://host:port"):
        sessions._base_conf(Settings(tables="s3://bucket/lake"), [])


@pytest.mark.parametrize(
    ("uri", "bucket", "address"),
    [
        ("s3a://b/x", "b", "s3://b/x"),
        ("s3://b/x", "b", "s3://b/x"),
        ("abfss://box@a.dfs.core.windows.net/x", "box@a.dfs.core.windows.net", "az://box/x"),
        ("gs://b/x", None, "gs://b/x"),
        ("/home/x", None, "/home/x"),
    ],
)
def test_a_store_knows_its_bucket_and_its_name_for_duckdb(uri: str, bucket: str | None, address: str) -> None:
    assert (Store(uri).bucket, Store(uri).duckdb_uri) == (bucket, address)


def test_one_connection_reads_no_containers_of_one_name_in_two_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.delenv("AZURE_STORAGE_ENDPOINT", raising=False)
    connection = duckdb.connect()
    for _ in range(2):
        connections.load_extensions(connection, "abfss://box@one.dfs.core.windows.net/lake")
    with pytest.raises(SetupError, match="a container of this name in another account"):
        connections.load_extensions(connection, "abfss://box@two.dfs.core.windows.net/lake")
