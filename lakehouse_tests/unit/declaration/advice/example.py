"""One error of a declaration, and the declarations of users who follow its advice."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakehouse.declaration import Promise, Topic, Upkeep
from lakehouse_tests.unit.declaration.ratings import (
    TableFactory,
    with_check,
    with_column,
    with_columns,
    with_computed,
    with_measure,
    with_rollup,
)


@dataclass(frozen=True)
class Accepted:
    """An accepted declaration, and the row that it decodes from a record, apart from the id and the time."""

    make_table: TableFactory
    record: Mapping[str, Any]
    row: Mapping[str, Any]
    other_parts: Mapping[str, Any] = field(default_factory=dict)


def accept(make_table: TableFactory, record: Mapping[str, Any], **row: Any) -> Accepted:
    """A declaration that decodes these values from a record."""
    return Accepted(make_table, record, row)


class Example:
    """A refused declaration with its message and advice, then one declaration for each way to follow the advice."""

    def __init__(self, message: str, advice: str, refused_table: TableFactory, *ways: TableFactory | Accepted) -> None:
        self.message, self.advice, self.refused_table = message, advice, refused_table
        self.ways: Sequence[Accepted] = [way if isinstance(way, Accepted) else accept(way, {}) for way in ways]


def reads(raw: Any, value: Any, **rules: Any) -> Accepted:
    """A column n with these rules that reads a value of a field as another."""
    return Accepted(with_column(**rules), {"n": raw}, {"n": value})


def reads_key(key: bytes, value: Any, **rules: Any) -> Accepted:
    """A column n with these rules that reads a value in a key."""
    return Accepted(with_column(**rules), {}, {"n": value}, {"key": key})


def reads_header(text: bytes, value: Any, **rules: Any) -> Accepted:
    """A column n with these rules that reads a value in the header m."""
    return Accepted(with_column(**rules), {}, {"n": value}, {"headers": {"m": text}})


def option(
    make: Callable[..., TableFactory], place: str, message: str, advice: str, *other_ways: Any, **options: Any
) -> Example:
    """An option with a list of values: the first is refused at a place, and each of the others is accepted."""
    (varied,) = (name for name, value in options.items() if isinstance(value, list))
    refused_table, *ways = (make(**options | {varied: value}) for value in options[varied])
    return Example(f"{place}{message}", advice, refused_table, *ways, *other_ways)


def sql(
    make: Callable[..., TableFactory], place: str, message: str, advice: str, texts: Sequence[str], *further: Any
) -> Example:
    """SQL: the first text, which is {} in the message, is refused, and each of the others is accepted."""
    refused_table, *ways = (make(text, *further) for text in texts)
    return Example(f"{place}{message}".replace("{}", repr(texts[0])), advice, refused_table, *ways)


of_table = partial(option, with_columns, "")
of_topic = partial(option, lambda **part: with_columns(source=Topic("ratings", **part)), "")
of_upkeep = partial(option, lambda **part: with_columns(upkeep=Upkeep(**part)), "")
of_promise = partial(option, lambda **part: with_columns(promise=Promise(**part)), "")
of_column = partial(option, with_column, "column n: ")
of_rollup = partial(option, with_rollup, "rollup by_movie: ")
of_computed = partial(sql, with_computed, "column n: ")
of_check = partial(sql, with_check, "check c: ")
of_measure = partial(sql, with_measure, "rollup r: measure m: ")


def encode_rating(record: Mapping[str, Any]) -> bytes:
    """The value of a record of the table of ratings."""
    return json.dumps({"id": 1, "time": "2026-01-31 12:00:00"} | dict(record)).encode()
