"""The fields of records, and whether the records are of several types."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from shlex import quote
from typing import Any, NamedTuple

from lakehouse.declaration.columns import Column
from lakehouse.declaration.inference.proposed_forms import least_common, show_texts
from lakehouse.declaration.inference.proposed_key import present_columns
from lakehouse.declaration.inference.proposed_types import has_free_names, holds_user_names
from lakehouse.decoding.deletes import value_at
from lakehouse.decoding.fields import Rejection, UnrepresentableValue
from lakehouse.decoding.formats.format import Path
from lakehouse.decoding.json_parsing import JsonOptions, parse_json
from lakehouse.decoding.numbers import number_in

MAX_FIELDS = 1_000
"""Maximum number of fields that are examined: more are keys of a map that is written as fields."""
_MAX_NAMES, _MAX_LEVELS = 1_000, 5  # of an object, and of nested objects
_BOOLEANS = {"true": True, "false": False}
_HOLDS_JSON = "Field {!r} is a text that holds JSON{}. Its fields are read by their paths, like those of an object.{}"
_OTHERS = " Records in which it holds none, such as {}, are then rejected."
_TYPE_COLUMN = re.compile(
    r"(.*_)?(type|kind|event|event_name|action|op|operation|record|class|schema|entity|object|table)"
)
_MAX_KINDS, _MAX_SHOWN, _MAX_LENGTH = 20, 4, 40


def field_paths(objects: Sequence[dict[str, Any]]) -> list[Path]:
    """The paths of the fields of all records, in the order of their first occurrence, up to the maximum.

    A field that contains only objects is replaced by the fields within them.
    """
    paths: dict[Path, None] = dict.fromkeys((name,) for content in objects for name in content)
    for _ in range(_MAX_LEVELS - 1):
        paths = dict.fromkeys(inner for path in list(paths)[:MAX_FIELDS] for inner in _inner_paths(path, objects))
    return list(paths)[:MAX_FIELDS]


def _inner_paths(path: Path, objects: Sequence[dict[str, Any]]) -> list[Path]:
    values = values_at(path, objects)
    names = dict.fromkeys(name for value in values if isinstance(value, dict) for name in value)
    if not names or not all(isinstance(value, dict) for value in values):
        return [path]
    return [path] if has_free_names(path[-1], values) else [(*path, name) for name in names]


def values_at(path: Path, objects: Sequence[dict[str, Any]]) -> list[Any]:
    """The values of records at a path, without nulls."""
    return [value for content in objects if (value := value_at(content, path)) is not None]


def read_texts(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records with numbers and booleans for texts, in the fields whose texts all write one."""
    names = dict.fromkeys(name for content in objects for name in content)
    readers = {name: _reader([content[name] for content in objects if content.get(name) is not None]) for name in names}
    return [
        {name: text if text is None else readers[name](text) for name, text in content.items()} for content in objects
    ]


def _reader(texts: Sequence[str]) -> Callable[[str], Any]:
    """What reads all of these texts."""
    if all(text in _BOOLEANS for text in texts):
        return _BOOLEANS.__getitem__
    if not any(isinstance(number_in(text), UnrepresentableValue | None) for text in texts):
        return number_in
    return str


def open_fields(objects: Sequence[dict[str, Any]], options: JsonOptions, path: Path = ()) -> Iterator[str]:
    """Replace texts by the objects that they hold, in fields where nearly every text holds one; yield what to know.

    A text that holds none becomes null.
    """
    names = dict.fromkeys(name for content in objects for name in content)
    for name in islice(names, _MAX_NAMES if len(path) < _MAX_LEVELS else 0):
        parents = [content for content in objects if content.get(name) is not None]
        values = [parent[name] for parent in parents]
        if values and all(isinstance(value, str) for value in values):
            texts, values = values, _objects_in(values, options)
            for parent, value in zip(parents, values, strict=False):
                parent[name] = value
            if values:
                yield _advice((*path, name), texts, values)
            values = [value for value in values if value is not None]
        if values and all(isinstance(value, dict) for value in values):
            yield from open_fields(values, options, (*path, name))


def _objects_in(texts: Sequence[str], options: JsonOptions) -> list[dict[str, Any] | None]:
    """Return the object that each text holds; empty if many of them hold none, or if no object has a field."""
    objects = [_object_in(text, options) for text in texts]
    count = sum(content is not None for content in objects)
    return objects if any(objects) and (count == len(texts) or count >= least_common(len(texts))) else []


def _object_in(text: str, options: JsonOptions) -> dict[str, Any] | None:
    try:
        content = parse_json(text, options) if text.lstrip()[:1] == "{" else None
    except Rejection:
        return None
    return content if isinstance(content, dict) else None


def _advice(path: Path, texts: Sequence[str], objects: Sequence[dict[str, Any] | None]) -> str:
    odd_texts = [text for text, content in zip(texts, objects, strict=True) if content is None]
    if not odd_texts:
        return _HOLDS_JSON.format(".".join(path), "", "")
    counts = f" in {len(texts) - len(odd_texts):,} of {len(texts):,} records"
    return _HOLDS_JSON.format(".".join(path), counts, _OTHERS.format(show_texts(odd_texts)))


class Kinds(NamedTuple):
    """The types of records in words, and the option that chooses the records of one of them; empty if none does."""

    text: str
    condition: str = ""


