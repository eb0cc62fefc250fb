"""What the merged table's own history tells of how its declaration changed; without a JVM."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakehouse.declaration import StreamTable
from lakehouse.declaration.facts import differences
from lakehouse.delta.commits import committed_at
from lakehouse.delta.declarations import declarations
from lakehouse.delta.log import open_table, read_history
from lakehouse.settings import Settings


@dataclass(frozen=True)
class Redeclared:
    """A version from which on another declaration held, and what it said otherwise than the one before."""

    version: int
    committed_at: datetime
    changes: tuple[str, ...]


def redeclared(settings: Settings, table: StreamTable) -> list[Redeclared]:
    """Every change of a declaration that the history still tells, oldest first; none where the table is not there."""
    uri = settings.table_uri(table.name)
    return list(_changes(read_history(uri))) if open_table(uri) else []


def _changes(history: Sequence[Mapping[str, Any]]) -> Iterator[Redeclared]:
    for info, before, now in declarations(history):
        changes = tuple(fact for _, fact in differences(before, now)) if before else ()
        if changes:
            yield Redeclared(int(info["version"]), committed_at(info), changes)
