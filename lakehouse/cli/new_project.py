"""``init``: a new project folder for your own declarations, or an addition to a project of ``dg``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from lakehouse.cli.arguments import examples
from lakehouse.cli.output import print_line
from lakehouse.errors import LakehouseError

commands = typer.Typer()


@commands.command(
    epilog=examples("lakehouse init my-lake", "cd my-lake", "lakehouse demo", "lakehouse init --into my-dg-project")
)
def init(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="A folder that is empty or does not exist yet.")
    ] = None,
    into: Annotated[
        Path | None, typer.Option("--into", metavar="FOLDER", help="Add to the dg project in this folder instead.")
    ] = None,
) -> None:
    """Create a project for your own declarations: an example table, definitions for Dagster, settings, a test.

    It is also a project of Dagster's command dg. Refuses a folder that contains anything, so that no file is
    overwritten. With --into, adds what an existing dg project needs: the example, a component, .env, and the section
    tool.lakehouse at the end of pyproject.toml. Other text and files are kept, so a second run changes nothing.
    """
    if folder and not into:
        _create(folder)
    elif into and not folder:
        _add(into)
    else:
        raise typer.BadParameter("give either a new FOLDER or --into with an existing one", param_hint="FOLDER")


def _create(folder: Path) -> None:
    from lakehouse.cli.project_files import project_files
    from lakehouse.settings.shapes import require_home

    with _explained(folder, "FOLDER", "created"):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"{folder} already exists and is not an empty folder")
        require_home(folder.absolute())
        for file, text in project_files(folder.resolve().name).items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
    print_line(f"Created {folder}. Next commands:")
    print_line(f"  cd {quote(str(folder))}")
    print_line("  lakehouse demo    the example, from topic to tables")


def _add(folder: Path) -> None:
    from lakehouse.cli.project_files import plan_addition
    from lakehouse.settings.shapes import require_home

    with _explained(folder, "--into", "changed"):
        parts = plan_addition(folder)
        require_home(folder.absolute())
        for part in parts:
            part.write()
    for part in parts:
        print_line(f"{'Kept' if part.text is None else 'Wrote'} {part.file}: {part.note}")
    if all(part.text is None for part in parts):
        print_line("Nothing was missing.")


@contextmanager
def _explained(folder: Path, option: str, verb: str) -> Iterator[None]:
    """Explain what prevents writing a project in this folder."""
    try:
        yield
    except OSError as error:
        raise LakehouseError(
            f"The project cannot be {verb}: {error.strerror}",
            where=str(error.filename or folder),
            action="Choose another place, or correct its permissions.",
        ) from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
