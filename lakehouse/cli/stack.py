"""``up``: the stack on this machine, in one foreground process with one log."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import examples
from lakehouse.cli.log_filter import Detail, LogFilter
from lakehouse.cli.output import say
from lakehouse.cli.services import Running, Service, broker, dagster, engine, log_line, named_schemas, registry
from lakehouse.cli.table_session import load_settings
from lakehouse.errors import LakehouseError, SetupError

if TYPE_CHECKING:
    from lakehouse.settings import Settings

verbs = typer.Typer()

_POLL = 0.2  # seconds between two looks at the logs


ServicesArgument = Annotated[
    list[Service] | None,
    typer.Argument(
        metavar="SERVICE",
        help="broker, registry, engine, webserver, daemon; default: all, the registry only if a table needs it.",
    ),
]


@verbs.command(epilog=examples("lakehouse up", "lakehouse up broker", "lakehouse up webserver daemon --port 3001"))
def up(
    services: ServicesArgument = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the webserver, on 127.0.0.1.")] = 3000,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Of the services show warnings and errors only.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every line of the services.")] = False,
) -> None:
    """Run the broker, the engine, Dagster's webserver and its daemon with the sensors on, until Ctrl-C.

    Topics of declared tables are created where they are missing, and where a table needs a schema registry, that is
    run too. The engine is one warm Spark for the commands and runs of this home. State stays in the home
    (LAKEHOUSE_HOME), and the next start goes on with it. A service that ends by itself ends all of them, with exit
    code 1; the engine is the exception: it is restarted, up to five times an hour.
    """
    from lakehouse.discovery import declared_tables
    from lakehouse.settings.project import project_folder

    detail = _detail(quiet, verbose)
    settings = load_settings()
    chosen = services or _needed(settings)
    if {Service.webserver, Service.daemon} & {*chosen}:
        declared_tables(settings)  # Dagster has nothing to load without them
    os.chdir(project_folder())  # Dagster looks for its workspace there
    try:
        with ExitStack() as stack:
            for service in dict.fromkeys(chosen):
                stack.enter_context(_only_one(settings, service))
            running = [
                each
                for service, start in ((Service.broker, broker), (Service.registry, registry), (Service.engine, engine))
                if service in chosen
                for each in stack.enter_context(start(settings))
            ]
            running += stack.enter_context(dagster(settings, chosen, port))
            _watch(running, port if "webserver" in chosen else None, detail)
    except KeyboardInterrupt:
        say("All is stopped; lakehouse up goes on from here.")


def _detail(quiet: bool, verbose: bool) -> Detail:
    if quiet and verbose:
        raise typer.BadParameter("--quiet and --verbose exclude each other", param_hint="--quiet")
    return Detail.quiet if quiet else Detail.all if verbose else Detail.events


def _needed(settings: "Settings") -> list[Service]:
    """All services, the registry only where the records of a declared table name schemas."""
    return [service for service in Service if service is not Service.registry or named_schemas(settings)]


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


def _watch(running: Sequence[Running], port: int | None, detail: Detail) -> None:
    """Show the logs until Ctrl-C, or until a service ends, which is an error; tell when the UI answers."""
    filters = {service.name: LogFilter(detail) for service in running}
    told = port is None
    if told:
        say(f"Up: {', '.join(service.name for service in running)} - Ctrl-C stops everything.")
    while True:
        for service in running:
            service.look()
            for line in service.log.lines():
                if filters[service.name].shows(line):
                    log_line(service.name, line)
            if service.process.exit_code is not None:
                raise LakehouseError(
                    f"The {service.name} has ended with code {service.process.exit_code}; all is stopped"
                )
        if not told and _answers(f"http://127.0.0.1:{port}/server_info"):
            told = True
            say(f"Dagster is at http://127.0.0.1:{port} - Ctrl-C stops everything.")
        time.sleep(_POLL)


def _answers(url: str) -> bool:
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=1) as response:  # noqa: S310 - an address of our own
            return bool(response.status == 200)
    except (OSError, HTTPException):
        return False
