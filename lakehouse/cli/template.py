"""The files of a new project, from ``lakehouse/examples/template``."""

import keyword
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

EXAMPLE = "src/my_lake/tables/readings.py"
COMPONENT = "src/my_lake/defs/lakehouse/defs.yaml"

_TEMPLATE = Path(__file__).parents[1] / "examples" / "template"
_TEMPLATE_NAME = "my-lake"  # the name of the project in the template
_TEMPLATE_MODULE = "my_lake"
_HIDDEN = {"gitignore": ".gitignore"}  # files that a package cannot contain under their own name
_PROJECT_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def project_files(folder_name: str) -> dict[str, str]:
    """Return the files of a new project by their paths in its folder, which names the project if its name is valid."""
    name = folder_name if _PROJECT_NAME.fullmatch(folder_name) else _TEMPLATE_NAME
    names = {_TEMPLATE_NAME: name, _TEMPLATE_MODULE: module_name(name)}
    files = {file.relative_to(_TEMPLATE).as_posix(): file for file in sorted(_TEMPLATE.rglob("*")) if file.is_file()}
    texts = {path: file.read_text(encoding="utf-8") for path, file in files.items() if "__pycache__" not in path}
    renamed = {_rename(_HIDDEN.get(path, path), names): _rename(text, names) for path, text in texts.items()}
    return renamed | {".env": settings_text()}


def module_name(project_name: str) -> str:
    """Return the name of a project as a module that hides no other: ``my-lake`` becomes ``my_lake``."""
    name = re.sub(r"\W", "_", project_name.lower())
    is_used = name in {*sys.stdlib_module_names, *packages_distributions(), *keyword.kwlist, "test", "tests"}
    return f"lake_{name}" if is_used or not name.isidentifier() else name


def read_template(path: str) -> str:
    """Return the text of a file of the template."""
    return (_TEMPLATE / path).read_text(encoding="utf-8")


def settings_text() -> str:
    """Return the text of ``.env``: every setting with its description and default; none is set."""
    from lakehouse.settings import Settings

    lines = ["# Settings on this machine; environment variables override them. No setting is required."]
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else field.default
        lines += ["", f"# {field.description}", f"# LAKEHOUSE_{name.upper()}={default}"]
    return "\n".join(lines) + "\n"


def _rename(text: str, names: dict[str, str]) -> str:
    """Replace the names of the template, all at once: a new name may contain one of them."""
    return re.sub("|".join(map(re.escape, names)), lambda match: names[match[0]], text)
