"""JSON in JSON: a text on the way to a field is opened, and the field is read by its path like any other.

At one path, the text holds its JSON in base64.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from lakehouse.decoding.byte_texts import byte_reader
from lakehouse.decoding.fields import (
    Field,
    OpenedList,
    OpenedText,
    Rejection,
    Step,
    Steps,
    UnopenedText,
    json_kind,
    paths_in_value,
    short_text,
)
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.json_parsing import parse_json, utf8_text
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, json_memory, too_large_rejection

CONTAINER = re.compile(r"[ \t\r\n]*([\[{]|null[ \t\r\n]*$)")
"""The beginning of a text that may hold an object or an array, or a text that holds null."""
_read_base64 = byte_reader("base64")


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
                is_base64 = path == self.json_options.base64_path
                if isinstance(text, str) and (is_base64 or CONTAINER.match(text)):
                    self._memory = self._memory or self.parser.memory_of(value)
                    container[place] = self._open(text, path, is_base64=is_base64)
        return parsed

    def schema_name(self, value: bytes) -> str | None:
        """The name that the schema of a value gives its record."""
        return self.parser.schema_name(value)

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most, with the texts in it that were opened."""
        return self.parser.memory_of(value) + self._opened_memory

    def _open(self, text: str, path: Steps, *, is_base64: bool) -> Any:
        """Return the object or the array that a text holds; an ``UnopenedText`` if it is null or not valid."""
        try:
            inner_text = _text_in_base64(text) if is_base64 else text
            self._opened_memory += json_memory(inner_text.encode("utf-8", "surrogatepass"))
            if self._memory + self._opened_memory > MAX_RECORD_MEMORY:
                raise too_large_rejection()
            content = parse_json(inner_text, self.parser.json_options)
            if not isinstance(content, dict | list | None):
                raise Rejection("wrong_type", f"it holds {json_kind(content)}, expected an object")
        except Rejection as rejection:
            detail = f"the text in {_shown_path(path)!r}: {rejection.detail}"
            return UnopenedText(text, Rejection(rejection.reason, detail))
        if content is None:
            return UnopenedText(text, None)
        return OpenedText(content, text) if isinstance(content, dict) else OpenedList(content, text)


def _text_in_base64(text: str) -> str:
    """The text in UTF-8 that a text in base64 holds; raises ``Rejection`` if it holds none."""
    data = _read_base64(text)
    if data is None:
        raise Rejection("wrong_type", f"it is {short_text(text)}, expected base64")
    return utf8_text(data)


def _places_at(parsed: dict[str, Any], path: Steps) -> Iterator[tuple[Any, Any]]:
    """Yield each place at a path: an object and a name in it, or an array and an index."""
    containers: list[Any] = [parsed]
    for step in path[:-1]:
        containers = [inner for container in containers for inner in _items_of(container, step)]
    for container in containers:
        for place in _places_in(container, path[-1]):
            yield container, place


def _items_of(container: Any, step: Step) -> Iterable[Any]:
    """What is at the places of a step; an object in the place of an array is its only item."""
    if step is None and isinstance(container, dict):
        return (container,)
    return [container[place] for place in _places_in(container, step)]


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
