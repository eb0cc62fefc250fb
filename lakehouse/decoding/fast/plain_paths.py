"""The values at the path of a field in many parsed records."""

from operator import itemgetter
from typing import Any


def values_at(objects: list[dict[str, Any]], names: tuple[str, ...]) -> list[Any]:
    """The value at a path of names in each object; ``None`` if there is none."""
    first_name, *inner_names = names
    try:
        values = list(map(itemgetter(first_name), objects))
    except KeyError:
        values = [obj.get(first_name) for obj in objects]
    for name in inner_names:
        values = [value.get(name) if type(value) is dict else _null_or_invalid(value) for value in values]
    return values


def _null_or_invalid(outer: Any) -> Any:
    """The value inside something that is not an object: null inside a null, else one that no column accepts."""
    return None if outer is None else ()
