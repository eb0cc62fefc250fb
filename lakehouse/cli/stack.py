"""``up``: the stack on this machine, in one foreground process with one log."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import examples, print_left_out, readable_declarations
from lakehouse.cli.output import print_line
from lakehouse.cli.services import (
    COLOR,
    Running,
    Service,
    broker,
    dagster,
    engine,
    log_line,
    registry,
    tables_with_schemas,
)
from lakehouse.cli.table_session import load_settings
from lakehouse.errors import LakehouseError, SetupError

if TYPE_CHECKING:
    from lakehouse.settings import Settings

_TIME = re.compile(r"^\s*\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*( [+-]\d{4})?( - )?")
_EVALUATION = re.compile(r"Checking for new runs for (sensor|schedule)")
_SKIPPED_TICK = re.compile(r"(Sensor|Schedule) (\S+) skipped")
_PROBLEM = re.compile(r"\b(WARN(ING)?|ERROR|CRITICAL|FATAL)\b|Traceback|Error:|Exception:")
commands = typer.Typer()

_POLL = 0.2  # seconds between two reads of the logs


ServicesArgument = Annotated[
    list[Service] | None,
    typer.Argument(
        metavar="SERVICE",
        help="broker, registry, engine, webserver or daemon; default: all, the registry only if a table needs it.",
    ),
]


class Detail(StrEnum):
    """How much of the services' logs is shown."""

    quiet = "quiet"
    events = "events"
    all = "all"


class LogFilter:
    """Decides line by line, for one service.

    ``events`` hides that a sensor was evaluated, that a tick was skipped for the same reason as before, and a line that
    repeats the line before it with another time. ``quiet`` shows only warnings and errors.
    """

    def __init__(self, detail: Detail) -> None:
        self._detail = detail
        self._last_text = ""
        self._last_skips: dict[str, str] = {}

    def shows(self, line: str) -> bool:
        """Return whether the line is shown, and remember it."""
        if self._detail is Detail.all:
            return True
        plain_line = COLOR.sub("", line)  # Dagster colors its log too
        if self._detail is Detail.quiet:
            return bool(_PROBLEM.search(plain_line))
        text = _TIME.sub("", plain_line)
        is_new = text != self._last_text and not _EVALUATION.search(text) and self._is_new_reason(text)
        self._last_text = text
        return is_new

    def _is_new_reason(self, text: str) -> bool:
        tick = _SKIPPED_TICK.search(text)
        if tick is None:
            return True
        last_text, self._last_skips[tick[2]] = self._last_skips.get(tick[2]), text
        return last_text != text


@commands.command(epilog=examples("lakehouse up", "lakehouse up broker", "lakehouse up webserver daemon --port 3001"))
def up(
    services: ServicesArgument = None,
    port: Annotated[
        int, typer.Option(min=1, max=65535, metavar="PORT", help="Port of Dagster's webserver: http://127.0.0.1:PORT.")
    ] = 3000,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show only warnings and errors of the services.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every log line of the services.")] = False,
) -> None:
    """Run the broker, the engine, Dagster's webserver and its daemon with the sensors on, until Ctrl-C.

    Creates missing topics of the declared tables. Also runs a schema registry if a table needs one. The engine is a
    warm Spark process that the commands and runs of this home share. State stays in the home (LAKEHOUSE_HOME), and the
    next start continues with it. If a service ends by itself, all of them are stopped, with exit code 1. The exception
    is the engine: it is restarted, up to five times an hour.
    """
    from lakehouse.settings.project import project_folder

    detail = _detail(quiet, verbose)
    settings = load_settings()
    selected = services or _default_services(settings)
    if {Service.webserver, Service.daemon} & {*selected}:
        _, errors = readable_declarations(settings, None)  # raises if there are none: Dagster would load nothing
        for error in errors:
            print_left_out(error)
    os.chdir(project_folder())  # Dagster looks for its workspace there
    try:
        with ExitStack() as stack:
            for service in dict.fromkeys(selected):
                stack.enter_context(_lock_service(settings, service))
            starts = ((Service.broker, broker), (Service.registry, registry), (Service.engine, engine))
            running_services = [
                running_service
                for service, start in starts
                if service in selected
                for running_service in stack.enter_context(start(settings))
            ]
            running_services += stack.enter_context(dagster(settings, selected, port))
            _watch(running_services, port if "webserver" in selected else None, detail)
    except KeyboardInterrupt:
        print_line("All services are stopped. Run lakehouse up to continue.")


def _detail(quiet: bool, verbose: bool) -> Detail:
    if quiet and verbose:
        raise typer.BadParameter("--quiet and --verbose exclude each other", param_hint="--quiet")
    return Detail.quiet if quiet else Detail.all if verbose else Detail.events


def _default_services(settings: "Settings") -> list[Service]:
    """All services; the registry only if the records of a declared table refer to schemas."""
    return [service for service in Service if service is not Service.registry or tables_with_schemas(settings)]


@contextmanager
def _lock_service(settings: "Settings", service: Service) -> Iterator[None]:
    """Hold the home's lock of a service."""
    from filelock import FileLock, Timeout

    lock = settings.make_folder("locks") / f"{service}.lock"
    try:
        with FileLock(lock, timeout=0):
            yield
    except Timeout:
        raise SetupError(
            f"The {service} of this home is already running",
            where=str(settings.home_folder),
            action="Stop the other lakehouse up, or set LAKEHOUSE_HOME to another folder.",
        ) from None


def _watch(services: Sequence[Running], port: int | None, detail: Detail) -> None:
    """Show the logs until Ctrl-C, or until a service ends, which is an error; report when the UI answers."""
    filters = {service.name: LogFilter(detail) for service in services}
    is_reported = port is None
    if is_reported:
        print_line(f"Up: {', '.join(service.name for service in services)} - Ctrl-C stops everything.")
    while True:
        for service in services:
            service.poll()
            for line in service.log.lines():
                if filters[service.name].shows(line):
                    log_line(service.name, line)
            if service.process.exit_code is not None:
                raise LakehouseError(
                    f"The {service.name} has ended with code {service.process.exit_code}; all services are stopped",
                    action="The lines above, or lakehouse up --verbose, show the reason. Then start all of them again:"
                    " lakehouse up",
                )
        if not is_reported and _answers(f"http://127.0.0.1:{port}/server_info"):
            is_reported = True
            print_line(f"Dagster is at http://127.0.0.1:{port} - Ctrl-C stops everything.")
        time.sleep(_POLL)


def _answers(url: str) -> bool:
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=1) as response:  # noqa: S310 - our own address
            return bool(response.status == 200)
    except (OSError, HTTPException):
        return False
