"""Every setting with a wrong value: the exit code, an error that names it, and no side effects."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import last_line

pytestmark = pytest.mark.usefixtures("home")

AMBIGUOUS_URIS = ("file:///a%20b", "file:///a#b", "file:///a\\b", "file:///a\tb", "s3://bucket/a?sig=s3cret")
SERVERS_WITH_SECRETS = ("me:s3cret@host:9092", "s3cret@host:9092", "host:9092?token=s3cret")
WRONG_SETTINGS = {
    "home": (
        "{file}",
        "{file}/below",
        "s3://bucket/home",
        "50%",
        "#1",
        "a?b",
        "a\\b",
        "a,b",
        "a\tb",
        "a\nb",
        "a[1]",
        "a^b",
        "a|b",
        "~nosuch/x",
    ),
    "files": ("{file}", "~nosuch/x", "50%", "ftp://host/files", "abfss://c@a.dfs.core.windows.net/files"),
    "exports": ("{file}", "~nosuch/x", "s3://bucket/exports"),
    "tables": (
        "{file}",
        "~nosuch/x",
        "50%",
        "a\nb",
        "ftp://host/tables",
        "gs://bucket/tables",
        "hdfs://host/tables",
        "abfss://box@account.blob.core.windows.net/tables",
        "abfss://account.dfs.core.windows.net/tables",
        "abfss://Box@account.dfs.core.windows.net/tables",
        "ABFSS://box@account.dfs.core.windows.net/tables",
        "abfss://box@account.dfs.core.windows.net/lake./tables",
        "abfss://box@account.dfs.core.windows.net//tables",
        "abfss://box:key@account.dfs.core.windows.net/tables",
        "file:///data/tables",
        "s3:///tables",
        "s3a://me:s3cret@bucket/tables",
        "s3://s3cret@bucket/x",
        *AMBIGUOUS_URIS,
    ),
    "store_endpoint": ("store:8333", "ftp://host", "http://me:s3cret@host"),
    "store_path_style": ("maybe", "2"),
    "store_writers": ("two",),
    "declarations": ("{file}", "not/there", "two words", "dashed-name", "ends.", "~nosuch/x"),
    "kafka_bootstrap_servers": ("localhost", "localhost:0", "localhost:70000", *SERVERS_WITH_SECRETS),
    "kafka_security_protocol": ("TLS",),
    "kafka_sasl_mechanism": ("GSSAPI",),
    "kafka_ca_file": ("missing.pem", ".", "~nosuch/x"),
    "kafka_client_certificate_file": ("missing.pem", "{file}"),
    "kafka_client_key_file": ("missing.pem", "{file}"),
    "kafka_properties": ("s3cret", '{{"acks": "s3cret"}}'),
    "spark_master": (
        "nonsense",
        "local[0]",
        "spark://",
        "localhost:7077",
        "spark://me:s3cret@host:7077",
        "k8s://host?s3cret",
    ),
    "spark_remote": ("localhost:15002", "sc://host:99999", "sc://;token=s3cret"),
    "spark_driver_memory": ("lots", "0g", "1t"),
    "spark_conf": ("s3cret", '{{"spark.sql.session.timeZone": "s3cret"}}', '{{"spark.sql.nonsense": "s3cret"}}'),
    "jars": ("{file}", "{file}/below", "~nosuch/x"),
    "record_user": ("maybe", "2"),
    "reviewed": ("sometimes", "2"),
    "sync": ("sometimes", "2"),
    "registry_url": ("registry:8081", "ftp://host", "http://me:s3cret@host", "http://host?token=s3cret"),
    "registry_ca_file": ("missing.pem", "."),
    "alert_url": ("hooks/s3cret", "ftp://host/s3cret", "https:///s3cret", "http://host:s3cret", "http://host/a s3cret"),
    "alert_format": ("teams",),
    "database_url": (
        *("shop", "mysql://me:s3cret@host/shop", "postgresql://me:s3cret@host", "postgresql:///s3cret"),
        *(f"postgresql://me:a{mark}s3cret@host/shop" for mark in "@/?#"),
        *("postgresql://me@s3cret:x@host/shop", "postgresql://me:x@host/shop?password=a@s3cret"),
    ),
    "sink_urls": ("s3cret", '{{"a": "mysql://me:s3cret@host/shop"}}', '{{"a": "postgresql://me:a@s3cret@host/shop"}}'),
    "catalog": (
        *("lake", "glue://eu-central-1", "glue:///lake", "glue://eu-central-1/a/b", "s3://bucket/lake"),
        *("hive://host/lake", "hive://host:0/lake", "hive://host:70000/lake", "hive://me:s3cret@host:9083/lake"),
        *("unity+https://host/main", "unity+http://host/main.lake", "unity+https://me:s3cret@host/main.lake"),
        *("unity+https://host/main.lake?token=s3cret", "unity+http://127.0.0.1.host/main.lake"),
    ),
    "catalog_follows": ("sometimes", "2"),
    "docs_url": ("docs", "ftp://host", "http://me:s3cret@host", "http://host?token=s3cret"),
}
ANY_TEXT = {"kafka_username", "kafka_password", "kafka_client_key_password"}  # tested in test_security.py
ANY_TEXT |= {"registry_username", "registry_password", "registry_token"}  # tested in kafka/test_registry_access.py
ANY_TEXT |= {"store_region", "store_access_key", "store_secret_key"}  # tested in test_settings.py
ANY_TEXT |= {"catalog_token"}  # tested in catalogs/test_refusals.py
ANY_TEXT |= {"serve_token"}  # tested in serve/test_problems.py


def test_every_setting_has_wrong_values() -> None:
    assert {*WRONG_SETTINGS, *ANY_TEXT} == set(Settings.model_fields)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG_SETTINGS.items() for value in values]
)
def test_a_setting_that_cannot_be_used_is_named(
    name: str, value: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").touch()
    monkeypatch.setenv(f"LAKEHOUSE_{name.upper()}", value.format(file=Path("file").absolute()))
    for arguments in (["status"], ["doctor", "--json"], ["publish", "temperatures", "--generate", "stream"]):
        line = last_line(*arguments)
        assert f"LAKEHOUSE_{name.upper()}" in line
        assert "s3cret" not in line
        assert "pattern" not in line, "a sentence, not a regular expression"
        assert not re.search("Input should|input", line), "our sentence, not the one of pydantic"
    assert not home.exists()


def test_the_default_home_is_refused_in_a_working_directory_whose_name_is_misread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a,b", "50%"):
        (tmp_path / name).mkdir()
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(tmp_path / name)
        monkeypatch.chdir(tmp_path / name)
        assert "LAKEHOUSE_HOME" in last_line("status")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("LAKEHOUSE_HOME", "link")
        assert "LAKEHOUSE_HOME" in last_line("status")
        monkeypatch.delenv("LAKEHOUSE_HOME")


@pytest.mark.parametrize(
    "arguments",
    [
        ["up"],
        ["demo"],
        ["topics", "--create"],
        ["publish", "temperatures", "--generate", "stream"],
        ["merge"],
        ["follow"],
        ["replay"],
        ["repair", "gap"],
        ["repair", "progress"],
        ["load-base"],
        ["redrive"],
        ["maintain"],
    ],
    ids=" ".join,
)
def test_every_verb_that_writes_reports_a_home_that_cannot_be_written(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHOUSE_HOME", "/proc/home")  # no folder can be created there
    line = last_line(*arguments)
    assert line.startswith("The state folder cannot be used")
    assert "LAKEHOUSE_HOME" in line


def test_a_dagster_home_that_cannot_be_used_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").touch()
    monkeypatch.setenv("DAGSTER_HOME", "file")
    assert "DAGSTER_HOME" in last_line("up", "webserver", "--port", "4999")


def test_servers_that_cannot_be_resolved_are_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "broker.invalid:9092")
    for arguments in (["topics"], ["publish", "temperatures", "--generate", "stream"], ["merge", "--dry-run"]):
        line = last_line(*arguments)
        assert "broker.invalid:9092" in line
        assert "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS" in line
    assert not home.exists()


def test_a_jar_cache_that_cannot_be_created_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_JARS", "/proc/jars")
    for arguments in (["topics"], ["load-base"]):
        assert "LAKEHOUSE_JARS" in last_line(*arguments)


def test_a_missing_spark_connect_server_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK_REMOTE", "sc://127.0.0.1:1/;token=s3cret")
    line = last_line("load-base")
    assert "LAKEHOUSE_SPARK_REMOTE" in line
    assert "s3cret" not in line
    assert not (home / "tables").exists()


def test_a_spark_that_does_not_start_is_reported_without_a_trace(home: Path) -> None:
    command = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "load-base"]
    environment = {**os.environ, "LAKEHOUSE_SPARK_DRIVER_MEMORY": "1m", "LAKEHOUSE_SPARK_CONF": '{"spark.x": "s3cret"}'}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert result.stdout == ""
    first, last = result.stderr.splitlines()
    assert first == "Starting Spark ..."
    assert last.startswith("Spark does not start")
    assert "LAKEHOUSE_SPARK_DRIVER_MEMORY" in last
    assert not (home / "tables").exists()


@pytest.mark.slow
def test_a_spark_setting_that_spark_refuses_is_reported_without_its_value(home: Path) -> None:
    command = [sys.executable, "-c", "from lakehouse.cli.main import main; main()", "load-base"]
    environment = {**os.environ, "LAKEHOUSE_SPARK_CONF": '{"spark.executor.cores": "s3cret"}'}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 1
    assert "Spark does not start" in result.stderr
    assert "LAKEHOUSE_SPARK_CONF" in result.stderr
    assert "s3cret" not in result.stderr + result.stdout
