"""The key that is proposed for records: ids that tell one of them from another, and nothing else."""

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from lakehouse.declaration.vocabulary import Column

_ID = re.compile(r"(.*_)?(id|key|uuid|guid)")
_OF_A_MESSAGE = re.compile(
    r"(.*_)?(tx|txn|trx|xact|transaction|trace|span|request|correlation|batch)_?(id|key|uuid|guid)"
)
_LIKE_A_TIME = re.compile(
    r"\d{4}[-/.]?\d\d[-/.]?\d\d([T ].*)?|\d\d?[-/.]\d\d?[-/.]\d{4}( .*)?|\w{3}, \d\d? \w{3} \d{4}.*"
    r"|1\d{9}(\d{3}|\d{6}|\d{9})?"
)
_MOST_IN_KEY, _MOST_TRIED = 3, 12  # columns of a key, and ids of which it may be
_A_LOG = "so each record is a row, in a log table"


def proposed_key(columns: Sequence[Column], objects: Sequence[dict[str, Any]], doubts: list[str]) -> tuple[str, ...]:
    """The ids that tell all records apart, if need be with a time; none where no key can be justified.

    A number, a text or a time might tell records apart by chance, and an id of a transaction or a request by how they
    were sent: of the same key the newer record would overwrite the older one, while a log table loses nothing.
    """
    different = [*{repr(each): each for each in objects}.values()]
    ids = [column for column in columns if column.required and _is_of_a_thing(column, objects)]
    ids.sort(key=lambda column: (column.name != "id", len(column.field.names)))
    key = _justified(ids[:_MOST_TRIED], columns, different, doubts)
    names = tuple(column.name for column in columns if column in key)
    if names:
        doubts.append(
            f"The key is {', '.join(names)}, as these records have it: check that it tells one row from another."
        )
    return names


def _justified(
    ids: Sequence[Column], columns: Sequence[Column], different: Sequence[dict[str, Any]], doubts: list[str]
) -> Sequence[Column]:
    alone = [column for column in ids if _tell_apart([column], different)]
    if alone:
        if alone[0].name == "id" or len(alone) == 1:
            return alone[:1]
        which = f"{_listed(alone)} each tell these records apart, and which of them is the key they do not tell"
    elif not ids:
        which = "No field that every record has is named as the id of a thing"
    else:
        times = [column for column in columns if column.required and column.type in ("TIMESTAMP", "DATE")]
        together = [some for count in range(2, _MOST_IN_KEY + 1) for some in combinations(ids, count)]
        together += [(*ids, time) for time in times if len(ids) < _MOST_IN_KEY]
        found = next((some for some in together if _tell_apart(some, different)), ())
        repeats = f"{ids[0].name} repeats: where records of one are updates of each other, it is the key by itself."
        if found or (ids[0].name == "id" and not _lacks_what_was_told(ids[0], columns, different)):
            doubts += [repeats] if found[1:] and len(ids) == 1 else []
            doubts += (
                [] if found else ["id repeats: its records are taken for updates, of which the newest is the row."]
            )
            return found or ids[:1]
        which = f"{_listed(ids)} do not tell these records apart, or some lack fields that others of the same id have"
    doubts.append(f"{which}, {_A_LOG}: where some fields tell one row from another, name them as the key.")
    return ()


def value_at(parsed: Any, path: Sequence[str]) -> Any:
    """The value to which the names lead; ``None`` where there is none."""
    for name in path:
        parsed = parsed.get(name) if isinstance(parsed, dict) else None
    return parsed


def columns_told(columns: Sequence[Column], objects: Sequence[dict[str, Any]], *, null: bool = False) -> list[set[str]]:
    """The columns of which each record tells a value; with ``null`` also those of which it tells that there is none."""
    paths = [(column.name, column.field.names) for column in columns]
    if not null:
        return [{name for name, path in paths if value_at(each, path) is not None} for each in objects]
    return [{name for name, path in paths if _has_field(each, path)} for each in objects]


def _has_field(parsed: Any, path: Sequence[str]) -> bool:
    *outer, last = path
    within = value_at(parsed, outer)
    return isinstance(within, dict) and last in within


def is_id(name: str) -> bool:
    """Whether a column is named as what tells one thing from another."""
    return _ID.fullmatch(name) is not None


def are_like_times(texts: Iterable[str]) -> bool:
    """Whether texts look like times, as people and programs write them."""
    return all(map(_LIKE_A_TIME.fullmatch, texts))


def _is_of_a_thing(column: Column, objects: Sequence[dict[str, Any]]) -> bool:
    """Whether a column is named as the id of what a record is about, and its values may be ids."""
    if not is_id(column.name) or _OF_A_MESSAGE.fullmatch(column.name):
        return False
    if column.type == "STRING":
        texts = [value_at(each, column.field.names) for each in objects]
        return all(text.isdigit() for text in texts) or not are_like_times(texts)
    return column.type in ("INT", "BIGINT") or column.type.endswith(",0)")


def _tell_apart(some: Sequence[Column], different: Sequence[dict[str, Any]]) -> bool:
    paths = [column.field.names for column in some]
    return len({tuple(value_at(each, path) for path in paths) for each in different}) == len(different)


def _lacks_what_was_told(key: Column, columns: Sequence[Column], different: Sequence[dict[str, Any]]) -> bool:
    """Whether a record lacks a field that one of the same key before it has, which it would overwrite with NULL."""
    stored: dict[Any, set[str]] = {}
    which = [value_at(each, key.field.names) for each in different]
    told = columns_told(columns, different), columns_told(columns, different, null=True)
    for one, values, there in zip(which, *told, strict=True):
        if not stored.get(one, set()) <= there:
            return True
        stored[one] = values
    return False


def _listed(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns)
