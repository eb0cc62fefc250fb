"""``init``: a new project folder for your own declarations."""

import re
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from lakehouse.cli.arguments import examples
from lakehouse.cli.output import print_line
from lakehouse.errors import LakehouseError

commands = typer.Typer()

_TEMPLATE = Path(__file__).parents[1] / "examples" / "template"
_TEMPLATE_NAME = "my-lake"  # the name of the project in the template
_HIDDEN = {"gitignore": ".gitignore"}  # files that a package cannot contain under their own name
_PROJECT_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@commands.command(epilog=examples("lakehouse init my-lake", "cd my-lake", "lakehouse demo"))
def init(
    into: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that is empty or does not exist yet.")],
) -> None:
    """Create a project for your own declarations: an example table, definitions for Dagster, settings, a test.

    Refuses a folder that contains anything, so that no file is overwritten.
    """
    from lakehouse.settings.shapes import require_home

    try:
        if into.exists() and (not into.is_dir() or any(into.iterdir())):
            raise typer.BadParameter(f"{into} already exists and is not an empty folder", param_hint="FOLDER")
        require_home(into.absolute())
        name = into.resolve().name
        for file, text in _files(name if _PROJECT_NAME.fullmatch(name) else _TEMPLATE_NAME).items():
            (into / file).parent.mkdir(parents=True, exist_ok=True)
            (into / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise LakehouseError(
            f"The folder cannot be created: {error.strerror}", where=str(into), action="Choose another place."
        ) from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="FOLDER") from None
    print_line(f"Created {into}. Next commands:")
    print_line(f"  cd {quote(str(into))}")
    print_line("  lakehouse demo    the example, from topic to tables")


def _files(name: str) -> dict[str, str]:
    """The files of a project of this name, by their paths in its folder."""
    files = {file.relative_to(_TEMPLATE): file for file in sorted(_TEMPLATE.rglob("*")) if file.is_file()}
    sources = {path: file for path, file in files.items() if "__pycache__" not in path.parts}
    texts = {
        _HIDDEN.get(path.name, path.as_posix()): file.read_text(encoding="utf-8") for path, file in sources.items()
    }
    return {path: text.replace(_TEMPLATE_NAME, name) for path, text in texts.items()} | {".env": _settings_text()}


def _settings_text() -> str:
    """Every setting with its description and default; none is set."""
    from lakehouse.settings import Settings

    lines = ["# Settings on this machine; environment variables override them. No setting is required."]
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else field.default
        lines += ["", f"# {field.description}", f"# LAKEHOUSE_{name.upper()}={default}"]
    return "\n".join(lines) + "\n"
