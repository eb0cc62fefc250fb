"""What Dagster loads for a project of ``dg``: its own definitions, although the project is not installed.

``dg list defs``, ``dg launch`` and ``dagster dev`` look for modules in the folder of the project, not in its ``src``.
The project file that ``lakehouse init`` writes names this module, which looks in ``src``.
"""

import sys
from importlib import import_module
from typing import Any

from lakehouse.errors import SettingsError
from lakehouse.settings.project import project_folder, read_dg_project


def _find_definitions() -> Any:
    """The variable ``defs`` of the project's module of definitions; raises ``SettingsError`` if there is none.

    Errors of the user's modules are not caught.
    """
    folder = project_folder()
    project = read_dg_project(folder)
    if project is None:
        raise SettingsError(
            "This project has no [tool.dg.project] with a root_module in pyproject.toml",
            where=str(folder),
            action="Add it, or load lakehouse.definitions instead.",
        )
    sys.path.insert(0, str(project.source_folder))
    module = import_module(project.definitions_module)
    if not hasattr(module, "defs"):
        raise SettingsError(
            f"The module {project.definitions_module} has no variable or function named defs",
            where=str(module.__file__),
            action="Name its definitions defs.",
        )
    return module.defs


defs = _find_definitions()
