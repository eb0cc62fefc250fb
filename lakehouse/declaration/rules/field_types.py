"""Whether every part of a declaration is of the type that its field names: asked before the rules that rely on it.

A list can be read again and has an order: a generator, a set or one text is none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from reprlib import repr as shortened
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.formats import FORMATS, Format

_LISTS = (Sequence, tuple)
_UNIONS = (UnionType, Union)  # as it is written; as one with a Literal is read
_NOUNS: dict[Any, str] = {str: "text", bool: "True or False", int: "a whole number", float: "a number"}
_NOUNS |= {Mapping: "a dict"}
_NOUNS |= dict.fromkeys(_LISTS, "a list or tuple")


def field_problems(part: Any, whose: str = "") -> Iterator[Problem]:
    """What is not of the type that its field names, in this part and in the parts of it."""
    classes = (each for each in type(part).__mro__ if each.__module__.startswith("lakehouse."))
    ours = next(filter(is_dataclass, classes), None)
    if ours is None:  # a format that a project adds, whose fields are its own
        return
    hints = get_type_hints(ours)
    for field in fields(ours):
        value, hint = getattr(part, field.name), hints[field.name]
        if get_origin(hint) in _UNIONS:
            kinds = [each for each in get_args(hint) if each is not type(None)]
            fit = [each for each in kinds if _fits(value, each, get_origin(each) or each)]
            if value is None and type(None) in get_args(hint):
                continue
            if not fit:
                nouns = " or ".join(_noun(each, get_origin(each) or each) for each in kinds)
                yield f"{whose}{field.name} is {nouns}, and not {shortened(value)}", f"Declare {nouns}."
                continue
            hint = fit[0]
        yield from _problems(value, hint, whose, field.name)


def _problems(value: Any, hint: Any, whose: str, name: str) -> Iterator[Problem]:
    kind = get_origin(hint) or hint
    if not _fits(value, hint, kind):
        noun = _noun(hint, kind)
        yield f"{whose}{name} is {noun}, and not {shortened(value)}", f"Declare {noun}."
    elif is_dataclass(kind) or kind is Format:
        yield from field_problems(value, f"{whose}{name}: ")
    elif kind is Sequence:
        (item,) = get_args(hint)
        for each in value:
            called = f"{name}: each" if item is str or not _fits(each, item, item) else _called(item, each.name)
            yield from _problems(each, item, whose, called)
    elif kind is Mapping:
        _, item = get_args(hint)
        for key, each in value.items():
            yield from _problems(key, str, whose, f"{name}: each name")
            yield from _problems(each, item, whose, _called(item, key))


def _called(kind: Any, name: object) -> str:
    return f"{kind.__name__.lower()} {name}"


def _fits(value: Any, hint: Any, kind: Any) -> bool:
    if kind is Literal:
        return value in get_args(hint)
    if kind in _LISTS:
        return isinstance(value, list | tuple)
    if kind is float:
        kind = int | float
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _noun(hint: Any, kind: Any) -> str:
    if kind is Literal:
        return " or ".join(get_args(hint))
    if kind is Format:
        return " or ".join(dict.fromkeys(_with_article(type(each)) for each in FORMATS))
    return _NOUNS.get(kind) or _with_article(kind)


def _with_article(kind: type[Any]) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