def seen_kinds(columns: Sequence[Column], objects: Sequence[dict[str, Any]], *, is_typed: bool = False) -> Kinds | None:
    """The types of records, by the field that divides them best or by their fields; ``None`` if there is only one.

    If records are ``is_typed`` by schemas, missing fields only indicate versions of their schema.
    """
    present = present_columns(columns, objects)
    candidates = [
        (column, _records_by_kind(column, objects, present)) for column in _likely_type_columns(columns, objects)
    ]
    divisions = [(column, kinds) for column, kinds in candidates if _are_types(column, columns, kinds)]
    if divisions:
        column, kinds = min(divisions, key=lambda division: _rest(division[1].values()))
        counts = ", ".join(f"{_show_kind(kind)} ({len(records):,})" for kind, records in kinds.items())
        source, chosen_kind = column.field.source, _chosen_kind(kinds)
        can_choose = chosen_kind is not None and source.isprintable()
        condition = f"--where {quote(source)}={quote(chosen_kind or '')}" if can_choose else ""
        return Kinds(f"by {source!r}: {counts}", condition)
    fixed_columns = [column for column in columns if not any(map(holds_user_names, column.field.place.names[:-1]))]
    by_fields = None if is_typed else _by_fields(present_columns(fixed_columns, objects, null=True))
    return Kinds(by_fields) if by_fields else None


def _records_by_kind(
    column: Column, objects: Sequence[dict[str, Any]], present: Sequence[set[str]]
) -> dict[str | None, list[set[str]]]:
    """The other columns that the records of each kind have; the values of a column are the kinds."""
    kinds = defaultdict[str | None, list[set[str]]](list)
    for content, names in zip(objects, present, strict=True):
        kinds[value_at(content, column.field.place.names)].append(names - {column.name})
    return kinds


def _are_types(column: Column, columns: Sequence[Column], kinds: Mapping[str | None, Sequence[set[str]]]) -> bool:
    """Whether kinds have columns of their own, other than those of the object that contains the column."""
    path = column.field.place.names
    siblings = {sibling.name for sibling in columns if len(path) > 1 and sibling.field.place.names[:-1] == path[:-1]}
    outer_columns = [[names - siblings for names in records] for records in kinds.values()]
    return 1 < len(kinds) <= _MAX_KINDS and _have_own_columns(outer_columns)


def _rest(kinds: Collection[Sequence[set[str]]]) -> int:
    """How much of the columns of records their kinds leave open; each kind counts as much as a record.

    That is the number of columns that differ within kinds, over all records, and of those that differ at all, over all
    kinds.
    """
    unions = [set.union(*records) for records in kinds]
    open_columns = sum(len(union - names) for records, union in zip(kinds, unions, strict=True) for names in records)
    shared_by_all = set.intersection(*(names for records in kinds for names in records))
    return open_columns + len(kinds) * len(set.union(*unions) - shared_by_all)


def _chosen_kind(kinds: Mapping[str | None, Sequence[set[str]]]) -> str | None:
    """The most common kind that a person can type; ``None`` if there is none."""
    names = [kind for kind in kinds if kind and kind.isprintable()]
    return max(names, key=lambda name: len(kinds[name]), default=None)


def _likely_type_columns(columns: Sequence[Column], objects: Sequence[dict[str, Any]]) -> list[Column]:
    """Return the columns that may name the type of a record, outer ones first; all records have an inner one."""
    candidates = [column for column in columns if column.type == "STRING" and _TYPE_COLUMN.fullmatch(column.name)]
    paths = {column.name: column.field.place.names for column in candidates}
    missing = {name: sum(value_at(content, path) is None for content in objects) for name, path in paths.items()}
    likely = [column for column in candidates if len(paths[column.name]) == 1 or not missing[column.name]]
    return sorted(likely, key=lambda column: (missing[column.name], len(paths[column.name])))


def _have_own_columns(kinds: Iterable[Sequence[set[str]]]) -> bool:
    """Whether all records of one kind have a column that no record of another kind has."""
    common_to_all, present_in_any = zip(
        *((set.intersection(*records), set.union(*records)) for records in kinds), strict=True
    )
    return any(common_names - other_names for common_names in common_to_all for other_names in present_in_any)


def _by_fields(present: Sequence[set[str]]) -> str | None:
    """Groups of columns, in words: each record has columns of one group only; ``None`` if there is one group."""
    groups: dict[str, set[str]] = {}
    shared_by_all = set.intersection(*present) if present else set()
    distinguishing_names = [names - shared_by_all for names in present]
    if not all(distinguishing_names):
        return None
    for names in {frozenset(names) for names in distinguishing_names}:
        joined_names = set(names).union(*(groups.get(name, set()) for name in names))
        groups |= dict.fromkeys(joined_names, joined_names)
    counts = Counter(min(groups[min(names)]) for names in distinguishing_names)
    shown_counts = "; ".join(f"{_show_names(groups[first])} ({records:,})" for first, records in counts.items())
    return None if len(counts) < 2 or len(counts) > _MAX_KINDS else f"by their fields: {shown_counts}"


def _show_names(names: Iterable[str]) -> str:
    first, *other_names = [name[:_MAX_LENGTH] for name in sorted(names)]
    omitted_text = f" and {len(other_names) + 1 - _MAX_SHOWN} more" if len(other_names) >= _MAX_SHOWN else ""
    return ", ".join([first, *other_names[: _MAX_SHOWN - 1]]) + omitted_text


def _show_kind(kind: str | None) -> str:
    return "none" if kind is None else ascii(kind[:_MAX_LENGTH])
