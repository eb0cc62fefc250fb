"""Errors that are unknown or missing names: what is wrong, and which existing name is closest."""

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from inspect import signature
from types import ModuleType

_MIN_SIMILARITY = 0.75  # 1 is the same name
_MISSING_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) missing \d+ required (?:positional|keyword-only) arguments?: (.+)")
_UNKNOWN_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


def misspelt(error: BaseException, package: ModuleType) -> tuple[str, str] | None:
    """Return what is wrong and what to do, if the error is about a name that a declaration cannot use.

    ``package`` is the module that exports the classes of a declaration in ``__all__``. ``None`` for any other error.
    """
    text = str(error)
    unknown_match = _UNKNOWN_ARGUMENT.match(text)
    if isinstance(error, TypeError) and unknown_match and unknown_match[1] in package.__all__:
        return _unknown_parameter(
            unknown_match[1], unknown_match[2], list(signature(getattr(package, unknown_match[1])).parameters)
        )
    missing_match = _MISSING_ARGUMENT.match(text)
    if isinstance(error, TypeError) and missing_match and missing_match[1] in package.__all__:
        names = missing_match[2].replace("'", "")
        return f"{missing_match[1]} is missing {names}", f"Add {re.split(',| and ', names)[0]}=... to it."
    import_match = re.match(rf"cannot import name '(\w+)' from '{package.__name__}'", text)
    if isinstance(error, ImportError) and import_match:
        return f"{package.__name__} has no {import_match[1]!r}", _suggest(import_match[1], package.__all__, "It has")
    name = error.name if isinstance(error, NameError) else None
    closest = _closest(name, package.__all__) if name and name not in sys.stdlib_module_names else None
    if closest:
        return f"{type(error).__name__}: {text}", f"Write {closest}, and import it from {package.__name__}."
    return None


def spelling_hint(name: str, valid_names: Iterable[str]) -> str:
    """Return the question whether a similar valid name is meant, with a space at its end; empty if none is similar."""
    closest = _closest(name, valid_names)
    return f"Did you mean {closest}? " if closest else ""


def _unknown_parameter(class_name: str, parameter: str, parameters: list[str]) -> tuple[str, str]:
    return f"{class_name} has no parameter {parameter!r}", _suggest(parameter, parameters, "It takes")


def _suggest(name: str, valid_names: Iterable[str], intro: str) -> str:
    closest = _closest(name, valid_names)
    return f"Write {closest}." if closest else f"{intro} {', '.join(valid_names)}."


def _closest(name: str, valid_names: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name, list(valid_names), n=1, cutoff=_MIN_SIMILARITY)), None)
