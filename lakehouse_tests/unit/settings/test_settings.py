"""Settings: defaults, sources, and one sentence for each wrong value; and the kinds of stores, by path or URI."""

import os
from getpass import getuser
from pathlib import Path
from socket import gethostname

import pytest

from lakehouse.errors import SettingsError, SetupError
from lakehouse.settings import Settings, environment, project
from lakehouse.settings.store import Store

AZURE = "abfss://box@account.dfs.core.windows.net/lake"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and no settings in the environment."""
    for name in [name for name in os.environ if name.startswith("LAKEHOUSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal() -> str:
    """The error of the settings of the environment."""
    with pytest.raises(SettingsError) as raised:
        Settings.load()
    return str(raised.value)


def test_by_default_everything_is_below_the_working_directory(empty_folder: Path) -> None:
    settings = Settings.load()
    assert settings.home_folder == empty_folder / ".lakehouse"
    assert settings.tables_root == str(empty_folder / ".lakehouse/tables")
    assert settings.table_uri("temperatures") == str(empty_folder / ".lakehouse/tables/temperatures")
    assert settings.jar_folder == Path.home() / ".cache/lakehouse/jars"
    assert settings.kafka_bootstrap_servers is None
    assert settings.kafka_security_protocol == "PLAINTEXT"
    assert settings.spark_remote is None


def test_variables_override_the_env_file(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty_folder / ".env").write_text("LAKEHOUSE_HOME=from-file\nLAKEHOUSE_SPARK_DRIVER_MEMORY=3g\nOTHER=1\n")
    assert Settings.load().home_folder == empty_folder / "from-file"
    monkeypatch.setenv("LAKEHOUSE_HOME", "from-variable")
    settings = Settings.load()
    assert settings.home_folder == empty_folder / "from-variable"
    assert settings.spark_driver_memory == "3g"


def test_an_empty_variable_counts_as_not_set(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "TABLES", "KAFKA_BOOTSTRAP_SERVERS", "KAFKA_CA_FILE", "SPARK_REMOTE"):
        monkeypatch.setenv(f"LAKEHOUSE_{name}", "")
    assert Settings.load() == Settings()
    assert Settings.load().home_folder == empty_folder / ".lakehouse"


def test_the_root_of_the_tables_may_be_a_folder_or_a_uri(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_TABLES", "s3a://lake/tables/")
    assert Settings.load().table_uri("temperatures") == "s3a://lake/tables/temperatures"
    monkeypatch.setenv("LAKEHOUSE_TABLES", "../shared")
    assert Settings.load().table_uri("temperatures") == str(empty_folder.parent / "shared/temperatures")


def test_the_password_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_PASSWORD", "correct-horse")
    assert "correct-horse" not in repr(Settings.load())
    monkeypatch.setenv("LAKEHOUSE_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    assert "correct-horse" not in refusal()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KAFKA_BOOTSTRAP_SERVERS", "localhost", "host:port"),
        ("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092, other:9092", "host:port"),
        ("KAFKA_BOOTSTRAP_SERVERS", "PLAINTEXT://localhost:9092", "host:port"),
        ("KAFKA_SECURITY_PROTOCOL", "TLS", "it must be 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT' or 'SASL_SSL'. Security"),
        (
            "KAFKA_SECURITY_PROTOCOL",
            "SASL_SSL",
            "LAKEHOUSE_KAFKA_SECURITY_PROTOCOL=SASL_SSL needs LAKEHOUSE_KAFKA_USER",
        ),
        ("KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "LAKEHOUSE_KAFKA_USERNAME and LAKEHOUSE_KAFKA_PASSWORD"),
        ("KAFKA_SASL_MECHANISM", "GSSAPI", "'SCRAM-SHA-512'"),
        ("KAFKA_CA_FILE", "missing.pem", "'missing.pem' cannot be used: the file does not exist"),
        ("KAFKA_CA_FILE", ".", "it is a folder, not a file"),
        ("SYNC", "sometimes", "'sometimes' cannot be used: it must be true or false. Whether"),
        ("REGISTRY_USERNAME", "me", "but LAKEHOUSE_REGISTRY_PASSWORD is not set"),
        ("SPARK_REMOTE", "localhost:15002", "sc://"),
        ("SPARK_DRIVER_MEMORY", "lots", "512m"),
        ("SPARK_DRIVER_MEMORY", "0g", "512m"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"LAKEHOUSE_{name}", value)
    text = refusal()
    assert message in text and "LAKEHOUSE_" in text and "Correct it" in text
    assert "docs/" not in text, "an installed user has no folder of pages"
    assert "\n" not in text
    assert name in text or value in text


@pytest.mark.parametrize("servers", ["localhost:9092", "a:1,b.example:65535", "[::1]:9092", "127.0.0.1:9092"])
def test_one_or_several_servers_can_be_configured(monkeypatch: pytest.MonkeyPatch, servers: str) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", servers)
    assert Settings.load().kafka_bootstrap_servers == servers


def test_every_setting_has_a_description() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ("client.id=me", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"client.id": "s3cret", "client.id": "s3cret"}', "client.id is listed more than once"),
        ('{"client id": "s3cret"}', "'client id' is not the name of a Kafka property"),
        ('{"kafka.client.id": "s3cret"}', "is not the name of a Kafka property"),
        ('{"client.id": ["s3cret"]}', "the value of client.id must be text, a number, true or false"),
        ('{"client.id": null}', "the value of client.id must be text, a number, true or false"),
        ('{"bootstrap.servers": "s3cret:1"}', "use LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS"),
        ('{"Security.Protocol": "s3cret"}', "use LAKEHOUSE_KAFKA_SECURITY_PROTOCOL"),
        ('{"sasl.jaas.config": "s3cret"}', "LAKEHOUSE_KAFKA_PASSWORD"),
        ('{"ssl.truststore.location": "s3cret"}', "use LAKEHOUSE_KAFKA_CA_FILE"),
        ('{"ssl.key.password": "s3cret"}', "LAKEHOUSE_KAFKA_CLIENT_KEY_FILE"),
        ('{"isolation.level": "s3cret"}', "isolation.level is fixed"),
        ('{"group.id": "s3cret"}', "group.id is fixed"),
        ('{"acks": "s3cret"}', "acks is fixed"),
    ],
)
def test_properties_that_cannot_be_used_are_named_and_their_values_are_not(
    monkeypatch: pytest.MonkeyPatch, properties: str, message: str
) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_PROPERTIES", properties)
    text = refusal()
    assert message in text and "LAKEHOUSE_KAFKA_PROPERTIES" in text and "s3cret" not in text
    with pytest.raises(ValueError, match="KAFKA_PROPERTIES|kafka_properties") as validation_error:
        Settings()
    assert "s3cret" not in str(validation_error.value)


def test_properties_are_written_as_kafka_writes_them_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_PROPERTIES", '{"client.id": "s3cret", "linger.ms": 5, "check.crcs": true}')
    settings = Settings.load()
    assert settings.client_properties == {"client.id": "s3cret", "linger.ms": "5", "check.crcs": "true"}
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize("variable", ["CERTIFICATE", "KEY"])
def test_a_client_certificate_needs_its_key(empty_folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    (empty_folder / "file.pem").touch()
    monkeypatch.setenv(f"LAKEHOUSE_KAFKA_CLIENT_{variable}_FILE", "file.pem")
    assert "CERTIFICATE_FILE and LAKEHOUSE_KAFKA_CLIENT_KEY_FILE go together" in refusal()


def test_a_path_may_start_at_the_home_folder_of_the_user(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty_folder / "ca.pem").touch()
    monkeypatch.setenv("HOME", str(empty_folder))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_CA_FILE", "~/ca.pem")
    assert Settings.load().kafka_ca_file == empty_folder / "ca.pem"


def test_a_token_behind_the_address_of_spark_connect_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK_REMOTE", "sc://host:15002/;token=s3cret")
    settings = Settings.load()
    assert settings.spark_place == "sc://host:15002"
    assert "s3cret" not in repr(settings)
    monkeypatch.setenv("LAKEHOUSE_SPARK_REMOTE", "sc://host:99999/;token=s3cret")
    assert "s3cret" not in refusal()


@pytest.mark.parametrize("source", ["the environment", "the env file"])
def test_a_misspelt_variable_is_reported_with_the_closest_setting(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    if source == "the env file":
        (empty_folder / ".env").write_text("LAKEHOUSE_KAFKA_PASSWRD=s3cret\n")
    else:
        monkeypatch.setenv("LAKEHOUSE_KAFKA_PASSWRD", "s3cret")
    text = refusal()
    assert "Unknown setting LAKEHOUSE_KAFKA_PASSWRD. Did you mean LAKEHOUSE_KAFKA_PASSWORD?" in text
    assert "s3cret" not in text


def test_service_variables_of_kubernetes_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_3000_TCP", "PORT_3000_TCP_ADDR"):
        monkeypatch.setenv(f"LAKEHOUSE_{name}", "10.0.0.1")
    assert Settings.load() == Settings()


def test_a_key_in_place_of_its_file_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_CLIENT_KEY_FILE", "-----BEGIN PRIVATE KEY-----\\nMIIs3cret")
    text = refusal()
    assert "LAKEHOUSE_KAFKA_CLIENT_KEY_FILE cannot be used" in text and "s3cret" not in text


def test_a_malformed_line_of_the_env_file_is_reported_by_number(empty_folder: Path) -> None:
    for text, line in (("A=1\nLAKEHOUSE_TABLES: /x\n", 2), ('LAKEHOUSE_TABLES="/x\nA=1\n', 1)):
        (empty_folder / ".env").write_text(text)
        assert f"Line {line} of .env is not NAME=value" in refusal()
    (empty_folder / ".env").write_text("LAKEHOUSE-TABLES=/x\n")
    assert "Unknown setting LAKEHOUSE-TABLES. Did you mean LAKEHOUSE_TABLES?" in refusal()


@pytest.mark.parametrize("name", ["FOO", "export FOO", "LAKEHOUSE_SYNC"])
def test_a_line_of_the_env_file_without_an_equals_sign_is_reported_by_number(empty_folder: Path, name: str) -> None:
    (empty_folder / ".env").write_text(f"A=1\n\n# a comment\n\n{name}\nB=2\n")
    with pytest.raises(SettingsError, match=r"Line 5 of \.env is not NAME=value .*Write NAME=value"):
        Settings.load()


def test_an_empty_value_and_an_exported_one_are_lines_of_an_env_file(empty_folder: Path) -> None:
    (empty_folder / ".env").write_text("FOO=\nexport BAR=1\nLAKEHOUSE_TABLES=\nexport LAKEHOUSE_HOME=here\n")
    assert Settings.load().home_folder == empty_folder / "here"


def test_an_env_file_that_is_not_utf8_is_an_error(empty_folder: Path) -> None:
    (empty_folder / ".env").write_bytes(b"\xff\xfe\x00LAKE")
    assert ".env cannot be read" in refusal()


@pytest.mark.parametrize("root", ["s3://bucket/a b", "s3a://bucket"])
def test_a_root_may_be_in_a_store_with_the_protocol_of_s3(root: str) -> None:
    assert Settings(tables=root, _env_file=None).tables_root == root


@pytest.mark.parametrize("name", ["HOME", "JARS", "TABLES", "DECLARATIONS", "KAFKA_CA_FILE"])
def test_a_path_that_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"LAKEHOUSE_{name}", f"./{'x' * 300}")  # fails for root too, unlike a folder without permissions
    with pytest.raises(SettingsError, match=f"LAKEHOUSE_{name}.*cannot be read: File name too long"):
        Settings.load()


@pytest.mark.parametrize("name", ["lakehouse_kafka_password", "LAKEHOUSE-KAFKA-PASSWORD"])
@pytest.mark.parametrize("ending", [":S3CRET", ":S3CRET==", " S3CRET"])
def test_a_secret_without_an_equals_sign_is_not_shown(empty_folder: Path, name: str, ending: str) -> None:
    (empty_folder / ".env").write_text(f"A=1\n{name}{ending}\n")
    text = refusal()
    assert "Line 2 of .env is not NAME=value" in text and "S3CRET" not in text


def test_the_project_is_searched_once_for_all_settings(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty_folder / "pyproject.toml").write_text('[tool.lakehouse]\ndeclarations = "tables"\n')
    inner_folder = empty_folder / "below"
    inner_folder.mkdir()
    monkeypatch.chdir(inner_folder)
    results: list[Path | None] = []

    def find_and_record() -> Path | None:
        results.append(find_project())
        return results[-1]

    find_project = project.find_project
    monkeypatch.setattr(project, "find_project", find_and_record)
    for name in ("HOME", "TABLES", "JARS"):
        monkeypatch.setenv(f"LAKEHOUSE_{name}", name.lower())
    settings = Settings.load()
    assert results == [empty_folder]
    assert (settings.home, settings.tables, settings.jars) == (
        empty_folder / "home",
        str(empty_folder / "tables"),
        empty_folder / "jars",
    )
    monkeypatch.chdir(empty_folder.parent)
    assert Settings.load().home == empty_folder.parent / "home", "another working directory gives another home"


@pytest.mark.parametrize(
    ("uri", "is_address", "folder"),
    [
        ("/data/t", False, Path("/data/t")),
        ("file:///data/a%20b", True, Path("/data/a b")),
        ("file:/data/t", True, Path("/data/t")),
        ("s3a://bucket/t", True, None),
        ("abfss://container@account.dfs.core.windows.net/t", True, None),
    ],
)
def test_paths_file_uris_and_object_stores_are_distinguished(
    uri: str, is_address: bool, folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "key")
    store = Store(uri)
    assert (store.is_address, store.folder) == (is_address, folder)
    assert bool(store.options) == (folder is None)


def test_settings_of_a_store_need_tables_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_STORE_REGION", "eu-west-1")
    assert "LAKEHOUSE_STORE_REGION needs LAKEHOUSE_TABLES=s3://BUCKET/... or abfss:" in refusal()
    monkeypatch.setenv("LAKEHOUSE_TABLES", AZURE)
    assert "LAKEHOUSE_STORE_REGION needs tables in S3" in refusal()


def test_settings_of_a_store_are_for_the_bucket_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("LAKEHOUSE_TABLES", "s3://tables/lake")
    for name, value in {"ACCESS_KEY": "own", "SECRET_KEY": "secret", "ENDPOINT": "http://store:8333"}.items():
        monkeypatch.setenv(f"LAKEHOUSE_STORE_{name}", value)
    Settings.load()
    access, other_access = Store("s3a://tables/lake/t").access, Store("s3://files/x").access
    assert (access.options["aws_access_key_id"], access.secret_key) == ("own", "secret")
    assert access.endpoint == "http://store:8333"
    assert (other_access.options["aws_access_key_id"], other_access.endpoint) == ("of-the-environment", None)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-environment")
    with pytest.raises(SetupError, match="AWS_SESSION_TOKEN is set.*Unset it"):
        Store("s3://tables/lake/t").objects()
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    for name in ("ACCESS_KEY", "SECRET_KEY", "ENDPOINT"):
        monkeypatch.delenv(f"LAKEHOUSE_STORE_{name}")
    Settings.load()
    assert Store("s3://tables/lake/t").access.options["aws_access_key_id"] == "of-the-environment"


def test_settings_of_a_store_are_for_the_account_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_TABLES", AZURE)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "of-the-environment")
    monkeypatch.setenv("LAKEHOUSE_STORE_SECRET_KEY", "own")
    Settings.load()
    access, other_access = Store(f"{AZURE}/t").access, Store("abfss://other@account.dfs.core.windows.net").access
    assert (access.secret_key, other_access.secret_key) == ("own", "of-the-environment")
    assert (
        access.duckdb_secret["CONNECTION_STRING"] == "DefaultEndpointsProtocol=https;AccountName=account;AccountKey=own"
    )
    monkeypatch.setenv("LAKEHOUSE_STORE_SECRET_KEY", "sv=1&sig=own")
    Settings.load()
    with pytest.raises(SetupError, match="AZURE_STORAGE_ACCOUNT_KEY is set.*Unset it"):
        Store(AZURE).objects()
    monkeypatch.delenv("LAKEHOUSE_STORE_SECRET_KEY")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    Settings.load()
    with pytest.raises(SetupError, match="no key or signature for the storage account account.*STORE_SECRET_KEY"):
        Store(AZURE).objects()


@pytest.mark.parametrize("ending", ["sig==", "abcd"])
def test_the_key_of_an_account_is_no_signature(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", f"AAAA{ending}")
    assert (Store(AZURE).options or {})["azure_storage_account_key"] == f"AAAA{ending}"
    assert ending not in repr(Store(AZURE).access)


@pytest.mark.parametrize(
    "endpoint",
    [
        *("http://127.0.0.1/devstoreaccount1", "127.0.0.1:1/devstoreaccount1", "http://127.0.0.1:1/other"),
        *("https://devstoreaccount1.blob.core.windows.net", "http://[::1]:1/devstoreaccount1"),
        *("https://account.blob.core.windows.net/?sv=1&sig=s3cret", "http://me:s3cret@127.0.0.1:1/devstoreaccount1"),
    ],
)
def test_an_endpoint_that_some_client_would_not_use_is_refused(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    address = AZURE.replace("account.", "devstoreaccount1.")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:1/devstoreaccount1/")
    assert Store(address).objects()
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", endpoint)
    with pytest.raises(SetupError, match="AZURE_STORAGE_ENDPOINT is not the address of a server of Azurite") as raised:
        Store(address).objects()
    assert "s3cret" not in str(raised.value)


def test_a_connection_string_is_refused_as_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "AccountName=account;AccountKey=s3cret==")
    with pytest.raises(SetupError, match="A connection string is none") as raised:
        Store(AZURE).objects()
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("name", ["AZURE_ENDPOINT", "AZURE_STORAGE_USE_EMULATOR", "AZURE_USE_FABRIC_ENDPOINT"])
def test_a_variable_that_leads_one_client_to_another_place_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    assert Store(AZURE).objects()
    monkeypatch.setenv(name, "https://s3cret.example.com")
    with pytest.raises(SetupError, match=f"{name} is set, and deltalake would use it") as raised:
        Store(AZURE).objects()
    assert "s3cret" not in str(raised.value)


def test_both_names_of_a_protocol_name_the_same_place() -> None:
    assert Store("s3://b/t").digest == Store("s3a://b/t").digest
    assert Store(AZURE).digest == Store(AZURE.replace("abfss:", "abfs:")).digest
    assert len({Store(AZURE.replace("account", name)).digest for name in ("one", "two")}) == 2


def test_the_user_of_a_command_is_recorded_only_if_that_is_set() -> None:
    assert Settings(_env_file=None).command_run == "cli"
    assert Settings(record_user=True, _env_file=None).command_run == f"{getuser()}@{gethostname()}"


def test_a_user_without_a_name_is_recorded_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(environment, "getuser", fail)
    assert Settings(record_user=True, _env_file=None).command_run == f"{os.getuid()}@{gethostname()}"
