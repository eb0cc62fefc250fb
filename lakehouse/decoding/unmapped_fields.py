"""Unmapped fields: fields of records that no column reads, and the number of records that have them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from lakehouse.decoding.fields import Field, Step, Steps, paths_in_value

_FEW_NAMES, _MAX_NAMES = 8, 1_000  # names that are counted one by one, and that are reported
_MAX_NAME_LENGTH = 100  # characters of a name; if names are values, they may be of any length
_MAX_COUNTED = 200_000  # names that are read, of a record and of all records; one takes some hundred bytes
_CONTAINERS = (dict, list)  # also those of opened texts
Path = tuple[str, ...]
Objects = Sequence[dict[str, Any]]


def count_unmapped(objects: Objects, fields: Iterable[Field], rows_from: Steps | None = None) -> Counter[str]:
    """Count the records that have each unmapped field; a nested field is named by its path.

    Fields inside of an unmapped field are not counted. Every item of an array or a map is read, as ``[]`` in the path.
    If there are very many names, those of most records are returned. Long names that begin alike are counted as one.
    ``rows_from`` is that of the rules.
    """
    mapped_paths = [path for steps, field in paths_in_value(fields, rows_from) for path in _mapped_steps(steps, field)]
    counts = Counter[str]()
    for path, inner_objects in _objects_to_count(objects, mapped_paths):
        for name, count in _count_names(inner_objects, _mapped_names(path, mapped_paths)):
            counts[_format_path((*path, name))] += count
    return counts


def taken_paths(names: Path, field: Field) -> Iterator[Path]:
    """The paths that a column reads: of a struct, the path of each of its fields."""
    if field.type.startswith("STRUCT"):
        for inner in field.inner:
            yield from taken_paths((*names, inner.name), inner)
    else:
        yield names


def _mapped_steps(steps: tuple[Step, ...], field: Field) -> Iterator[tuple[Step, ...]]:
    """The paths that a column reads, also those of the fields of structs in its arrays and maps."""
    is_struct = field.type.startswith("STRUCT")
    inner_fields = [inner for inner in field.inner if is_struct or inner.inner]
    for inner in inner_fields:
        yield from _mapped_steps((*steps, inner.name if is_struct else None), inner)
    if not inner_fields:
        yield steps


def _count_names(objects: Objects, mapped_names: set[Step]) -> Iterable[tuple[str, int]]:
    """Count the objects that have each unmapped name; a few names one by one, many names all together."""
    if sum(map(len, objects)) > _MAX_COUNTED:
        return _most_common_names(objects, mapped_names)
    names = set().union(*objects) - mapped_names
    if len(names) <= _FEW_NAMES:
        return [(name, sum(name in obj for obj in objects)) for name in names]
    counts = Counter(chain.from_iterable(objects))
    return islice(((name, count) for name, count in counts.most_common() if name in names), _MAX_NAMES)


def _most_common_names(objects: Objects, mapped_names: set[Step]) -> list[tuple[str, int]]:
    """Count names if there are so many that counts of all would take much memory: rare names are dropped on the way."""
    counts = Counter[str]()
    for obj in objects:
        if mapped_names.issuperset(obj):
            continue
        counts.update(name for name in islice(obj, _MAX_COUNTED) if name not in mapped_names)
        if len(counts) > _MAX_COUNTED:
            counts = Counter(dict(counts.most_common(10 * _MAX_NAMES)))
    return counts.most_common(_MAX_NAMES)


def _objects_to_count(
    objects: Objects, mapped_paths: Sequence[tuple[Step, ...]]
) -> Iterator[tuple[tuple[Step, ...], Objects]]:
    """The objects, and the nested objects from which columns read fields, each with its path."""
    yield (), objects
    whole_paths = set(mapped_paths)
    parents = (steps[:depth] for steps in mapped_paths for depth in range(1, len(steps)) if steps[depth])
    for path in dict.fromkeys(parents):
        if not whole_paths.isdisjoint(path[:depth] for depth in range(1, len(path) + 1)):
            continue
        if None not in path:
            yield path, _nested_objects(objects, path)
        elif _may_have_unmapped(_item_objects(objects, path), path, mapped_paths):
            yield path, [names for obj in objects if (names := dict.fromkeys(chain(*_item_objects([obj], path))))]


def _nested_objects(objects: Iterable[Any], path: Iterable[Step]) -> list[dict[str, Any]]:
    """The objects at a path of names."""
    inner_objects: Iterable[Any] = objects
    for name in path:
        inner_objects = [inner for obj in inner_objects if isinstance(inner := obj.get(name), dict)]
    return list(inner_objects)


def _item_objects(objects: Iterable[Any], path: Iterable[Step]) -> list[dict[str, Any]]:
    """All objects at a path that leads through arrays and maps."""
    values: Iterable[Any] = objects
    for step in path:
        if step is None:
            values = chain.from_iterable(value.values() if isinstance(value, dict) else value for value in values)
        else:
            values = [value.get(step) for value in values if isinstance(value, dict)]
        values = [value for value in values if isinstance(value, _CONTAINERS)]
    return [value for value in values if isinstance(value, dict)]


def _may_have_unmapped(objects: Objects, path: tuple[Step, ...], mapped_paths: Iterable[tuple[Step, ...]]) -> bool:
    """Whether the objects may have an unmapped name; mostly they have none."""
    return sum(map(len, objects)) > _MAX_COUNTED or not set().union(*objects) <= _mapped_names(path, mapped_paths)


def _mapped_names(path: tuple[Step, ...], mapped_paths: Iterable[tuple[Step, ...]]) -> set[Step]:
    """The names at a path that columns read, or that lead to what they read."""
    return {steps[len(path)] for steps in mapped_paths if steps[: len(path)] == path and len(steps) > len(path)}


def _format_path(path: Iterable[Step]) -> str:
    text = ""
    for step in path:
        name = "[]" if step is None else f"`{_shorten(step)}`" if "." in step or "[" in step else _shorten(step)
        text += name if step is None or not text else f".{name}"
    return text.encode("utf-8", "replace").decode()


def _shorten(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[:_MAX_NAME_LENGTH]}…"
