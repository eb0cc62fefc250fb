"""The files in ``docker/``: every command, variable, path and health check in them exists."""

import re
import sys
import tomllib
from contextlib import redirect_stdout
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from io import StringIO
from typing import Any

import pytest
import yaml
from dagster._config import process_config
from dagster._core.instance.config import dagster_instance_config
from dagster._core.instance.ref import InstanceRef
from dagster._core.workspace.config_schema import process_workspace_config
from dagster._serdes import ConfigurableClass, ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage
from dagster_postgres.utils import pg_url_from_config
from sqlalchemy import create_engine

from lakehouse.settings import Settings
from lakehouse_tests.helpers.places import ROOT

DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OUR_SERVICES = {name: service for name, service in SERVICES.items() if service["image"] == "lakehouse"}
IVY = (ROOT / "lakehouse" / "local" / "ivy.xml").read_text(encoding="utf-8")
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
IMAGE_ENVIRONMENT = dict(re.findall(r"\b([A-Z_]+)=(/[\w/.-]+)", "".join(re.findall(r"^ENV .*$", DOCKERFILE, re.M))))
# the health commands of images that are not ours
HEALTH_COMMANDS = {"apache/kafka": "/opt/kafka/bin/kafka-broker-api-versions.sh", "postgres": "pg_isready"}
HEALTH_COMMANDS |= {"apicurio/apicurio-registry": "curl"}


def instructions(name: str) -> list[list[str]]:
    return [line.split()[1:] for line in DOCKERFILE.splitlines() if line.startswith(f"{name} ")]


def copied_sources() -> list[str]:
    return [source for arguments in instructions("COPY") for source in arguments[:-1]]


@cache
def help_of(*command: str) -> str:
    """The help text of a command of this environment; it runs in this process, which is faster."""
    (script,) = entry_points(group="console_scripts", name=command[0])
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as output:
        patch.setattr(sys, "argv", [*command, "--help"])
        with pytest.raises(SystemExit) as exit_info:
            script.load()()
    assert not exit_info.value.code, output.getvalue()
    return output.getvalue()


def check_command(command: list[str]) -> None:
    """Check that a command of our image exists, with each of its options."""
    if command[:2] == ["python", "-c"]:
        compile(command[2], "health check", "exec")
        return
    words = command[: next((n for n, word in enumerate(command) if word.startswith("-")), len(command))]
    help_text = help_of(*words)
    for option in (word for word in command if word.startswith("--")):
        assert re.search(rf"{option}\b", help_text), f"{' '.join(words)} has no {option}"


@pytest.mark.parametrize("name", OUR_SERVICES)
def test_every_command_and_its_options_exist(name: str) -> None:
    check_command(OUR_SERVICES[name]["command"])


def test_an_option_that_does_not_exist_is_detected() -> None:
    with pytest.raises(AssertionError, match="has no --hots"):
        check_command(["dagster", "api", "grpc-health-check", "--hots", "x"])


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "init"])
def test_every_long_running_service_has_a_health_check_that_exists(name: str) -> None:
    kind, *command = SERVICES[name]["healthcheck"]["test"]
    assert kind == "CMD"
    if name in OUR_SERVICES:
        check_command(command)
    else:
        assert command[0] == HEALTH_COMMANDS[SERVICES[name]["image"].split(":")[0]]


def test_the_code_server_loads_an_existing_module_and_the_workspace_has_its_address() -> None:
    command = OUR_SERVICES["code"]["command"]
    assert find_spec(command[command.index("--module-name") + 1]) is not None
    workspace = yaml.safe_load((DOCKER / "workspace.yaml").read_text(encoding="utf-8"))
    assert process_workspace_config(workspace).success
    (origin,) = workspace["load_from"]
    assert origin["grpc_server"]["host"] in SERVICES
    assert str(origin["grpc_server"]["port"]) == command[command.index("--port") + 1]
    health = OUR_SERVICES["code"]["healthcheck"]["test"]
    assert health[health.index("--port") + 1] == str(origin["grpc_server"]["port"])


def test_the_workspace_the_services_read_is_in_the_image() -> None:
    assert ["docker/dagster.yaml", "docker/workspace.yaml", "/opt/dagster/"] in instructions("COPY")
    assert IMAGE_ENVIRONMENT["DAGSTER_HOME"] == "/opt/dagster"
    for name in ("webserver", "daemon"):
        command = OUR_SERVICES[name]["command"]
        assert command[command.index("--workspace") + 1] == "/opt/dagster/workspace.yaml"


