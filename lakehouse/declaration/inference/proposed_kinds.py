"""The types of records that were seen, where there are several: of one key, one would overwrite the other."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakehouse.declaration.inference.proposed_key import columns_told, value_at
from lakehouse.declaration.vocabulary import Column

_SAYS_TYPE = re.compile(
    r"(.*_)?(type|kind|event|event_name|action|op|operation|record|class|schema|entity|object|table)"
)
_MOST_KINDS, _MOST_NAMED, _LONGEST = 20, 4, 40


def seen_kinds(columns: Sequence[Column], objects: Sequence[dict[str, Any]], *, typed: bool = False) -> str | None:
    """The types of records by a field that tells them, else by their fields, in words; ``None`` where there is one.

    Where records are ``typed``, fields that some lack tell of versions of their schema.
    """
    values = columns_told(columns, objects)
    for column in (each for each in columns if each.type == "STRING" and _SAYS_TYPE.fullmatch(each.name)):
        kinds, path = defaultdict[str | None, list[set[str]]](list), column.field.names
        for each, told in zip(objects, values, strict=True):
            kinds[value_at(each, path)].append(told)
        if 1 < len(kinds) <= _MOST_KINDS and _differ(kinds.values()):
            named = ", ".join(f"{_shown(kind)} ({len(of_it):,})" for kind, of_it in kinds.items())
            return f"by {column.field.source!r}: {named}"
    return None if typed else _by_fields(columns_told(columns, objects, null=True))


def _differ(kinds: Iterable[Sequence[set[str]]]) -> bool:
    """Whether all records of one kind tell a column that none of another one tells."""
    always, ever = zip(*((set.intersection(*each), set.union(*each)) for each in kinds), strict=True)
    return any(some - others for some in always for others in ever)


def _by_fields(told: Sequence[set[str]]) -> str | None:
    """Groups of columns of which each record tells those of one: no record tells columns of two."""
    group: dict[str, set[str]] = {}
    always = set.intersection(*told) if told else set()
    seen = [each - always for each in told]
    if not all(seen):
        return None
    for there in {frozenset(each) for each in seen}:
        merged = set(there).union(*(group.get(name, set()) for name in there))
        group |= dict.fromkeys(merged, merged)
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
