"""The fields of records: their paths, and their values."""

from collections.abc import Sequence
from typing import Any

from lakehouse.declaration.inference.proposed_key import value_at
from lakehouse.declaration.inference.proposed_types import has_free_names
from lakehouse.decoding.formats.format import Path

MAX_FIELDS = 1_000
"""Maximum number of fields that are examined: more are keys of a map that is written as fields."""
_MAX_LEVELS = 5  # of nested objects


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
