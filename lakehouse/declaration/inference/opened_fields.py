"""Fields whose texts hold objects as JSON: they are opened, so that columns are proposed for the fields within."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from lakehouse.declaration.inference.odd_values import least_common, show_texts
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import Path
from lakehouse.decoding.json_parsing import JsonOptions, parse_json

_MAX_NAMES, _MAX_LEVELS = 1_000, 5
_HOLDS_JSON = "Field {!r} is a text that holds JSON{}. Its fields are read by their paths, like those of an object.{}"
_OTHERS = " Records in which it holds none, such as {}, are then rejected."


def open_fields(objects: Sequence[dict[str, Any]], options: JsonOptions, path: Path = ()) -> Iterator[str]:
    """Replace texts by the objects that they hold, in fields where nearly every text holds one; yield what to know.

    A text that holds none becomes null.
    """
    names = dict.fromkeys(name for content in objects for name in content)
    for name in islice(names, _MAX_NAMES if len(path) < _MAX_LEVELS else 0):
        parents = [content for content in objects if content.get(name) is not None]
        values = [parent[name] for parent in parents]
        if values and all(isinstance(value, str) for value in values):
            texts, values = values, _objects_in(values, options)
            for parent, value in zip(parents, values, strict=False):
                parent[name] = value
            if values:
                yield _advice((*path, name), texts, values)
            values = [value for value in values if value is not None]
        if values and all(isinstance(value, dict) for value in values):
            yield from open_fields(values, options, (*path, name))


def _objects_in(texts: Sequence[str], options: JsonOptions) -> list[dict[str, Any] | None]:
    """Return the object that each text holds; empty if many of them hold none, or if no object has a field."""
    objects = [_object_in(text, options) for text in texts]
    count = sum(content is not None for content in objects)
    return objects if any(objects) and (count == len(texts) or count >= least_common(len(texts))) else []


def _object_in(text: str, options: JsonOptions) -> dict[str, Any] | None:
    try:
        content = parse_json(text, options) if text.lstrip()[:1] == "{" else None
    except Rejection:
        return None
    return content if isinstance(content, dict) else None


def _advice(path: Path, texts: Sequence[str], objects: Sequence[dict[str, Any] | None]) -> str:
    odd_texts = [text for text, content in zip(texts, objects, strict=True) if content is None]
    if not odd_texts:
        return _HOLDS_JSON.format(".".join(path), "", "")
    counts = f" in {len(texts) - len(odd_texts):,} of {len(texts):,} records"
    return _HOLDS_JSON.format(".".join(path), counts, _OTHERS.format(show_texts(odd_texts)))
