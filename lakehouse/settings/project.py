"""What the project file of the working directory says: where its tables are declared."""

import tomllib
from pathlib import Path

from lakehouse.errors import SettingsError
from lakehouse.settings.shapes import require_declarations

_FILE = "pyproject.toml"
_EXAMPLES = "lakehouse.tables"


def declarations_of_project() -> str:
    """The folder or module of declarations that ``[tool.lakehouse]`` names, or the examples where nothing does.

    Raises ``SettingsError`` where the file cannot be read, or says anything else there.
    """
    try:
        tool = tomllib.loads(Path(_FILE).read_text(encoding="utf-8")).get("tool", {})
    except FileNotFoundError:
        return _EXAMPLES
    except (OSError, ValueError) as error:
        raise _unusable(str(error)) from None
    said = tool.get("lakehouse") or {"declarations": _EXAMPLES}
    if not isinstance(said, dict) or [*said] != ["declarations"] or not isinstance(said["declarations"], str):
        raise _unusable("[tool.lakehouse] is to hold declarations, a text, and nothing else")
    try:
        return require_declarations(said["declarations"])
    except ValueError as error:
        raise _unusable(f"declarations = {said['declarations']!r}: {error}") from None


def _unusable(fact: str) -> SettingsError:
    action = 'Correct it: declarations = "tables" names a folder; other settings are LAKEHOUSE_ variables.'
    return SettingsError(f"The project file cannot be used: {fact}", where=str(Path(_FILE).absolute()), action=action)
