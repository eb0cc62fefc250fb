"""Settings: defaults, where they are read from, and one sentence for each that is wrong."""

import os
from pathlib import Path

import pytest

from lakehouse.errors import SettingsError
from lakehouse.settings import Settings


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and no settings in the environment."""
    for name in [name for name in os.environ if name.startswith("LAKEHOUSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_any_setting_everything_is_below_the_working_directory(nowhere: Path) -> None:
    settings = Settings.load()
    assert settings.home_folder == nowhere / ".lakehouse"
    assert settings.tables_root == str(nowhere / ".lakehouse/tables")
    assert settings.table_uri("temperatures") == str(nowhere / ".lakehouse/tables/temperatures")
    assert settings.jar_folder == Path.home() / ".cache/lakehouse/jars"
    assert settings.kafka_bootstrap_servers is None
    assert settings.kafka_security_protocol == "PLAINTEXT"
    assert settings.spark_remote is None


def test_variables_win_over_the_env_file(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nowhere / ".env").write_text("LAKEHOUSE_HOME=from-file\nLAKEHOUSE_SPARK_DRIVER_MEMORY=3g\nOTHER=1\n")
    assert Settings.load().home_folder == nowhere / "from-file"
    monkeypatch.setenv("LAKEHOUSE_HOME", "from-variable")
    settings = Settings.load()
    assert settings.home_folder == nowhere / "from-variable"
    assert settings.spark_driver_memory == "3g"


def test_an_empty_variable_is_none(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "TABLES", "KAFKA_BOOTSTRAP_SERVERS", "KAFKA_CA_FILE", "SPARK_REMOTE"):
        monkeypatch.setenv(f"LAKEHOUSE_{name}", "")
    assert Settings.load() == Settings()
    assert Settings.load().home_folder == nowhere / ".lakehouse"


def test_the_root_of_the_tables_may_be_a_folder_or_a_uri(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_TABLES", "s3a://lake/tables/")
    assert Settings.load().table_uri("temperatures") == "s3a://lake/tables/temperatures"
    monkeypatch.setenv("LAKEHOUSE_TABLES", "../shared")
    assert Settings.load().table_uri("temperatures") == str(nowhere.parent / "shared/temperatures")


def test_the_password_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_PASSWORD", "correct-horse")
    assert "correct-horse" not in repr(Settings.load())
    monkeypatch.setenv("LAKEHOUSE_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    with pytest.raises(SettingsError) as refused:
        Settings.load()
    assert "correct-horse" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("KAFKA_BOOTSTRAP_SERVERS", "localhost", "host:port"),
        ("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092, other:9092", "host:port"),
        ("KAFKA_BOOTSTRAP_SERVERS", "PLAINTEXT://localhost:9092", "host:port"),
        ("KAFKA_SECURITY_PROTOCOL", "TLS", "'SASL_SSL'"),
        ("KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD"),
        ("KAFKA_SASL_MECHANISM", "GSSAPI", "'SCRAM-SHA-512'"),
        ("KAFKA_CA_FILE", "missing.pem", "missing.pem"),
        ("SPARK_REMOTE", "localhost:15002", "sc://"),
        ("SPARK_DRIVER_MEMORY", "lots", "512m"),
        ("SPARK_DRIVER_MEMORY", "0g", "512m"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"LAKEHOUSE_{name}", value)
    with pytest.raises(SettingsError) as refused:
        Settings.load()
    text = str(refused.value)
    assert said in text
    assert "LAKEHOUSE_" in text
    assert "Correct it" in text
    assert "\n" not in text
    assert name in text or value in text


@pytest.mark.parametrize("servers", ["localhost:9092", "a:1,b.example:65535", "[::1]:9092", "127.0.0.1:9092"])
def test_one_or_several_servers_can_be_named(monkeypatch: pytest.MonkeyPatch, servers: str) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", servers)
    assert Settings.load().kafka_bootstrap_servers == servers


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
