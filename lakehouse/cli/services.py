"""The services that ``up`` runs: each is a context that stops what it started."""

import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lakehouse.cli.output import print_line
from lakehouse.errors import SetupError
from lakehouse.local.process import Tail

if TYPE_CHECKING:
    from lakehouse.local.embedded import Embedded
    from lakehouse.local.process import Child
    from lakehouse.settings import Settings

COLOR = re.compile(r"\x1b\[[0-9;]*m")
_STOP_SECONDS = 6.0  # for Dagster's processes to end by themselves: Ctrl-C takes at most ten


class Service(StrEnum):
    """What ``up`` runs, in the order of the starts."""

    broker = "broker"
    registry = "registry"
    engine = "engine"
    webserver = "webserver"
    daemon = "daemon"


_WIDTH = max(len(name) for name in Service)


class _Process(Protocol):
    @property
    def exit_code(self) -> int | None: ...


@dataclass(frozen=True)
class Running:
    """A running service: its process, its log, and a function to call at each poll."""

    name: Service
    process: _Process
    log: Tail
    poll: Callable[[], None] = lambda: None


@contextmanager
def broker(settings: "Settings") -> Iterator[list[Running]]:
    """The embedded broker, unless an external one is configured; creates the topics of the declared tables."""
    from lakehouse.local.servers import EmbeddedBroker

    if settings.kafka_bootstrap_servers:
        log_line("broker", f"using the configured broker: {settings.kafka_bootstrap_servers}")
        _create_topics(settings)
        yield []
        return
    with _embedded(Service.broker, EmbeddedBroker(settings)) as running:
        _create_topics(settings)
        yield running


def _create_topics(settings: "Settings") -> None:
    from lakehouse.discovery import find_readable_tables
    from lakehouse.ingest.topics import named_topics
    from lakehouse.kafka import create_topic

    for part in (
        part
        for table in find_readable_tables(settings, lambda _: None)
        if table.has_topics
        for part in named_topics(table)
    ):
        if create_topic(settings, part):
            log_line("broker", f"topic {part.topic} created")


def tables_with_schemas(settings: "Settings") -> list[str]:
    """Return the declared tables whose records refer to schemas; empty without a project."""
    from lakehouse.discovery import find_readable_tables

    return [table.name for table in find_readable_tables(settings, lambda _: None) if table.has_schemas]


@contextmanager
def registry(settings: "Settings") -> Iterator[list[Running]]:
    """The embedded registry, unless an external one is configured; logs the tables that need it."""
    from lakehouse.local.servers import EmbeddedRegistry

    if settings.registry_url:
        log_line("registry", f"using the configured registry: {settings.registry_url}")
        yield []
        return
    log_line("registry", f"needed by tables: {', '.join(tables_with_schemas(settings)) or 'none'}")
    with _embedded(Service.registry, EmbeddedRegistry(settings)) as running:
        yield running


@contextmanager
def _embedded(service: Service, server: "Embedded") -> Iterator[list[Running]]:
    server.start()
    log = Tail(server.log)
    try:
        log_line(service, f"ready at {server.address}")
        yield [Running(service, server, log)]
    finally:
        server.stop()


@contextmanager
def engine(settings: "Settings") -> Iterator[list[Running]]:
    """The engine, unless a Spark Connect server elsewhere is configured."""
    from lakehouse.cli.keeper import EngineKeeper

    if settings.spark_remote:
        log_line("engine", f"using the configured Spark: {settings.spark_place}")
        yield []
        return
    keeper = EngineKeeper(settings, lambda line: log_line("engine", line))
    try:
        log = keeper.start()
        yield [Running(Service.engine, keeper, Tail(log), keeper.poll)]
    finally:
        keeper.stop()


@contextmanager
def dagster(settings: "Settings", services: Sequence[Service], port: int) -> Iterator[list[Running]]:
    """Dagster's processes; at the end they and everything they started are stopped."""
    from lakehouse.local.dagster_home import migrate_dagster_storage, note_stop, start_dagster_storage
    from lakehouse.local.embedded import is_free

    if "webserver" in services and not is_free(port):
        raise SetupError(f"Port {port} is in use", action=f"Choose another one: lakehouse up --port {port + 1}")
    commands = {
        Service.webserver: ("dagster_webserver", "-h", "127.0.0.1", "-p", str(port)),
        Service.daemon: ("lakehouse.defs.daemon", "run"),
    }
    names = [name for name in commands if name in services]
    if Service.daemon in names:
        start_dagster_storage(settings)
    elif names:
        migrate_dagster_storage(settings)
    children: list[Child] = []
    running_services = []
    try:
        for name in names:
            child, log = _start(settings, name, commands[name])
            children.append(child)
            running_services.append(Running(name, child, log))
        yield running_services
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a second signal does not interrupt the shutdown
        if Service.daemon in names:
            note_stop(settings)
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda child: child.stop(_STOP_SECONDS), children))


def _start(settings: "Settings", name: Service, command: Sequence[str]) -> "tuple[Child, Tail]":
    from lakehouse.local.dagster_home import prepare_dagster_home
    from lakehouse.local.process import Child

    log = settings.log_file(f"{name}.log")
    log.unlink(missing_ok=True)
    definitions = [] if _has_definitions(Path.cwd()) else ["-m", "lakehouse.definitions"]
    environment = {"DAGSTER_HOME": str(prepare_dagster_home(settings)), "PYTHONUNBUFFERED": "1"}
    return Child([sys.executable, "-m", *command, *definitions], log, environment), Tail(log)


def _has_definitions(folder: Path) -> bool:
    """Whether a workspace file or the project file of a folder says what Dagster loads, also as a project of dg."""
    import tomllib

    from lakehouse.settings.project import read_dg_project

    if (folder / "workspace.yaml").exists():
        return True
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        return "dagster" in project.get("tool", {}) or read_dg_project(folder) is not None
    except (OSError, ValueError):
        return False


def log_line(name: str, line: str) -> None:
    """Print a line in the log of ``up``, after the name of its service."""
    print_line(f"{name:<{_WIDTH}} | {COLOR.sub('', line).expandtabs()}")
