"""The key that is proposed for records: columns of ids that identify each record."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from lakehouse.declaration.columns import Column
from lakehouse.declaration.inference.proposed_types import is_rounded, stored_time
from lakehouse.decoding.deletes import value_at

_ID = re.compile(r"(.*_)?(id|key|uuid|guid)")
_MESSAGE_ID = re.compile(
    r"(.*_)?(tx|txn|trx|xact|transaction|trace|span|request|correlation|batch)_?(id|key|uuid|guid)"
)
TIME_LIKE = re.compile(
    r"\d{4}[-/.]?\d\d[-/.]?\d\d([T ].*)?|\d\d?[-/.]\d\d?[-/.]\d{4}( .*)?|\w{3}, \d\d? \w{3} \d{4}.*"
    r"|1\d{9}(\d{3}|\d{6}|\d{9})?"
)
EVENT_IDENTITY = ("source", "id")
"""The attributes that identify an event of CloudEvents together."""
EVENT_ATTRIBUTES = ("specversion", "type", *EVENT_IDENTITY)
"""The attributes that every event has."""
_EVENTS = "The records are CloudEvents. Each event is identified by its source and its id, so these are the key."
_MAX_KEY_COLUMNS, _MAX_CANDIDATES = 3, 12
_LOG_TABLE = "so the table is a log table, in which each record is a row"


def proposed_key(columns: Sequence[Column], objects: Sequence[dict[str, Any]], warnings: list[str]) -> tuple[str, ...]:
    """The ids that identify every record, together with a time if needed; empty if no key can be justified.

    A number, a string or a time might identify records by chance, and an id of a transaction or a request only
    identifies how they were sent. With a wrong key, newer records overwrite older ones; a log table loses nothing.
    """
    required_names = {column.name for column in columns if column.required}
    if objects and all(map(is_event, objects)) and {*EVENT_IDENTITY} <= required_names:
        warnings.append(_EVENTS)
        return EVENT_IDENTITY
    distinct_objects = [*{repr(content): content for content in objects}.values()]
    ids = [column for column in columns if column.required and _is_entity_id(column, objects)]
    ids.sort(key=lambda column: (column.name != "id", len(column.field.place.names)))
    key = _justified_key(ids[:_MAX_CANDIDATES], columns, distinct_objects, warnings)
    names = tuple(column.name for column in columns if column in key)
    if names:
        warnings.append(f"The key is {', '.join(names)}, judging by these records. Check that it identifies a row.")
    return names


def is_event(content: Mapping[str, Any]) -> bool:
    """Whether an object has the attributes of an event of CloudEvents."""
    return all(isinstance(content.get(name), str) for name in EVENT_ATTRIBUTES)


def is_event_time(column: Column) -> bool:
    """Whether the column of an event is the time when it happened, as a text."""
    return column.field.place.names == ("time",) and column.type == "TIMESTAMP" and column.time.pattern is not None


def _justified_key(
    ids: Sequence[Column], columns: Sequence[Column], distinct_objects: Sequence[dict[str, Any]], warnings: list[str]
) -> Sequence[Column]:
    unique_ids = [column for column in ids if _are_unique([column], distinct_objects)]
    if unique_ids:
        if unique_ids[0].name == "id" or len(unique_ids) == 1:
            return unique_ids[:1]
        reason = (
            f"Each of {_join_names(unique_ids)} identifies these records, but they do not show which one is the key"
        )
    elif not ids:
        reason = "No field that every record has is named as an id of what the record is about"
    else:
        times = [column for column in columns if column.required and column.type in ("TIMESTAMP", "DATE")]
        times = [time for time in times if not is_rounded(time, _values_of(time, distinct_objects))]
        candidates = [key for count in range(2, _MAX_KEY_COLUMNS + 1) for key in combinations(ids, count)]
        candidates += [(*ids, time) for time in times if len(ids) < _MAX_KEY_COLUMNS]
        key = next((candidate for candidate in candidates if _are_unique(candidate, distinct_objects)), ())
        repeats = f"{ids[0].name} repeats. If records with the same one are updates, it alone is the key."
        if key or (ids[0].name == "id" and not _would_lose_values(ids[0], columns, distinct_objects)):
            warnings += [repeats] if key[1:] and len(ids) == 1 else []
            warnings += (
                [] if key else ["id repeats. Its records are treated as updates, of which the newest is the row."]
            )
            return key or ids[:1]
        reason = (
            f"{_join_names(ids)} do not identify these records, or some have no field that others of the same id have"
        )
    warnings.append(f"{reason}, {_LOG_TABLE}. If some fields identify a row, name them as the key.")
    return ()


def present_columns(
    columns: Sequence[Column], objects: Sequence[dict[str, Any]], *, null: bool = False
) -> list[set[str]]:
    """The columns for which each record has a value; with ``null`` also those for which it has an explicit null."""
    paths = [(column.name, column.field.place.names) for column in columns]
    if not null:
        return [{name for name, path in paths if value_at(content, path) is not None} for content in objects]
    return [{name for name, path in paths if _has_field(content, path)} for content in objects]


def _has_field(content: Any, path: tuple[str, ...]) -> bool:
    container = value_at(content, path[:-1])
    return isinstance(container, dict) and path[-1] in container


def is_id(name: str) -> bool:
    """Whether a column has the name of an id."""
    return _ID.fullmatch(name) is not None


def are_like_times(texts: Iterable[str]) -> bool:
    """Whether texts look like times, as people and programs write them."""
    return all(map(TIME_LIKE.fullmatch, texts))


def _is_entity_id(column: Column, objects: Sequence[dict[str, Any]]) -> bool:
    """Whether a column is named as the id of what a record is about, and its values may be ids."""
    if not is_id(column.name) or _MESSAGE_ID.fullmatch(column.name):
        return False
    if column.type == "STRING":
        texts = [value_at(content, column.field.place.names) for content in objects]
        return all(text.isdigit() for text in texts) or not are_like_times(texts)
    return column.type in ("INT", "BIGINT") or column.type.endswith(",0)")


def _are_unique(columns: Sequence[Column], distinct_objects: Sequence[dict[str, Any]]) -> bool:
    values = [[stored_time(value, column) for value in _values_of(column, distinct_objects)] for column in columns]
    return len(set(zip(*values, strict=True))) == len(distinct_objects)


def _values_of(column: Column, objects: Sequence[dict[str, Any]]) -> list[Any]:
    return [value_at(content, column.field.place.names) for content in objects]


def _would_lose_values(key: Column, columns: Sequence[Column], distinct_objects: Sequence[dict[str, Any]]) -> bool:
    """Whether a record has no field for a value of an earlier record of its key, and would overwrite it with NULL."""
    stored_names: dict[Any, set[str]] = {}
    keys = [value_at(content, key.field.place.names) for content in distinct_objects]
    with_values = present_columns(columns, distinct_objects)
    with_fields = present_columns(columns, distinct_objects, null=True)
    for key_value, value_names, field_names in zip(keys, with_values, with_fields, strict=True):
        if not stored_names.get(key_value, set()) <= field_names:
            return True
        stored_names[key_value] = value_names
    return False


def _join_names(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns)
