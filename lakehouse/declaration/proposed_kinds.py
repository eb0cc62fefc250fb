"""The types of records that were seen, where there are several: of one key, one would overwrite the other."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakehouse.declaration.proposed_key import has_field, value_at
from lakehouse.declaration.vocabulary import Column

_SAYS_TYPE = re.compile(
    r"(.*_)?(type|kind|event|event_name|action|op|operation|record|class|schema|entity|object|table)"
)
_MOST_KINDS, _MOST_NAMED, _LONGEST = 20, 4, 40
Objects = Sequence[dict[str, Any]]


def seen_kinds(columns: Sequence[Column], objects: Objects, *, typed: bool = False) -> str | None:
    """The types of records by a field that tells them, else by their fields, in words; ``None`` where there is one.

    Where records are ``typed``, fields that some lack tell of versions of their schema.
    """
    for column in columns:
        if column.type == "STRING" and _SAYS_TYPE.fullmatch(column.name):
            kinds = defaultdict[str | None, list[dict[str, Any]]](list)
            for each in objects:
                kinds[value_at(each, column.field.names)].append(each)
            if 1 < len(kinds) <= _MOST_KINDS and _differ(kinds.values(), columns):
                told = ", ".join(f"{_shown(kind)} ({len(of_it):,})" for kind, of_it in kinds.items())
                return f"by {column.field.source!r}: {told}"
    return None if typed else _by_fields(columns, objects)


def _differ(kinds: Iterable[Objects], columns: Sequence[Column]) -> bool:
    """Whether all records of one kind have a field that none of another one has."""
    held = [
        [{c.name for c in columns if value_at(each, c.field.names) is not None} for each in of_it] for of_it in kinds
    ]
    always, ever = [set.intersection(*each) for each in held], [set.union(*each) for each in held]
    return any(some - others for some in always for others in ever)


def _by_fields(columns: Sequence[Column], objects: Objects) -> str | None:
    """Groups of fields of which each record has those of one: no record has fields of two."""
    group: dict[str, set[str]] = {}
    optional = [column for column in columns if not all(has_field(each, column.field.names) for each in objects)]
    seen: list[set[str]] = []
    for each in objects:
        there = {column.name for column in optional if has_field(each, column.field.names)}
        if not there:
            return None
        merged = there.union(*(group.get(name, set()) for name in there))
        group |= dict.fromkeys(merged, merged)
        seen.append(there)
    many = Counter(min(group[min(there)]) for there in seen)
    return None if len(many) < 2 or len(many) > _MOST_KINDS else f"by their fields: {_counted(many, group)}"


def _counted(many: Mapping[str, int], group: Mapping[str, set[str]]) -> str:
    return "; ".join(f"{_named(group[first])} ({records:,})" for first, records in many.items())


def _named(names: Iterable[str]) -> str:
    first, *others = [each[:_LONGEST] for each in sorted(names)]
    more = f" and {len(others) + 1 - _MOST_NAMED} more" if len(others) >= _MOST_NAMED else ""
    return ", ".join([first, *others[: _MOST_NAMED - 1]]) + more


def _shown(kind: str | None) -> str:
    return "none" if kind is None else ascii(kind[:_LONGEST])
