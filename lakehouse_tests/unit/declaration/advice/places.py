"""The places in the source at which a declaration is refused: all that there are, and the one that refused it."""

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import lakehouse.declaration
import lakehouse.decoding
from lakehouse.declaration.sql import NotComputable
from lakehouse.errors import DeclarationError

_FOLDERS = [Path(package.__path__[0]) for package in (lakehouse.declaration, lakehouse.decoding)]
_SOURCES = sorted(file for folder in _FOLDERS for file in folder.rglob("*.py"))
_ERRORS = (NotComputable, DeclarationError)
_NAMES = {each.__name__ for each in _ERRORS}
Place = tuple[str, int]
"""A file, and the line at which a statement in it begins that tells a fact and an advice."""


@cache
def places() -> dict[Place, int]:
    """Every place, and the line at which its statement ends; what hands on a fact of another place is none."""
    found = {}
    for file in _SOURCES:
        for node in _telling(ast.parse(file.read_text(encoding="utf-8"))):
            found[str(file), node.lineno] = node.end_lineno or node.lineno
    return found


def _telling(tree: ast.Module) -> Iterator[ast.expr]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.returns and "Problem]" in ast.unparse(function.returns):
            yield from (node for node in ast.walk(function) if isinstance(node, ast.Yield) and not _hands_on(node))
    for node in ast.walk(tree):
        error = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(error, ast.Call) and ast.unparse(error.func) in _NAMES and not _hands_on(error):
            yield error


def overlooked() -> list[str]:
    """What tells a fact in a form that ``places`` does not see, so that no example is asked for it."""
    found = []
    for file in _SOURCES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        seen = {id(each) for each in _telling(tree)}
        nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Call))
        found += [f"{file.name}:{node.lineno}" for node in nodes if _evades(node, seen)]
    return found


def _evades(node: ast.FunctionDef | ast.Call, seen: set[int]) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in _NAMES and id(node) not in seen and not _hands_on(node)
    returned = ast.unparse(node.returns) if node.returns else ""
    told = "Problem" in returned
    return told and (not returned.endswith("Problem]") or any(map(_yields_in_a_row, ast.walk(node))))


def _yields_in_a_row(node: ast.AST) -> bool:
    made = getattr(node, "value", None)
    parts = [made.body, made.orelse] if isinstance(made, ast.IfExp) else [made]
    return isinstance(node, ast.YieldFrom) and not all(isinstance(part, ast.Call) for part in parts)


def _hands_on(told: ast.expr) -> bool:
    """Whether it is the fact of another place, with more said before it."""
    return any(isinstance(each, ast.FormattedValue) and ast.unparse(each.value) == "fact" for each in ast.walk(told))


def place_of(refused: Callable[[], object]) -> tuple[Place, DeclarationError]:
    """The place that refuses what is made, and the error."""
    seen: list[Place] = []
    with ExitStack() as noted:
        _note_errors(seen, noted)
        _note_problems(seen, noted)
        try:
            refused()
        except DeclarationError as error:
            return _places_of(seen)[0], error
    raise AssertionError("it is not refused")


def _note_errors(seen: list[Place], noted: ExitStack) -> None:
    """Note where errors are made: also those that end a recursion, at which Python stops to trace."""
    for kind in _ERRORS:
        noted.enter_context(patch.object(kind, "__init__", _noting(kind.__init__, seen)))


def _noting(make: Callable[..., None], seen: list[Place]) -> Callable[..., None]:
    def noted(*told: Any, **named: Any) -> None:
        at = sys._getframe(1)
        seen.append((at.f_code.co_filename, at.f_lineno))
        make(*told, **named)

    return noted


def _note_problems(seen: list[Place], noted: ExitStack) -> None:
    """Note where facts are yielded."""

    def watch(frame: FrameType, event: str, told: Any) -> Any:
        if not frame.f_code.co_filename.startswith(tuple(map(str, _FOLDERS))):
            return None
        frame.f_trace_lines = False
        if event == "return" and type(told) is tuple:
            seen.append((frame.f_code.co_filename, frame.f_lineno))
        return watch

    noted.callback(sys.settrace, sys.gettrace())
    sys.settrace(watch)


def _places_of(seen: Sequence[Place]) -> list[Place]:
    """The places to which these lines belong."""
    known = places().items()
    return [(file, at) for name, line in seen for (file, at), end in known if file == name and at <= line <= end]
