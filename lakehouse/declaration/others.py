"""Fields of records that no column takes: which there are, and in how many records, so that none goes unseen."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from lakehouse.declaration.fields import Field
from lakehouse.declaration.parts import VALUE

_FEW, _MOST = 8, 1_000  # names that are asked for one by one, and that are told
_LONGEST = 100  # characters of a name; records whose names are values may have any
Path = tuple[str, ...]


def others_in(objects: Sequence[dict[str, Any]], fields: Iterable[Field]) -> Counter[str]:
    """Count the records that have each field of which no column takes anything; names within others by their path.

    What is inside of a field that no column takes is not looked at, nor what is in arrays and maps. Where there are
    very many, those of most records are told; those whose names are as long as nobody reads, and begin alike, are one.
    """
    named = ((names, field) for field in fields if field.part == VALUE for names in (field.names, field.former))
    taken = [path for names, field in named if names for path in taken_paths(names, field)]
    found = Counter[str]()
    for path, inside in _looked_into(objects, taken):
        known = {names[len(path)] for names in taken if names[: len(path)] == path and len(names) > len(path)}
        for name, many in _counted(inside, set().union(*inside) - known):
            found[_named((*path, name))] += many
    return found


def taken_paths(names: Path, field: Field) -> Iterator[Path]:
    """The names that lead to what a column takes: of a struct, to each of its fields."""
    if field.type.startswith("STRUCT"):
        for each in field.inner:
            yield from taken_paths((*names, each.name), each)
    else:
        yield names


def _counted(objects: Sequence[dict[str, Any]], names: set[str]) -> Iterable[tuple[str, int]]:
    """How many of the objects have each of the names: a few are asked for, of many everything is counted."""
    if len(names) <= _FEW:
        return ((name, sum(name in each for each in objects)) for name in names)
    counts = Counter(chain.from_iterable(objects))
    return islice(((name, many) for name, many in counts.most_common() if name in names), _MOST)


def _looked_into(
    objects: Sequence[dict[str, Any]], taken: Sequence[Path]
) -> Iterable[tuple[Path, Sequence[dict[str, Any]]]]:
    """The objects, and those within them from which columns take fields, with the names that lead there."""
    yield (), objects
    for path in dict.fromkeys(names[:depth] for names in taken for depth in range(1, len(names))):
        if path in taken:  # as a whole
            continue
        inside: Sequence[Any] = objects
        for name in path:
            inside = [inner for each in inside if isinstance(inner := each.get(name), dict)]
        yield path, inside


def _named(path: Path) -> str:
    shown = ".".join(f"`{name}`" if "." in name else name for name in path)
    shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
    return shown.encode("utf-8", "replace").decode()
