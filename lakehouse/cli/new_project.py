"""``init``: a folder for declarations of one's own."""

import re
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from lakehouse.cli.arguments import examples
from lakehouse.cli.output import say
from lakehouse.errors import LakehouseError

verbs = typer.Typer()

_TEMPLATE = Path(__file__).parents[1] / "examples" / "template"
_NAME = "my-lake"  # of the project, where its template names it
_HIDDEN = {"gitignore": ".gitignore"}  # files that a package does not hold under their own name
_AS_IT_IS = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@verbs.command(epilog=examples("lakehouse init my-lake", "cd my-lake", "lakehouse demo"))
def init(
    into: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that is empty, or not there yet.")],
) -> None:
    """Make a project for declarations of your own: an example table, definitions for Dagster, settings, a test.

    Nothing that is there is touched: a folder that holds anything is refused.
    """
    from lakehouse.settings.shapes import require_home

    try:
        if into.exists() and (not into.is_dir() or any(into.iterdir())):
            raise typer.BadParameter(f"{into} is there already, and not an empty folder", param_hint="FOLDER")
        require_home(into.absolute())
        name = into.resolve().name
        for file, text in _files(name if _AS_IT_IS.fullmatch(name) else _NAME).items():
            (into / file).parent.mkdir(parents=True, exist_ok=True)
            (into / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise LakehouseError(f"The folder cannot be written: {error.strerror}", where=str(into)) from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="FOLDER") from None
    say(f"Made {into}. What to type next:")
    say(f"  cd {quote(str(into))}")
    say("  lakehouse demo    the example, from topic to tables")


def _files(name: str) -> dict[str, str]:
    """The files of a project of this name, by their paths in its folder."""
    found = {file.relative_to(_TEMPLATE): file for file in sorted(_TEMPLATE.rglob("*")) if file.is_file()}
    wanted = {path: file for path, file in found.items() if "__pycache__" not in path.parts}
    made = {_HIDDEN.get(path.name, path.as_posix()): file.read_text(encoding="utf-8") for path, file in wanted.items()}
    return {path: text.replace(_NAME, name) for path, text in made.items()} | {".env": _settings()}


def _settings() -> str:
    """Every setting, what it is for and its default; none is set."""
    from lakehouse.settings import Settings

    lines = ["# Settings on this machine; the environment wins over them. Nothing has to be set."]
    for field, said in Settings.model_fields.items():
        default = "" if said.default is None else said.default
        lines += ["", f"# {said.description}", f"# LAKEHOUSE_{field.upper()}={default}"]
    return "\n".join(lines) + "\n"
