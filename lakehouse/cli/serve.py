"""``serve``: the tables over HTTP, until Ctrl-C."""

import sys
from typing import Annotated

import typer

from lakehouse.cli.arguments import examples
from lakehouse.cli.output import print_line
from lakehouse.cli.table_session import load_settings
from lakehouse.errors import SetupError

commands = typer.Typer()

_DAY = 86_400  # seconds


@commands.command(epilog=examples("lakehouse serve", "lakehouse serve --port 8080 --time-limit 60"))
def serve(
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address to listen on. Other machines need LAKEHOUSE_SERVE_TOKEN.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="PORT", help="0 is any free port.")] = 8000,
    time_limit: Annotated[
        int, typer.Option(min=1, max=_DAY, metavar="SECONDS", help="Interrupt a query that takes longer.")
    ] = 30,
    page_size: Annotated[
        int, typer.Option(min=1, max=1_000, metavar="MB", help="A page has no more megabytes of JSON: then fewer rows.")
    ] = 16,
) -> None:
    """Serve the tables over HTTP, read-only: rows, aggregates, changes and status as JSON.

    Needs no Java, no broker and no other service. /v1/openapi.json describes the paths. Ctrl-C ends it at once.
    """
    settings = load_settings()
    try:
        from lakehouse.serve.database import MEGABYTE
        from lakehouse.serve.requests import is_loopback
        from lakehouse.serve.server import Limits
        from lakehouse.serve.server import serve as serve_tables
    except ModuleNotFoundError as error:
        action = "Install the extra: pip install 'dagster-lakehouse[serve]'"
        raise SetupError(f"The package {error.name} is not installed", action=action) from None
    if not is_loopback(host) and settings.serve_token is None:
        problem = f"{host} can be reached from other machines, so LAKEHOUSE_SERVE_TOKEN must be set"
        raise typer.BadParameter(problem, param_hint="--host")

    def announce(address: str) -> None:
        access = "requests need the token" if settings.serve_token else "this machine only, without a token"
        print_line(f"Serving {settings.tables_root} at {address} ({access}). Ctrl-C ends it.")
        sys.stdout.flush()  # a supervisor that reads it waits for this line

    serve_tables(settings, host, port, Limits(time_limit, page_size * MEGABYTE), announce)
