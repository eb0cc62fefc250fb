"""JSON in JSON: a text on the way to a field is opened, so that the field is read by its path like any other.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import re
from collections.abc import Iterable
from typing import Any

from lakehouse.decoding.fields import Field, OpenedList, OpenedText, Rejection, UnopenedText
from lakehouse.decoding.formats.format import Path
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.json_parsing import parse_json
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, json_memory, too_large_rejection
from lakehouse.decoding.record_parts import VALUE

_CONTAINER = re.compile(r"[ \t\r\n]*([\[{]|null[ \t\r\n]*$)")


def outer_paths(fields: Iterable[Field]) -> tuple[Path, ...]:
    """Return the paths of what holds fields, each after those that lead to it; also of arrays, maps and structs."""
    paths: set[Path] = set()
    for field in (field for field in fields if field.part == VALUE):
        for names in (field.names, field.former):
            paths |= {names[:depth] for depth in range(1, len(names) + bool(field.inner))}
    return tuple(sorted(paths, key=lambda path: (len(path), path)))


def with_opened_texts(parser: Parser, fields: Iterable[Field]) -> Parser:
    """Return a parser that opens the texts on the way to these fields; the same parser if there is no way."""
    paths = outer_paths(fields)
    if not paths or parser.has_changes:
        return parser
    return parser.with_inner(OpeningParser(parser.inner, paths))


class OpeningParser(Parser):
    """Parses with another parser, then opens the texts at some paths; a text ``null`` is null."""

    def __init__(self, parser: Parser, paths: tuple[Path, ...]) -> None:
        self.parser, self.paths = parser, paths
        self.memory_by_byte, self.smallest_item = parser.memory_by_byte, parser.smallest_item
        self.is_json, self.not_finite = parser.is_json, parser.not_finite
        self._opened_memory = 0

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one value, and open the texts in it that hold JSON."""
        self._opened_memory = 0
        parsed = self.parser(value)
        for path in self.paths:
            parent = _object_at(parsed, path[:-1])
            text = parent.get(path[-1]) if parent else None
            if parent and isinstance(text, str) and _CONTAINER.match(text):
                parent[path[-1]] = self._open(text, path, value)
        return parsed

    def schema_name(self, value: bytes) -> str | None:
        """The name that the schema of a value gives its record."""
        return self.parser.schema_name(value)

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most, with the texts in it that were opened."""
        return self.parser.memory_of(value) + self._opened_memory

    def _open(self, text: str, path: Path, value: bytes | None) -> Any:
        """Return the object or the array that a text holds; an ``UnopenedText`` if it is null or not valid."""
        self._opened_memory += json_memory(text.encode("utf-8", "surrogatepass"))
        try:
            if self.memory_of(value) > MAX_RECORD_MEMORY:
                raise too_large_rejection()
            content = parse_json(text, self.parser.not_finite)
        except Rejection as rejection:
            detail = f"the text in {'.'.join(path)!r}: {rejection.detail}"
            return UnopenedText(text, Rejection(rejection.reason, detail))
        if content is None:
            return UnopenedText(text, None)
        return OpenedText(content, text) if isinstance(content, dict) else OpenedList(content, text)


def _object_at(parsed: dict[str, Any], path: Path) -> dict[str, Any] | None:
    """Return the object at a path; ``None`` if there is none."""
    value: Any = parsed
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None
