"""The types of records in a sample, if there are several: with a common key, one type would overwrite the other."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from shlex import quote
from typing import Any, NamedTuple

from lakehouse.declaration.columns import Column
from lakehouse.declaration.inference.proposed_key import present_columns, value_at
from lakehouse.declaration.inference.proposed_types import holds_user_names

_TYPE_COLUMN = re.compile(
    r"(.*_)?(type|kind|event|event_name|action|op|operation|record|class|schema|entity|object|table)"
)
_MAX_KINDS, _MAX_SHOWN, _MAX_LENGTH = 20, 4, 40


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
    fixed_columns = [column for column in columns if not any(map(holds_user_names, column.field.names[:-1]))]
    by_fields = None if is_typed else _by_fields(present_columns(fixed_columns, objects, null=True))
    return Kinds(by_fields) if by_fields else None


def _records_by_kind(
    column: Column, objects: Sequence[dict[str, Any]], present: Sequence[set[str]]
) -> dict[str | None, list[set[str]]]:
    """The other columns that the records of each kind have; the values of a column are the kinds."""
    kinds = defaultdict[str | None, list[set[str]]](list)
    for content, names in zip(objects, present, strict=True):
        kinds[value_at(content, column.field.names)].append(names - {column.name})
    return kinds


def _are_types(column: Column, columns: Sequence[Column], kinds: Mapping[str | None, Sequence[set[str]]]) -> bool:
    """Whether kinds have columns of their own, other than those of the object that contains the column."""
    path = column.field.names
    siblings = {sibling.name for sibling in columns if len(path) > 1 and sibling.field.names[:-1] == path[:-1]}
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
    paths = {column.name: column.field.names for column in candidates}
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
    return None if len(counts) < 2 or len(counts) > _MAX_KINDS else f"by their fields: {_show_counts(counts, groups)}"


def _show_counts(counts: Mapping[str, int], groups: Mapping[str, set[str]]) -> str:
    return "; ".join(f"{_show_names(groups[first])} ({records:,})" for first, records in counts.items())


def _show_names(names: Iterable[str]) -> str:
    first, *other_names = [name[:_MAX_LENGTH] for name in sorted(names)]
    omitted_text = f" and {len(other_names) + 1 - _MAX_SHOWN} more" if len(other_names) >= _MAX_SHOWN else ""
    return ", ".join([first, *other_names[: _MAX_SHOWN - 1]]) + omitted_text


def _show_kind(kind: str | None) -> str:
    return "none" if kind is None else ascii(kind[:_MAX_LENGTH])
