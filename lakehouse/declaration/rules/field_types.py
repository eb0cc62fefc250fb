"""Whether every part of a declaration has the type that its field declares: checked before all rules that rely on it.

A list or tuple can be read again and has an order, unlike a generator, a set or a single string.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from reprlib import repr as shortened
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lakehouse.declaration.columns import Column, Computed
from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.formats import FORMAT_KINDS, Format

_LISTS = (Sequence, tuple)
_UNIONS = (UnionType, Union)  # the second is the origin of a union with a Literal
_NOUNS: dict[Any, str] = {str: "a string", bool: "True or False", int: "an integer", float: "a number"}
_NOUNS |= {Mapping: "a dict"}
_NOUNS |= dict.fromkeys(_LISTS, "a list or tuple")


def field_problems(part: Any, prefix: str = "") -> Iterator[Problem]:
    """Values of other types than their fields declare, in this part and the parts that it contains."""
    classes = (cls for cls in type(part).__mro__ if cls.__module__.startswith("lakehouse."))
    declared_class = next(filter(is_dataclass, classes), None)
    if declared_class is None:  # a format that a project adds, which checks its own fields
        return
    hints = get_type_hints(declared_class)
    for field in fields(declared_class):
        value, hint = getattr(part, field.name), hints[field.name]
        if get_origin(hint) in _UNIONS:
            kinds = [kind for kind in get_args(hint) if kind is not type(None)]
            matching = [kind for kind in kinds if _fits(value, kind, get_origin(kind) or kind)]
            if value is None and type(None) in get_args(hint):
                continue
            if not matching:
                nouns = _any_of([_noun(kind, get_origin(kind) or kind) for kind in kinds])
                yield f"{prefix}{field.name} must be {nouns}, not {shortened(value)}", f"Declare {nouns}."
                continue
            hint = matching[0]
        yield from _value_problems(value, hint, prefix, field.name)


def _value_problems(value: Any, hint: Any, prefix: str, name: str) -> Iterator[Problem]:
    kind = get_origin(hint) or hint
    if not _fits(value, hint, kind):
        noun = _noun(hint, kind)
        yield f"{prefix}{name} must be {noun}, not {shortened(value)}", f"Declare {noun}."
    elif kind in _UNIONS:
        matching = next(inner for inner in get_args(hint) if _fits(value, inner, get_origin(inner) or inner))
        yield from _value_problems(value, matching, prefix, name)
    elif is_dataclass(kind) or kind is Format:
        yield from field_problems(value, f"{prefix}{name}: ")
    elif kind is Sequence:
        (item_type,) = get_args(hint)
        for item in value:
            item_kind = Column if isinstance(item, Computed) else type(item)
            is_unnamed = not _fits(item, item_type, get_origin(item_type) or item_type) or not _has_name(item)
            item_name = f"{name}: each item" if is_unnamed else _part_name(item_kind, item.name)
            yield from _value_problems(item, item_type, prefix, item_name)
    elif kind is Mapping:
        key_type, item_type = get_args(hint)
        key_name = f"{name}: each {'name' if key_type is str else 'key'}"
        for key, item in value.items():
            yield from _value_problems(key, key_type, prefix, key_name)
            item_name = _part_name(item_type, key) if is_dataclass(item_type) else f"{name}: each value"
            yield from _value_problems(item, item_type, prefix, item_name)


def _has_name(item: object) -> bool:
    return is_dataclass(item) and hasattr(item, "name")


def _part_name(kind: Any, name: object) -> str:
    return f"{kind.__name__.lower()} {name}"


def _fits(value: Any, hint: Any, kind: Any) -> bool:
    if kind is Literal:
        return value in get_args(hint)
    if kind in _UNIONS:
        return any(_fits(value, inner, get_origin(inner) or inner) for inner in get_args(hint))
    if kind in _LISTS:
        return isinstance(value, list | tuple)
    if kind is float:
        kind = int | float
    if kind is date:
        return type(value) is date  # a datetime is a date in Python, but has a time and a zone
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _noun(hint: Any, kind: Any) -> str:
    if kind is Literal:
        return _any_of(get_args(hint))
    if kind in _UNIONS:
        return _any_of([_noun(inner, get_origin(inner) or inner) for inner in get_args(hint)])
    if kind is Format:
        return _any_of([*map(_with_article, FORMAT_KINDS)])
    return _NOUNS.get(kind) or _with_article(kind)


def _any_of(nouns: Sequence[str]) -> str:
    """The alternatives: a, b or c."""
    return " or ".join(filter(None, [", ".join(nouns[:-1]), nouns[-1]]))


def _with_article(kind: type[Any]) -> str:
    return f"{'an' if kind.__name__.startswith((*'AEIOU', 'Hour')) else 'a'} {kind.__name__}"
