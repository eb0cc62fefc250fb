"""The names of the ``LAKEHOUSE_`` variables: those in the file ``.env``, and those of other programs."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from dotenv.parser import Original, parse_stream

from lakehouse.errors import SettingsError

PREFIX = "LAKEHOUSE_"
ENV_FILE = ".env"
ADVICE = "Correct it in the environment or in .env. The page Settings of the documentation lists all settings."
# Kubernetes sets these in every container if the namespace has a service called "lakehouse"
_SET_BY_KUBERNETES = re.compile(PREFIX + r"(SERVICE_HOST|SERVICE_PORT\w*|PORT(_\d+_\w+)?)")
_NAME = re.compile(r"[\w-]+", re.ASCII)


def variables_in_file(file: Path) -> list[str]:
    """Return the names of the variables in the file.

    Raises ``SettingsError`` if a line is not ``NAME=value``, also for variables of other programs: the variable would
    silently count as not set.
    """
    try:
        with file.open(encoding="utf-8") as text:
            lines = list(parse_stream(text))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError):
        action = "Make it readable, and save it as text in UTF-8."
        raise SettingsError("The file .env cannot be read", where=str(file), action=action) from None
    for line in lines:
        if line.error or _is_malformed(line.key, line.value):
            raise SettingsError(
                f"Line {_line_number(line.original)} of .env is not NAME=value",
                where=str(file),
                action="Write NAME=value, or # before a comment. Put a value with spaces in quotes, and close them.",
            )
    return [line.key for line in lines if line.key]


def _is_malformed(name: str | None, value: str | None) -> bool:
    """Whether a variable has no value, or the name of a setting holds other text, which may be a secret."""
    if name is None:
        return False
    return value is None or (_has_prefix(name) and not _NAME.fullmatch(name))


def _line_number(original: Original) -> int:
    """The number of the line with the name: the parser counts from the empty lines before it."""
    text = original.string
    return original.line + text[: len(text) - len(text.lstrip())].count("\n")


def _has_prefix(name: str) -> bool:
    return name.upper().replace("-", "_").startswith(PREFIX)


def require_known(names: Iterable[str], settings: Iterable[str]) -> None:
    """Refuse an unknown ``LAKEHOUSE_`` variable: a misspelt one would silently count as not set."""
    setting_variables = [f"{PREFIX}{name.upper()}" for name in settings]
    for name in map(str.upper, names):
        if _has_prefix(name) and name not in setting_variables and not _SET_BY_KUBERNETES.fullmatch(name):
            close_matches = get_close_matches(name, setting_variables, 1, cutoff=0.8)
            hint = f"Did you mean {close_matches[0]}? " if close_matches else ""
            raise SettingsError(f"Unknown setting {name}", action=f"{hint}{ADVICE}")
