"""The places in the source that refuse a declaration: all of them, and the one that refuses a given one."""

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
# the tests of views, exports and sinks show each of their refusals
_OF_VIEWS = ("view.py", "queries.py", "export.py", "sink.py")
_SOURCES = sorted(file for folder in _FOLDERS for file in folder.rglob("*.py") if file.name not in _OF_VIEWS)
_ERRORS = (NotComputable, DeclarationError)
_ERROR_NAMES = {error.__name__ for error in _ERRORS}
_MESSAGE_NAMES = {"fact", "message"}  # variables that contain the message of another place
Place = tuple[str, int]
"""A file, and the first line of a statement in it that yields or raises a message and an advice."""


@cache
def places() -> dict[Place, int]:
    """The last line of the statement at each place; statements that forward the message of another place are none."""
    last_lines = {}
    for file in _SOURCES:
        for node in _refusals(ast.parse(file.read_text(encoding="utf-8"))):
            last_lines[str(file), node.lineno] = node.end_lineno or node.lineno
    return last_lines


def _refusals(tree: ast.Module) -> Iterator[ast.expr]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.returns and "Problem]" in ast.unparse(function.returns):
            yield from (node for node in ast.walk(function) if isinstance(node, ast.Yield) and not _forwards(node))
    for node in ast.walk(tree):
        error = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(error, ast.Call) and ast.unparse(error.func) in _ERROR_NAMES and not _forwards(error):
            yield error


def find_overlooked() -> list[str]:
    """Places in a form that ``places`` does not recognize, so that no example is required for them."""
    overlooked = []
    for file in _SOURCES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        refusal_ids = {id(node) for node in _refusals(tree)}
        nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Call))
        overlooked += [f"{file.name}:{node.lineno}" for node in nodes if _is_overlooked(node, refusal_ids)]
    return overlooked


def _is_overlooked(node: ast.FunctionDef | ast.Call, refusal_ids: set[int]) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in _ERROR_NAMES and id(node) not in refusal_ids and not _forwards(node)
    return_type = ast.unparse(node.returns) if node.returns else ""
    returns_problems = "Problem" in return_type
    return returns_problems and (not return_type.endswith("Problem]") or any(map(_yields_sequence, ast.walk(node))))


def _yields_sequence(node: ast.AST) -> bool:
    value = getattr(node, "value", None)
    branches = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    return isinstance(node, ast.YieldFrom) and not all(isinstance(branch, ast.Call) for branch in branches)


def _forwards(refusal: ast.expr) -> bool:
    """Whether it is the message of another place with a prefix."""
    formatted_values = (node for node in ast.walk(refusal) if isinstance(node, ast.FormattedValue))
    return any(ast.unparse(node.value) in _MESSAGE_NAMES for node in formatted_values)


def find_place(make_refused: Callable[[], object]) -> tuple[Place, DeclarationError]:
    """The place that refuses a declaration, and the error."""
    lines: list[Place] = []
    with ExitStack() as stack:
        _record_errors(lines, stack)
        _record_problems(lines, stack)
        try:
            make_refused()
        except DeclarationError as error:
            return _places_of(lines)[0], error
    raise AssertionError("it is not refused")


def _record_errors(lines: list[Place], stack: ExitStack) -> None:
    """Record where errors are created, also errors at the recursion limit, at which Python stops tracing."""
    for kind in _ERRORS:
        stack.enter_context(patch.object(kind, "__init__", _recording(kind.__init__, lines)))


def _recording(init: Callable[..., None], lines: list[Place]) -> Callable[..., None]:
    def record_and_init(*arguments: Any, **options: Any) -> None:
        caller = sys._getframe(1)
        lines.append((caller.f_code.co_filename, caller.f_lineno))
        init(*arguments, **options)

    return record_and_init


def _record_problems(lines: list[Place], stack: ExitStack) -> None:
    """Record where problems are yielded."""

    def trace(frame: FrameType, event: str, value: Any) -> Any:
        if not frame.f_code.co_filename.startswith(tuple(map(str, _FOLDERS))):
            return None
        frame.f_trace_lines = False
        if event == "return" and type(value) is tuple:
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        return trace

    stack.callback(sys.settrace, sys.gettrace())
    sys.settrace(trace)


def _places_of(lines: Sequence[Place]) -> list[Place]:
    """The places to which these lines belong."""
    return [
        (file, first)
        for name, line in lines
        for (file, first), last in places().items()
        if file == name and first <= line <= last
    ]
