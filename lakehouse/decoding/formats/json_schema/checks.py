"""Check a parsed value by a compiled schema: the first thing that is wrong, and where.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Protocol

from lakehouse.decoding.fields import Rejection, UnrepresentableValue

VIOLATION = "schema_violation"
"""The reason to reject a record that does not meet its schema."""
MAX_LEVELS = 200
"""Schemas that are applied within each other; each takes two or three calls of functions."""
_FEW_LEVELS = 8  # so that a value is checked a few times at most, without a note of each check
_MAX_PATH = 150  # characters of a path in a detail
KINDS = (type(None), bool, str, Decimal, UnrepresentableValue, list, dict)
"""The types of parsed values."""


class Violation:
    """What is wrong with a value: ``message``, and in ``path`` the names and numbers that lead to it, innermost first.

    ``keyword`` is the one of the schema that is not met.
    """

    __slots__ = ("keyword", "message", "path")

    def __init__(self, keyword: str, message: str, path: Iterable[str | int] = ()) -> None:
        self.keyword, self.message, self.path = keyword, message, [*path]

    def at(self, step: str | int) -> "Violation":
        """The violation, of a value within another one."""
        self.path.append(step)
        return self

    @property
    def detail(self) -> str:
        """The violation in words, with a bounded length and only ASCII characters."""
        steps = [f"[{step}]" if isinstance(step, int) else f".{step[:_MAX_PATH]}" for step in reversed(self.path)]
        path = ascii("".join(steps).removeprefix(".")[:_MAX_PATH])[1:-1]
        shown_path = f"'{path[:_MAX_PATH]}'" if path else "the value"
        return f"{shown_path} {self.message} ({self.keyword})"


Evaluated = set[Any]
"""The names and the positions of an object's fields or an array's items that some schema has evaluated."""


class Visit:
    """One check of one record: how deep it is, and what is known about values that a reference met before.

    Without this knowledge, each level of a record could double the time of a check.
    """

    __slots__ = ("level", "results")

    def __init__(self) -> None:
        self.level = 0
        self.results: dict[tuple[int, int, bool], tuple[Violation | None, Evaluated]] = {}


class Keyword(Protocol):
    """Check a value by a keyword; into ``evaluated``, if it is given, go the fields and items that were evaluated."""

    def __call__(self, value: Any, visit: Visit, evaluated: Evaluated | None, /) -> Violation | None:
        """Return what is wrong; ``None`` if the value meets the keyword."""


class Node:
    """A compiled schema: the keywords for each type of a value, in the order in which they are checked."""

    __slots__ = ("collects", "in_place", "keywords")

    def __init__(self) -> None:
        self.keywords: dict[type, list[Keyword]] = {kind: [] for kind in KINDS}
        self.in_place = list[Node]()
        self.collects = False

    def add(self, check: Keyword, *kinds: type) -> None:
        """Add a keyword for values of some types; without any, for all."""
        for kind in kinds or KINDS:
            self.keywords[kind].append(check)

    def check(self, value: Any, visit: Visit, evaluated: Evaluated | None = None) -> Violation | None:
        """Return what is wrong with a value; raises ``Rejection`` if it is nested too deeply."""
        visit.level += 1
        if visit.level > MAX_LEVELS:
            raise Rejection("too_large", f"its schema takes more than {MAX_LEVELS} schemas within each other")
        collected = Evaluated() if self.collects else evaluated
        violation = None
        for keyword in self.keywords[type(value)]:
            violation = keyword(value, visit, collected)
            if violation is not None:
                break
        visit.level -= 1
        if self.collects and evaluated is not None and collected is not None:
            evaluated |= collected
        return violation

    def check_once(self, value: Any, visit: Visit, evaluated: Evaluated | None) -> Violation | None:
        """Like ``check``, but a container is checked only once in a visit, and so is any value at deeper levels."""
        if visit.level < _FEW_LEVELS and not isinstance(value, dict | list):
            return self.check(value, visit, evaluated)
        key = (id(self), id(value), evaluated is None)
        if key not in visit.results:
            collected = None if evaluated is None else Evaluated()
            visit.results[key] = self.check(value, visit, collected), collected or Evaluated()
        violation, steps = visit.results[key]
        if evaluated is not None:
            evaluated |= steps
        # a copy, whose path may grow
        return violation and Violation(violation.keyword, violation.message, violation.path)
