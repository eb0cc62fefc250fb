"""What the merged table's own history tells of how its declaration changed; without a JVM."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakehouse.declaration import StreamTable
from lakehouse.declaration.facts import differences
from lakehouse.delta.commits import committed_at
from lakehouse.delta.layout import DECLARES
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
    before, held = "", dict[int, str]()
    for info in reversed(history):
        version, now = int(info["version"]), _said_in(info)
        changes = tuple(fact for _, fact in differences(before, now)) if before and now else ()
        if changes:
            yield Redeclared(version, committed_at(info), changes)
        before = held.get(_restored(info), "") if info.get("operation") == "RESTORE" else now or before
        held[version] = before


def _restored(info: Mapping[str, Any]) -> int:
    """The version that a RESTORE put back; -1 where it names a moment."""
    version = str((info.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdecimal() else -1


def _said_in(info: Mapping[str, Any]) -> str:
    """What was declared, where a commit says so; nothing where it does not."""
    given = (info.get("operationParameters") or {}).get("properties")
    try:
        properties = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return ""
    return str(properties.get(DECLARES, "")) if isinstance(properties, dict) else ""
