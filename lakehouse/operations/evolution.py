"""What the merged table's own history tells of how its declaration changed; without a JVM."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakehouse.declaration import StreamTable
from lakehouse.declaration.snapshot import differences
from lakehouse.ledger.commits import committed_at
from lakehouse.ledger.log import open_table, read_history
from lakehouse.settings import Settings
from lakehouse.storage.layout import DECLARES

Info = Mapping[str, Any]


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


def _changes(history: Sequence[Info]) -> Iterator[Redeclared]:
    for info, before, now in _declarations(history):
        changes = tuple(fact for _, fact in differences(before, now)) if before else ()
        if changes:
            yield Redeclared(int(info["version"]), committed_at(info), changes)


def _declarations(history: Sequence[Info]) -> Iterator[tuple[Info, str, str]]:
    """The commits of a history that say what is declared, oldest first, with the facts before each and since."""
    before, held = "", dict[int, str]()
    for info in reversed(history):
        if now := _said_in(info):
            yield info, before, now
            before = now
        elif info.get("operation") == "RESTORE":
            before = held.get(_restored(info), "")
        held[int(info["version"])] = before


def _restored(info: Info) -> int:
    """The version that a RESTORE put back; -1 where it names a moment."""
    version = str((info.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdecimal() else -1


def _said_in(info: Info) -> str:
    """What was declared, where a commit says so; nothing where it does not."""
    given = (info.get("operationParameters") or {}).get("properties")
    try:
        properties = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return ""
    return str(properties.get(DECLARES, "")) if isinstance(properties, dict) else ""
