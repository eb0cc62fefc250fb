"""The fields of records: their paths, their values, and what texts among them hold."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from lakehouse.declaration.inference.proposed_forms import least_common, show_texts
from lakehouse.declaration.inference.proposed_key import value_at
from lakehouse.declaration.inference.proposed_types import has_free_names
from lakehouse.decoding.fields import Rejection, UnrepresentableValue
from lakehouse.decoding.formats.format import Path
from lakehouse.decoding.json_parsing import JsonOptions, parse_json
from lakehouse.decoding.numbers import number_in

MAX_FIELDS = 1_000
"""Maximum number of fields that are examined: more are keys of a map that is written as fields."""
_MAX_NAMES, _MAX_LEVELS = 1_000, 5  # of an object, and of nested objects
_BOOLEANS = {"true": True, "false": False}
_HOLDS_JSON = "Field {!r} is a text that holds JSON{}. Its fields are read by their paths, like those of an object.{}"
_OTHERS = " Records in which it holds none, such as {}, are then rejected."


def field_paths(objects: Sequence[dict[str, Any]]) -> list[Path]:
    """The paths of the fields of all records, in the order of their first occurrence, up to the maximum.

    A field that contains only objects is replaced by the fields within them.
    """
    paths: dict[Path, None] = dict.fromkeys((name,) for content in objects for name in content)
    for _ in range(_MAX_LEVELS - 1):
        paths = dict.fromkeys(inner for path in list(paths)[:MAX_FIELDS] for inner in _inner_paths(path, objects))
    return list(paths)[:MAX_FIELDS]


def _inner_paths(path: Path, objects: Sequence[dict[str, Any]]) -> list[Path]:
    values = values_at(path, objects)
    names = dict.fromkeys(name for value in values if isinstance(value, dict) for name in value)
    if not names or not all(isinstance(value, dict) for value in values):
        return [path]
    return [path] if has_free_names(path[-1], values) else [(*path, name) for name in names]


def values_at(path: Path, objects: Sequence[dict[str, Any]]) -> list[Any]:
    """The values of records at a path, without nulls."""
    return [value for content in objects if (value := value_at(content, path)) is not None]


def read_texts(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records with numbers and booleans for texts, in the fields whose texts all write one."""
    names = dict.fromkeys(name for content in objects for name in content)
    readers = {name: _reader([content[name] for content in objects if content.get(name) is not None]) for name in names}
    return [
        {name: text if text is None else readers[name](text) for name, text in content.items()} for content in objects
    ]


def _reader(texts: Sequence[str]) -> Callable[[str], Any]:
    """What reads all of these texts."""
    if all(text in _BOOLEANS for text in texts):
        return _BOOLEANS.__getitem__
    if not any(isinstance(number_in(text), UnrepresentableValue | None) for text in texts):
        return number_in
    return str


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
