"""What a declaration says as plain facts: kept in the table, so that it can be told what a later one changes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from lakehouse.declaration.table_parts import TableParts
from lakehouse.declaration.vocabulary import Check, Column
from lakehouse.decoding.nested_types import as_spark_says

Facts = Mapping[str, Mapping[str, str]]
"""By part (``column pieces``, ``check few``, ``table``): what is said of it, by word."""

_WHOLE = "table"
_OF_TABLE = ("format", "partition_by", "version", "order", "late", "gaps", "cluster_by")
_SAYS_NOTHING = ("name", "doc", "widened_from")  # of the rows to come
_TAKES = "takes"
_COLUMN = "column "
_FORMER = "former "
"""Before a part: it is no longer declared, and its values stand in the table."""


def facts_of(table: TableParts) -> str:
    """What decides which rows a table gets, as JSON; documentation, samples and limits of a batch do not."""
    whole = {name: _word(getattr(table, name)) for name in _OF_TABLE}
    framed = {"framed": "True"} if table.format.framed else {}
    told: dict[str, dict[str, str]] = {_WHOLE: whole | framed}
    told |= {f"{_COLUMN}{column.name}": _of_column(column) for column in table.columns}
    told |= {f"check {check.name}": _said(check, Check) for check in table.checks}
    return json.dumps(told, sort_keys=True)


def with_former(before: str, now: str) -> str:
    """The facts of a declaration, and beside them those of columns that were declared before it and are not any more.

    ``before`` are the facts, with such, of the declaration before it. Nothing where nothing is declared.
    """
    was, is_ = read_facts(before), read_facts(now)
    gone = {part.removeprefix(_FORMER): said for part, said in was.items()}
    left = {_FORMER + part: said for part, said in gone.items() if part.startswith(_COLUMN) and part not in is_}
    return json.dumps({**is_, **left}, sort_keys=True) if is_ else now


def declared_again(before: str, now: str) -> Iterator[tuple[str, str, bool]]:
    """Columns that are declared again: the name, what it took when it was declared, and whether it takes that now."""
    was, is_ = read_facts(before), read_facts(now)
    for part in sorted(is_):
        if (former := was.get(_FORMER + part)) is not None and part not in was:
            took = former.get("sql") or _path(former, _TAKES)
            yield part.removeprefix(_COLUMN), took, _is_of(former, is_[part])


def differences(before: str, now: str) -> Iterator[tuple[str, str]]:
    """What one declaration says otherwise than the one before it: the part, and a sentence about it."""
    was, is_ = (
        {part: said for part, said in read_facts(each).items() if not part.startswith(_FORMER)}
        for each in (before, now)
    )
    again = {f"{_COLUMN}{name}": (took, same) for name, took, same in declared_again(before, now)}
    for part in sorted({*was, *is_}):
        if part in again:
            took, same = again[part]
            fact = "is declared again" if same else f"is declared again and took {took} before"
            yield part, f"{part} {fact}: rows that no record replaced since then hold their values of before"
        elif part not in was:
            yield part, f"{part} is new"
        elif part not in is_:
            stays = ": its values stay until newer records replace their rows" if part.startswith(_COLUMN) else ""
            yield part, f"{part} is no longer declared{stays}"
        else:
            for word in sorted({*was[part], *is_[part]}):
                old, new = was[part].get(word, "not said"), is_[part].get(word, "not said")
                if old != new:
                    yield part, f"{part}: {word} was {old}, is {new}"


def renamed(before: str, now: str) -> Iterator[tuple[str, str]]:
    """Columns that are gone, each with a new one that takes just what it took, or did formerly."""
    was, is_ = (
        {part.removeprefix(_COLUMN): said for part, said in read_facts(each).items() if part.startswith(_COLUMN)}
        for each in (before, now)
    )
    for gone in sorted({*was} - {*is_}):
        for new in sorted({*is_} - {*was}):
            if _is_of(was[gone], is_[new]):
                yield gone, new


def _is_of(was: Mapping[str, str], is_: Mapping[str, str]) -> bool:
    """Whether a column takes just what another took, or did formerly."""
    took, same_sql = _path(was, _TAKES), was.get("sql") == is_.get("sql")
    taken = [_path(is_, word) for word in (_TAKES, "formerly")]
    return same_sql and (took == taken[0] or bool(took and took == taken[1]))


def _path(said: Mapping[str, str], word: str) -> str:
    """What a column takes, the same for a name and for a path of that name alone; nothing where it says nothing."""
    told = said.get(word, "")
    return told[1:-1] if told.startswith("[") and "," not in told else told


def read_facts(text: str) -> Facts:
    """The facts that a table keeps; none where what it keeps is not of this form."""
    try:
        told = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(told, dict) or not all(isinstance(said, dict) for said in told.values()):
        return {}
    return {str(part): {str(word): str(value) for word, value in said.items()} for part, said in told.items()}


def _of_column(column: Column) -> dict[str, str]:
    said = _said(column, Column) | {"type": as_spark_says(column.type)}
    said.pop("source", None)
    return said if column.sql else said | {_TAKES: _word(column.source or column.name)}


def _said(part: Any, kind: type[Any]) -> dict[str, str]:
    """What is said of a part beyond what goes without saying."""
    words = [each for each in fields(kind) if each.name not in _SAYS_NOTHING]
    return {each.name: _word(value) for each in words if (value := getattr(part, each.name)) != each.default}


def _word(value: object) -> str:
    """A value as it is written, the same for a list and a tuple."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(_word(each) for each in value)}]"
    return repr(value)
