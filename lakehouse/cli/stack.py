"""``up``: the stack on this machine, in one foreground process with one log."""

import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from lakehouse.cli.arguments import examples
from lakehouse.cli.output import say
from lakehouse.cli.session import load_settings
from lakehouse.errors import LakehouseError, SetupError
from lakehouse.local.tail import Tail

if TYPE_CHECKING:
    from lakehouse.local.embedded import Embedded
    from lakehouse.local.process import Child
    from lakehouse.settings import Settings

verbs = typer.Typer()


class Service(StrEnum):
    """What ``up`` runs, in the order in which it is started."""

    broker = "broker"
    registry = "registry"
    engine = "engine"
    webserver = "webserver"
    daemon = "daemon"


_WIDTH = max(len(name) for name in Service)
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_PATIENCE = 6.0  # seconds for Dagster's processes to end by themselves: Ctrl-C is over within ten
_POLL = 0.2  # seconds between two looks at the logs


class _Process(Protocol):
    @property
    def exit_code(self) -> int | None: ...


@dataclass(frozen=True)
class _Running:
    name: Service
    process: _Process
    log: Tail
    look: Callable[[], None] = lambda: None


@verbs.command(epilog=examples("lakehouse up", "lakehouse up broker", "lakehouse up webserver daemon --port 3001"))
def up(
    services: Annotated[
        list[Service] | None,
        typer.Argument(metavar="SERVICE", help="broker, registry, engine, webserver, daemon; default: all."),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the webserver, on 127.0.0.1.")] = 3000,
) -> None:
    """Run the broker, the engine, Dagster's webserver and its daemon with the sensors on, until Ctrl-C.

    Where a declared table needs a schema registry, that is run too. The engine is one warm Spark for the commands and
    runs of this home. State stays in the home (LAKEHOUSE_HOME), and the next start goes on with it. A service that
    ends by itself ends all of them, with exit code 1; not so the engine, which is started again, five times in an
    hour.
    """
    settings = load_settings()
    chosen = services or _needed(settings)
    try:
        with ExitStack() as stack:
            for service in dict.fromkeys(chosen):
                stack.enter_context(_only_one(settings, service))
            running = []
            if "broker" in chosen:
                running += stack.enter_context(_broker(settings))
            if "registry" in chosen:
                running += stack.enter_context(_registry(settings))
            if "engine" in chosen:
                running += stack.enter_context(_engine(settings))
            running += stack.enter_context(_dagster(settings, chosen, port))
            _watch(running, port if "webserver" in chosen else None)
    except KeyboardInterrupt:
        say("All is stopped; lakehouse up goes on from here.")


@contextmanager
def _only_one(settings: "Settings", service: Service) -> Iterator[None]:
    """Hold the home's lock on a service."""
    from filelock import FileLock, Timeout

    lock = settings.make_folder("locks") / f"{service}.lock"
    try:
        with FileLock(lock, timeout=0):
            yield
    except Timeout:
        raise SetupError(
            f"The {service} of this home is up already",
            where=str(settings.home_folder),
            action="Stop the other lakehouse up, or set LAKEHOUSE_HOME to another folder.",
        ) from None


@contextmanager
def _broker(settings: "Settings") -> Iterator[list[_Running]]:
    """The embedded broker, unless an outside one is configured; with the topics of the declared tables."""
    from lakehouse.local.broker import EmbeddedBroker

    if settings.kafka_bootstrap_servers:
        _log("broker", f"an outside one is configured: {settings.kafka_bootstrap_servers}")
        _create_topics(settings)
        yield []
        return
    with _embedded(Service.broker, EmbeddedBroker(settings)) as running:
        _create_topics(settings)
        yield running


def _needed(settings: "Settings") -> list[Service]:
    """All services, the registry only where the records of a declared table name schemas."""
    from lakehouse.declared import declared_tables

    asked = any(table.has_schemas for table in declared_tables(settings))
    return [service for service in Service if asked or service is not Service.registry]


@contextmanager
def _registry(settings: "Settings") -> Iterator[list[_Running]]:
    """The embedded registry, unless an outside one is configured."""
    from lakehouse.local.registry import EmbeddedRegistry

    if settings.registry_url:
        _log("registry", f"an outside one is configured: {settings.registry_url}")
        yield []
        return
    with _embedded(Service.registry, EmbeddedRegistry(settings)) as running:
        yield running


@contextmanager
def _embedded(service: Service, server: "Embedded") -> Iterator[list[_Running]]:
    """An embedded server, until it is left."""
    server.start()
    log = Tail(server.log)
    try:
        _log(service, f"ready at {server.address}")
        yield [_Running(service, server, log)]
    finally:
        server.stop()


@contextmanager
def _engine(settings: "Settings") -> Iterator[list[_Running]]:
    """The engine, unless a Spark Connect server elsewhere is configured, which goes before."""
    from lakehouse.cli.keeper import EngineKeeper

    if settings.spark_remote:
        _log("engine", f"another one is configured: {settings.spark_place}")
        yield []
        return
    keeper = EngineKeeper(settings, lambda line: _log("engine", line))
    try:
        log = keeper.start()
        yield [_Running(Service.engine, keeper, Tail(log), keeper.look)]
    finally:
        keeper.stop()


def _create_topics(settings: "Settings") -> None:
    from lakehouse.declared import declared_tables
    from lakehouse.topic import create_topic

    for table in declared_tables(settings):
        if create_topic(settings, table):
            _log("broker", f"topic {table.topic} created")


@contextmanager
def _dagster(settings: "Settings", chosen: Sequence[Service], port: int) -> Iterator[list[_Running]]:
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
            running.append(_Running(name, child, log))
        yield running
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # asking twice does not stop the stopping
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda child: child.stop(_PATIENCE), children))


def _start(settings: "Settings", name: Service, command: Sequence[str]) -> "tuple[Child, Tail]":
    from lakehouse.local.dagster_home import prepare_dagster_home
    from lakehouse.local.process import Child

    log = settings.make_folder("logs") / f"{name}.log"
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


def _watch(running: Sequence[_Running], port: int | None) -> None:
    """Show the logs until Ctrl-C, or until a service ends, which is an error; tell when the UI answers."""
    told = port is None
    if told:
        say(f"Up: {', '.join(service.name for service in running)} - Ctrl-C stops everything.")
    while True:
        for service in running:
            service.look()
            for line in service.log.lines():
                _log(service.name, line)
            if service.process.exit_code is not None:
                raise LakehouseError(
                    f"The {service.name} has ended with code {service.process.exit_code}; all is stopped"
                )
        if not told and _answers(f"http://127.0.0.1:{port}/server_info"):
            told = True
            say(f"Dagster is at http://127.0.0.1:{port} - Ctrl-C stops everything.")
        time.sleep(_POLL)


def _answers(url: str) -> bool:
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=1) as response:  # noqa: S310 - an address of our own
            return bool(response.status == 200)
    except OSError:
        return False


def _log(name: str, line: str) -> None:
    say(f"{name:<{_WIDTH}} | {_COLOR.sub('', line).expandtabs()}")
