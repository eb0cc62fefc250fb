"""Variables of ours by their names: those of the file ``.env``, and the ones that no setting has."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from dotenv.parser import parse_stream

from lakehouse.errors import SettingsError

PREFIX = "LAKEHOUSE_"
ENV_FILE = ".env"
ADVICE = "Correct it in the environment or in .env; README.md lists the settings."
# set in every container of Kubernetes beside a service called "lakehouse"
_NOT_OURS = re.compile(PREFIX + r"(SERVICE_HOST|SERVICE_PORT\w*|PORT(_\d+_\w+)?)")
_NAME = re.compile(r"[\w-]+", re.ASCII)


def variables_in_file(file: Path) -> list[str]:
    """Return the variables of the file; ``SettingsError`` if a line of it is none: it would count as not there."""
    try:
        with file.open(encoding="utf-8") as text:
            lines = list(parse_stream(text))
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError):
        raise SettingsError("The file .env cannot be read", where=str(file)) from None
    for line in lines:
        if line.error or _is_no_variable(line.key, line.value):
            raise SettingsError(
                f"Line {line.original.line} of .env cannot be read",
                where=str(file),
                action="Write it as NAME=value, a text with spaces in quotes that are closed.",
            )
    return [line.key for line in lines if line.key]


def _is_no_variable(name: str | None, value: str | None) -> bool:
    """Whether what stands for a variable of ours holds more than its name, which may be a secret, or no value."""
    if name is None or not _begins_as_ours(name):
        return False
    return value is None or not _NAME.fullmatch(name)


def _begins_as_ours(name: str) -> bool:
    return name.upper().replace("-", "_").startswith(PREFIX)


def require_known(names: Iterable[str], settings: Iterable[str]) -> None:
    """Refuse a variable with our prefix that no setting has: a misspelt one would count as not set."""
    known = [f"{PREFIX}{name.upper()}" for name in settings]
    for name in map(str.upper, names):
        if _begins_as_ours(name) and name not in known and not _NOT_OURS.fullmatch(name):
            near = get_close_matches(name, known, 1)
            hint = f"; is it {near[0]}?" if near else ""
            raise SettingsError(f"{name} is no setting{hint}", action=ADVICE)
