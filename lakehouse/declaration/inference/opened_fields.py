"""Fields whose texts hold objects as JSON: they are opened, so that columns are proposed for the fields within."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import Path
from lakehouse.decoding.json_parsing import JsonOptions, parse_json

_MAX_NAMES, _MAX_LEVELS = 1_000, 5


def open_fields(objects: Sequence[dict[str, Any]], options: JsonOptions, path: Path = ()) -> Iterator[str]:
    """Replace texts by the objects that they hold, in fields where every text holds one; yield the fields' paths."""
    names = dict.fromkeys(name for content in objects for name in content)
    for name in islice(names, _MAX_NAMES if len(path) < _MAX_LEVELS else 0):
        parents = [content for content in objects if content.get(name) is not None]
        values = [parent[name] for parent in parents]
        if values and all(isinstance(value, str) for value in values):
            values = _objects_in(values, options)
            for parent, value in zip(parents, values, strict=False):
                parent[name] = value
            if values:
                yield ".".join((*path, name))
        if values and all(isinstance(value, dict) for value in values):
            yield from open_fields(values, options, (*path, name))


def _objects_in(texts: Sequence[str], options: JsonOptions) -> list[dict[str, Any]]:
    """Return the object that each text holds; empty if one of them holds none, or if no object has a field."""
    objects: list[dict[str, Any]] = []
    for text in texts:
        try:
            content = parse_json(text, options) if text.lstrip()[:1] == "{" else None
        except Rejection:
            content = None
        if not isinstance(content, dict):
            return []
        objects.append(content)
    return objects if any(objects) else []
