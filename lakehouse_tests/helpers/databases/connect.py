"""Kafka Connect as a process, with Debezium's connector for PostgreSQL."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import requests

from lakehouse.local.embedded import draw_port
from lakehouse.local.java import find_java
from lakehouse.local.process import Child
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.databases.postgres import Postgres
from lakehouse_tests.helpers.waiting import wait_until

_FILES = Path(__file__).parents[2] / "fixtures" / "connect"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_CONNECTOR = "io.debezium.connector.postgresql.PostgresConnector"
_DEPENDENCY = re.compile(r'<dependency .* name="(.+)" rev="(.+?)"')
_LOG_LEVEL = "org.slf4j.simpleLogger.defaultLogLevel"
_REST_LOG_LEVEL = "org.slf4j.simpleLogger.log.org.apache.kafka.connect.runtime.rest"


def connect_jars(settings: Settings) -> Path:
    """Return the folder of Connect's jars; fetch them if those that the list names are not all there."""
    folder = settings.jar_folder / "connect"
    jars = _DEPENDENCY.findall((_FILES / "ivy.xml").read_text())
    if not all((folder / f"{name}-{version}.jar").exists() for name, version in jars):
        (ivy,) = _spark_jars().glob("ivy-*.jar")
        command = [str(find_java().path), "-jar", str(ivy), "-settings", str(_FILES / "ivysettings.xml")]
        command += ["-ivy", str(_FILES / "ivy.xml"), "-confs", "connect", "-types", "jar", "bundle"]
        command += ["-cache", str(settings.jar_folder / "connect-cache")]
        command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]", "-sync"]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
    return folder


def _spark_jars() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


class Connect:
    """A worker with one connector; its offsets survive a restart."""

    def __init__(self, settings: Settings, folder: Path, connector: Mapping[str, str]) -> None:
        self._settings, self._folder, self._connector = settings, folder, connector
        self._rest = draw_port()
        self._child: Child | None = None

    def start(self) -> None:
        self.begin()
        assert self.runs(), self.log.read_text()[-4000:]

    def runs(self) -> bool:
        """Wait until the task of the connector runs."""
        return wait_until(self._is_running, 90.0)

    def begin(self) -> None:
        worker = {
            "bootstrap.servers": bootstrap_servers(self._settings),
            "key.converter": _JSON,
            "value.converter": _JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "value.converter.replace.null.with.default": "false",
            "offset.storage.file.filename": str(self._folder / "offsets"),
            "offset.flush.interval.ms": "500",
            "topic.creation.enable": "true",
            "plugin.discovery": "only_scan",
            "listeners": f"http://127.0.0.1:{self._rest}",
        }
        files = [_write(self._folder / "worker.properties", worker)]
        files += [_write(self._folder / "connector.properties", self._connector)]
        jars = f"{connect_jars(self._settings)}/*"
        command = [str(find_java().path), "-Xmx400m", f"-D{_LOG_LEVEL}=info", f"-D{_REST_LOG_LEVEL}=warn", "-cp", jars]
        command += ["org.apache.kafka.connect.cli.ConnectStandalone", *map(str, files)]
        self._child = Child(command, self.log)

    @property
    def log(self) -> Path:
        return self._folder / "connect.log"

    def _is_running(self) -> bool:
        """Whether the task of the connector runs."""
        name = self._connector["name"]
        try:
            status = requests.get(f"http://127.0.0.1:{self._rest}/connectors/{name}/status", timeout=5).json()
        except (requests.RequestException, json.JSONDecodeError):
            return False
        return any(task["state"] == "RUNNING" for task in status.get("tasks", ()))

    def kill(self) -> None:
        if self._child:
            self._child.kill()


def connector_of(server: Postgres, database: str, tables: str, **options: str) -> dict[str, str]:
    """Return the properties of a connector; its topics are DATABASE.SCHEMA.TABLE."""
    return {
        "name": database,
        "connector.class": _CONNECTOR,
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "postgres",
        "database.password": "unused",
        "database.dbname": database,
        "topic.prefix": database,
        "table.include.list": tables,
        "plugin.name": "pgoutput",
        "slot.name": f"slot_{database}",
        "publication.autocreate.mode": "filtered",
        "decimal.handling.mode": "string",
        "skipped.operations": "none",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "3",
        **{name.replace("_", "."): value for name, value in options.items()},
    }


def _write(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path