@pytest.mark.parametrize("name", OUR_SERVICES)
def test_every_lakehouse_variable_is_a_setting_with_a_valid_value(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = IMAGE_ENVIRONMENT | OUR_SERVICES[name]["environment"]
    our_variables = {variable: value for variable, value in environment.items() if variable.startswith("LAKEHOUSE_")}
    assert {variable.removeprefix("LAKEHOUSE_").lower() for variable in our_variables} <= Settings.model_fields.keys()
    for variable, value in our_variables.items():
        monkeypatch.setenv(variable, re.sub(r"\$\{\w+:-(.*)\}", r"\1", value))
    settings = Settings.load()
    volumes = [volume.split(":")[1] for volume in OUR_SERVICES[name]["volumes"]]
    assert str(settings.home_folder) in volumes
    assert settings.tables_root.startswith(str(settings.home_folder))


def test_the_settings_have_the_address_of_the_broker() -> None:
    host, port = OUR_SERVICES["code"]["environment"]["LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS"].split(":")
    broker = SERVICES[host]["environment"]
    listeners = dict(part.split("://") for part in broker["KAFKA_LISTENERS"].split(","))
    advertised = dict(part.split("://") for part in broker["KAFKA_ADVERTISED_LISTENERS"].split(","))
    assert listeners["PLAINTEXT"] == f":{port}"
    assert advertised["PLAINTEXT"] == f"{host}:{port}"
    assert SERVICES[host]["ports"] == [f"{advertised['HOST']}:{listeners['HOST'].removeprefix(':')}"]
    protocols = dict(part.split(":") for part in broker["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    assert listeners.keys() == protocols.keys()
    assert broker["KAFKA_CONTROLLER_QUORUM_VOTERS"] == f"1@{host}{listeners['CONTROLLER']}"


def test_the_settings_have_the_address_of_the_registry_which_stores_its_schemas_in_the_broker() -> None:
    address = OUR_SERVICES["code"]["environment"]["LAKEHOUSE_REGISTRY_URL"]
    assert address == "http://registry:8080/apis/ccompat/v7"
    registry = SERVICES["registry"]["environment"]
    servers = OUR_SERVICES["code"]["environment"]["LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS"]
    assert (registry["APICURIO_STORAGE_KIND"], registry["APICURIO_KAFKASQL_BOOTSTRAP_SERVERS"]) == ("kafkasql", servers)
    (version,) = re.findall(r'name="apicurio-registry-app" rev="([\d.]+)"', IVY)
    assert SERVICES["registry"]["image"].endswith(f":{version}")


def test_all_published_ports_are_local_to_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_waits_only_for_conditions_that_can_be_met(name: str) -> None:
    for target, wait in SERVICES[name].get("depends_on", {}).items():
        if wait["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[target]
        else:
            assert wait["condition"] == "service_completed_successfully"
            assert "restart" not in SERVICES[target]


def test_volumes_are_declared_and_used() -> None:
    mounted = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert mounted == COMPOSE["volumes"].keys()


def test_every_variable_of_the_compose_file_is_explained() -> None:
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    readme = (DOCKER / "README.md").read_text(encoding="utf-8")
    names = set(re.findall(r"\$\{(\w+)", text))
    assert names == {"POSTGRES_PASSWORD", "SPARK_DRIVER_MEMORY"}
    assert all(name in readme for name in names)


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> InstanceRef:
    """Dagster's instance as the containers see it, without a connection."""
    for name, value in OUR_SERVICES["daemon"]["environment"].items():
        if name.startswith("DAGSTER_"):
            monkeypatch.setenv(name, value)
    return InstanceRef.from_dir(str(DOCKER))


def test_dagster_accepts_every_field_of_its_configuration(instance: InstanceRef) -> None:
    dagster_instance_config(str(DOCKER))  # raises if a field is unknown
    parts = [part for part in instance._asdict().values() if isinstance(part, ConfigurableClassData)]
    assert len(parts) >= 5
    for part in parts:
        module = __import__(part.module_name, fromlist=[part.class_name])
        configurable: type[ConfigurableClass] = getattr(module, part.class_name)
        result = process_config(configurable.config_type(), part.config_dict)
        assert result.success, result.errors


def test_dagster_stores_its_state_in_the_postgres_of_the_stack(instance: InstanceRef) -> None:
    assert instance.storage_data.class_name == "DagsterPostgresStorage"
    storage = process_config(DagsterPostgresStorage.config_type(), instance.storage_data.config_dict).value or {}
    database = SERVICES[storage["postgres_db"]["hostname"]]["environment"]
    assert storage["postgres_db"]["db_name"] == database["POSTGRES_DB"]
    assert storage["postgres_db"]["username"] == database["POSTGRES_USER"]
    assert storage["postgres_db"]["password"] == database["POSTGRES_PASSWORD"]
    assert create_engine(pg_url_from_config(storage)).driver  # its driver is installed; no connection is opened


def test_dagster_allows_one_writer_for_each_table_and_sends_no_telemetry() -> None:
    config, _ = dagster_instance_config(str(DOCKER))
    assert config["concurrency"]["pools"] == {"default_limit": 1, "granularity": "op"}
    assert config["run_monitoring"]["free_slots_after_run_end_seconds"] > 0
    assert config["telemetry"] == {"enabled": False}
    assert config["nux"] == {"enabled": False}


def test_the_sources_of_the_image_exist_and_are_in_the_build_context() -> None:
    ignore_lines = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for source in copied_sources():
        assert (ROOT / source).exists(), source
        assert f"!{source.removeprefix('./')}" in ignore_lines
    build = OUR_SERVICES["code"]["build"]
    assert (DOCKER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()


def test_the_image_has_a_supported_python_java_and_the_jars() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ((base, *_),) = instructions("FROM")
    assert base.startswith("python:3.11-")
    assert project["requires-python"].startswith(">=3.11")
    runs = "\n".join(" ".join(words) for words in instructions("RUN"))
    assert "openjdk-17-jre-headless" in runs
    assert "docker" in project["optional-dependencies"]
    assert 'pip install --constraint requirements.txt ".[docker]"' in runs
    (module,) = re.findall(r"python -m ([\w.]+)", runs)
    assert find_spec(module) is not None
    assert find_spec("dagster_postgres") is not None


def test_the_containers_do_not_run_as_root() -> None:
    (user,) = instructions("USER")
    assert user == ["lakehouse"]
    assert "useradd --create-home --uid 10001 lakehouse" in DOCKERFILE
    assert DOCKERFILE.index("USER lakehouse") > DOCKERFILE.index("python -m lakehouse.local.jars")


def test_the_commands_in_the_readme_exist() -> None:
    text = (DOCKER / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"lakehouse ([a-z-]+)(?: temperatures| status|`)", text)
    for words in {("lakehouse", command) for command in commands} - {("lakehouse", "exec")}:
        assert help_of(*words)
    for path in re.findall(r"\bdata/\S+", text):
        assert (ROOT / path.rstrip("`")).exists()
