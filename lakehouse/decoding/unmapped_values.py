"""The values of a record that no column takes: what is left of its fields, in one object.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Field
from lakehouse.decoding.record_parts import VALUE

Tree = dict[str | None, Any]
"""By the name of a field, what columns take of its value: ``True`` for everything, else by the names of its fields.

``None`` is the name of each item of an array or a map.
"""


class TakenFields(NamedTuple):
    """What columns take of the fields of a record; ``renamed`` may be read under their former name instead."""

    tree: Tree
    renamed: tuple[Field, ...]

    def of(self, parsed: Mapping[str, Any]) -> Tree:
        """What columns take of one record: a former name only if the current one is missing."""
        former_fields = [field for field in self.renamed if _is_missing(parsed, field.place.names)]
        if not former_fields:
            return self.tree
        tree = deepcopy(self.tree)
        for field in former_fields:
            _take(tree, field.place.former, field)
        return tree


def taken_fields(fields: Iterable[Field]) -> TakenFields:
    """Return what the columns of these fields take."""
    value_fields = [field for field in fields if field.place.part == VALUE]
    tree: Tree = {}
    for field in value_fields:
        _take(tree, field.place.names, field)
    return TakenFields(tree, tuple(field for field in value_fields if field.place.former))


def _take(tree: Tree, path: Sequence[str], field: Field) -> None:
    """Add what the column of a field takes at a path."""
    *outer_names, name = path
    for outer_name in outer_names:
        inner_tree = tree.setdefault(outer_name, {})
        if inner_tree is True:
            return
        tree = inner_tree
    _add(tree, name, _taken_of(field))


def _is_missing(parsed: Mapping[str, Any], path: Sequence[str]) -> bool:
    """Whether an object on the path has no field of the next name."""
    value: Any = parsed
    for name in path:
        if not isinstance(value, dict):
            return False
        if name not in value:
            return True
        value = value[name]
    return False


def _taken_of(field: Field) -> Any:
    """What a column takes of a value; only structs leave something."""
    if field.type.startswith("STRUCT"):
        return {inner.name: _taken_of(inner) for inner in field.inner}
    if field.inner and (item := _taken_of(field.inner[0])) is not True:
        return {None: item}
    return True


def _add(tree: Tree, name: str, value: Any) -> None:
    """Add what one column takes of a field to what others take of it."""
    known_value = tree.get(name)
    if value is True or known_value is True:
        tree[name] = True
    elif known_value is None:
        tree[name] = value
    else:
        for inner_name, inner_value in value.items():
            _add(known_value, inner_name, inner_value)


def left_values(parsed: Mapping[str, Any], taken_parts: TakenFields) -> dict[str, Any] | None:
    """Return what columns leave of the fields of a record; ``None`` if they leave nothing.

    An array keeps the places of its items: an item of which nothing is left is an empty object.
    """
    return dict(_left_fields(parsed, taken_parts.of(parsed))) or None


def _left_fields(values: Mapping[str, Any], tree: Tree) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        inner_taken = tree.get(name, tree.get(None, False))
        left = value if inner_taken is False else _left_of(value, inner_taken)
        if inner_taken is False or left:
            yield name, left


def _left_of(value: Any, tree: Any) -> Any:
    """What is left of an object or an array; nothing of any other value."""
    if tree is True:
        return None
    if isinstance(value, dict):
        return dict(_left_fields(value, tree)) or None
    if isinstance(value, list) and None in tree:
        left_items = [_left_of(item, tree[None]) or {} for item in value]
        return left_items if any(left_items) else None
    return None
