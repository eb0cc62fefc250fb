"""JSON in JSON: a text on the way to a field is opened, so that the field is read by its path like any other.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from lakehouse.decoding.fields import (
    Field,
    OpenedList,
    OpenedText,
    Rejection,
    Step,
    Steps,
    UnopenedText,
    paths_in_value,
)
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.json_parsing import parse_json
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, json_memory, too_large_rejection

CONTAINER = re.compile(r"[ \t\r\n]*([\[{]|null[ \t\r\n]*$)")
"""The beginning of a text that may hold an object or an array, or a text that holds null."""


def outer_paths(fields: Iterable[Field], rows_from: Steps | None = None) -> tuple[Steps, ...]:
    """Return the paths of what holds fields, each after those that lead to it; also of arrays, maps and structs."""
    paths: set[Steps] = set()
    for steps, field in paths_in_value(fields, rows_from):
        paths |= {steps[:depth] for depth in range(1, len(steps) + bool(field.inner))}
    return tuple(sorted(paths, key=lambda path: (len(path), [step or "" for step in path])))


def with_opened_texts(parser: Parser, fields: Iterable[Field], rows_from: Steps | None = None) -> Parser:
    """Return a parser that opens the texts on the way to these fields; the same parser if there is no way.

    ``rows_from`` is the path to the array whose elements are rows, if there is one.
    """
    paths = outer_paths(fields, rows_from)
    if not paths or parser.has_changes:
        return parser
    return parser.with_inner(OpeningParser(parser.inner, paths))


class OpeningParser(Parser):
    """Parses with another parser, then opens the texts at some paths; a text ``null`` is null."""

    def __init__(self, parser: Parser, paths: tuple[Steps, ...]) -> None:
        self.parser, self.paths = parser, paths
        self.memory_by_byte, self.smallest_item = parser.memory_by_byte, parser.smallest_item
        self.is_json, self.json_options = parser.is_json, parser.json_options
        self._memory = self._opened_memory = 0

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one value, and open the texts in it that hold JSON."""
        self._memory = self._opened_memory = 0
        parsed = self.parser(value)
        for path in self.paths:
            for container, place in _places_at(parsed, path):
                text = container[place]
                if isinstance(text, str) and CONTAINER.match(text):
                    self._memory = self._memory or self.parser.memory_of(value)
                    container[place] = self._open(text, path)
        return parsed

    def schema_name(self, value: bytes) -> str | None:
        """The name that the schema of a value gives its record."""
        return self.parser.schema_name(value)

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most, with the texts in it that were opened."""
        return self.parser.memory_of(value) + self._opened_memory

    def _open(self, text: str, path: Steps) -> Any:
        """Return the object or the array that a text holds; an ``UnopenedText`` if it is null or not valid."""
        self._opened_memory += json_memory(text.encode("utf-8", "surrogatepass"))
        try:
            if self._memory + self._opened_memory > MAX_RECORD_MEMORY:
                raise too_large_rejection()
            content = parse_json(text, self.parser.json_options)
        except Rejection as rejection:
            detail = f"the text in {_shown_path(path)!r}: {rejection.detail}"
            return UnopenedText(text, Rejection(rejection.reason, detail))
        if content is None:
            return UnopenedText(text, None)
        return OpenedText(content, text) if isinstance(content, dict) else OpenedList(content, text)


def _places_at(parsed: dict[str, Any], path: Steps) -> Iterator[tuple[Any, Any]]:
    """Yield each place at a path: an object and a name in it, or an array and an index."""
    containers: list[Any] = [parsed]
    for step in path[:-1]:
        containers = [container[place] for container in containers for place in _places_in(container, step)]
    for container in containers:
        for place in _places_in(container, path[-1]):
            yield container, place


def _places_in(container: Any, step: Step) -> Iterable[Any]:
    """The places in an object with a name, or all those in an array."""
    if step is None:
        return range(len(container)) if isinstance(container, list) else ()
    return (step,) if isinstance(container, dict) and step in container else ()


def _shown_path(path: Steps) -> str:
    """A path with ``[]`` for each element of an array."""
    text = ""
    for step in path:
        text += "[]" if step is None else f".{step}" if text else step
    return text
