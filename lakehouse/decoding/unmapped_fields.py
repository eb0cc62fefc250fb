"""Fields of records that no column takes: which there are, and in how many records, so that none goes unseen."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from lakehouse.decoding.fields import Field
from lakehouse.decoding.record_parts import VALUE

_FEW, _MOST = 8, 1_000  # names that are asked for one by one, and that are told
_LONGEST = 100  # characters of a name; records whose names are values may have any
_MOST_COUNTED = 200_000  # names that are looked at, of a record and of all; one takes some hundred bytes
Path = tuple[str, ...]
Step = str | None
"""A name, or what leads to each item of an array or a map."""
Objects = Sequence[dict[str, Any]]


def others_in(objects: Objects, fields: Iterable[Field]) -> Counter[str]:
    """Count the records that have each field of which no column takes anything; names within others by their path.

    What is inside of a field that no column takes is not looked at; of arrays and maps every item is, ``[]`` in the
    path. Where there are very many, those of most records are told; names as long as nobody reads that begin alike
    are one.
    """
    named = ((names, field) for field in fields if field.part == VALUE for names in (field.names, field.former))
    taken = [path for names, field in named if names for path in _steps_taken(names, field)]
    found = Counter[str]()
    for path, inside in _looked_into(objects, taken):
        for name, many in _counted(inside, _known(path, taken)):
            found[_named((*path, name))] += many
    return found


def taken_paths(names: Path, field: Field) -> Iterator[Path]:
    """The names that lead to what a column takes: of a struct, to each of its fields."""
    if field.type.startswith("STRUCT"):
        for each in field.inner:
            yield from taken_paths((*names, each.name), each)
    else:
        yield names


def _steps_taken(steps: tuple[Step, ...], field: Field) -> Iterator[tuple[Step, ...]]:
    """What leads to what a column takes: also to each field of the structs in its arrays and maps."""
    struct = field.type.startswith("STRUCT")
    inner = [each for each in field.inner if struct or each.inner]
    for each in inner:
        yield from _steps_taken((*steps, each.name if struct else None), each)
    if not inner:
        yield steps


def _counted(objects: Objects, known: set[Step]) -> Iterable[tuple[str, int]]:
    """How many of the objects have each name that is not known: few are asked for, of many everything is counted."""
    if sum(map(len, objects)) > _MOST_COUNTED:
        return _most_common(objects, known)
    names = set().union(*objects) - known
    if len(names) <= _FEW:
        return [(name, sum(name in each for each in objects)) for name in names]
    counts = Counter(chain.from_iterable(objects))
    return islice(((name, many) for name, many in counts.most_common() if name in names), _MOST)


def _most_common(objects: Objects, known: set[Step]) -> list[tuple[str, int]]:
    """The same of so many names that counting all of them takes much memory: seldom ones are forgotten on the way."""
    counts = Counter[str]()
    for each in objects:
        if known.issuperset(each):
            continue
        counts.update(name for name in islice(each, _MOST_COUNTED) if name not in known)
        if len(counts) > _MOST_COUNTED:
            counts = Counter(dict(counts.most_common(10 * _MOST)))
    return counts.most_common(_MOST)


def _looked_into(objects: Objects, taken: Sequence[tuple[Step, ...]]) -> Iterator[tuple[tuple[Step, ...], Objects]]:
    """The objects, and those within them from which columns take fields, with what leads there."""
    yield (), objects
    whole = set(taken)
    for path in dict.fromkeys(steps[:depth] for steps in taken for depth in range(1, len(steps)) if steps[depth]):
        if not whole.isdisjoint(path[:depth] for depth in range(1, len(path) + 1)):
            continue
        if None not in path:
            yield path, _through(objects, path)
        elif _has_others(_through_items(objects, path), path, taken):
            yield path, [names for each in objects if (names := dict.fromkeys(chain(*_through_items([each], path))))]


def _through(objects: Iterable[Any], path: Iterable[Step]) -> list[dict[str, Any]]:
    """What stands where names lead, of those that are objects."""
    inside: Iterable[Any] = objects
    for name in path:
        inside = [inner for each in inside if isinstance(inner := each.get(name), dict)]
    return list(inside)


def _through_items(objects: Iterable[Any], path: Iterable[Step]) -> list[dict[str, Any]]:
    """All objects to which steps lead, through arrays and maps."""
    inside: Iterable[Any] = objects
    for step in path:
        if step is None:
            inside = chain.from_iterable(each.values() if type(each) is dict else each for each in inside)
        else:
            inside = [each.get(step) for each in inside if type(each) is dict]
        inside = [each for each in inside if type(each) in (dict, list)]
    return [each for each in inside if type(each) is dict]


def _has_others(found: Objects, path: tuple[Step, ...], taken: Iterable[tuple[Step, ...]]) -> bool:
    """Whether there may be a name among them that no column takes: mostly there is none."""
    return sum(map(len, found)) > _MOST_COUNTED or not set().union(*found) <= _known(path, taken)


def _known(path: tuple[Step, ...], taken: Iterable[tuple[Step, ...]]) -> set[Step]:
    """The names there by which columns take something."""
    return {steps[len(path)] for steps in taken if steps[: len(path)] == path and len(steps) > len(path)}


def _named(path: Iterable[Step]) -> str:
    shown = ""
    for step in path:
        name = "[]" if step is None else f"`{_short(step)}`" if "." in step or "[" in step else _short(step)
        shown += name if step is None or not shown else f".{name}"
    return shown.encode("utf-8", "replace").decode()


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
