"""The services that ``up`` runs, each a context that ends what it started."""

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

from lakehouse.cli.output import say
from lakehouse.errors import SetupError
from lakehouse.local.tail import Tail

if TYPE_CHECKING:
    from lakehouse.local.embedded import Embedded
    from lakehouse.local.process import Child
    from lakehouse.settings import Settings

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_PATIENCE = 6.0  # seconds for Dagster's processes to end by themselves: Ctrl-C is over within ten


class Service(StrEnum):
    """What ``up`` runs, in the order in which it is started."""

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
    """A service that runs: its process, its log, and what it needs to be looked at."""

    name: Service
    process: _Process
    log: Tail
    look: Callable[[], None] = lambda: None


@contextmanager
def broker(settings: "Settings") -> Iterator[list[Running]]:
    """The embedded broker, unless an outside one is configured; with the topics of the declared tables."""
    from lakehouse.local.broker import EmbeddedBroker

    if settings.kafka_bootstrap_servers:
        log_line("broker", f"an outside one is configured: {settings.kafka_bootstrap_servers}")
        _create_topics(settings)
        yield []
        return
    with _embedded(Service.broker, EmbeddedBroker(settings)) as running:
        _create_topics(settings)
        yield running


def _create_topics(settings: "Settings") -> None:
    from lakehouse.discovery import tables_there
    from lakehouse.kafka import create_topic

    for table in tables_there(settings):
        if create_topic(settings, table):
            log_line("broker", f"topic {table.topic} created")


def named_schemas(settings: "Settings") -> list[str]:
    """Return the declared tables whose records name schemas; none without a project."""
    from lakehouse.discovery import tables_there

    return [table.name for table in tables_there(settings) if table.has_schemas]


@contextmanager
def registry(settings: "Settings") -> Iterator[list[Running]]:
    """The embedded registry, unless an outside one is configured; with the tables that need it."""
    from lakehouse.local.registry import EmbeddedRegistry

    if settings.registry_url:
        log_line("registry", f"an outside one is configured: {settings.registry_url}")
        yield []
        return
    log_line("registry", f"needed by the tables: {', '.join(named_schemas(settings)) or 'none'}")
    with _embedded(Service.registry, EmbeddedRegistry(settings)) as running:
        yield running


@contextmanager
def _embedded(service: Service, server: "Embedded") -> Iterator[list[Running]]:
    """An embedded server, until it is left."""
    server.start()
    log = Tail(server.log)
    try:
        log_line(service, f"ready at {server.address}")
        yield [Running(service, server, log)]
    finally:
        server.stop()


@contextmanager
def engine(settings: "Settings") -> Iterator[list[Running]]:
    """The engine, unless a Spark Connect server elsewhere is configured, which goes before."""
    from lakehouse.cli.keeper import EngineKeeper

    if settings.spark_remote:
        log_line("engine", f"another one is configured: {settings.spark_place}")
        yield []
        return
    keeper = EngineKeeper(settings, lambda line: log_line("engine", line))
    try:
        log = keeper.start()
        yield [Running(Service.engine, keeper, Tail(log), keeper.look)]
    finally:
        keeper.stop()


@contextmanager
def dagster(settings: "Settings", chosen: Sequence[Service], port: int) -> Iterator[list[Running]]:
    """Dagster's processes; afterwards neither they nor anything they started is left."""
    from lakehouse.local.dagster_home import migrate_dagster_storage
    from lakehouse.local.ports import is_free

    if "webserver" in chosen and not is_free(port):
        raise SetupError(f"Port {port} is in use", action="Name another one with --port.")
    commands = {
        Service.webserver: ("dagster_webserver", "-h", "127.0.0.1", "-p", str(port)),
        Service.daemon: ("dagster._daemon", "run"),
    }
    wanted = [name for name in commands if name in chosen]
    if wanted:
        migrate_dagster_storage(settings)
    children: list[Child] = []
    running = []
    try:
        for name in wanted:
            child, log = _start(settings, name, commands[name])
            children.append(child)
            running.append(Running(name, child, log))
        yield running
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # asking twice does not stop the stopping
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda child: child.stop(_PATIENCE), children))


def _start(settings: "Settings", name: Service, command: Sequence[str]) -> "tuple[Child, Tail]":
    from lakehouse.local.dagster_home import prepare_dagster_home
    from lakehouse.local.process import Child

    log = settings.log_file(f"{name}.log")
    log.unlink(missing_ok=True)
    definitions = [] if _names_definitions(Path.cwd()) else ["-m", "lakehouse.definitions"]
    environment = {"DAGSTER_HOME": str(prepare_dagster_home(settings)), "PYTHONUNBUFFERED": "1"}
    return Child([sys.executable, "-m", *command, *definitions], log, environment), Tail(log)


def _names_definitions(folder: Path) -> bool:
    """Whether a folder says what Dagster is to load, in a workspace file or in its project file."""
    import tomllib

    if (folder / "workspace.yaml").exists():
        return True
    try:
        return "dagster" in tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError):
        return False


def log_line(name: str, line: str) -> None:
    """Show a line in the log of ``up``, behind the name of what says it."""
    say(f"{name:<{_WIDTH}} | {_COLOR.sub('', line).expandtabs()}")
