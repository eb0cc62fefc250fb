"""How the declaration of a merged table changed, as its own history records it, without a JVM."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakehouse.declaration import StreamTable
from lakehouse.declaration.snapshot import differences
from lakehouse.ledger.commit_infos import committed_at
from lakehouse.ledger.log import open_table, read_history
from lakehouse.settings import Settings
from lakehouse.storage.layout import DECLARATION_PROPERTY

Info = Mapping[str, Any]


@dataclass(frozen=True)
class Redeclaration:
    """A version that was written with a changed declaration, and the differences from the declaration before."""

    version: int
    committed_at: datetime
    changes: tuple[str, ...]


def list_redeclarations(settings: Settings, table: StreamTable) -> list[Redeclaration]:
    """All changes of the declaration in the table's history, oldest first; empty if the table does not exist."""
    uri = settings.table_uri(table.name)
    return list(_changes(read_history(uri))) if open_table(uri) else []


def _changes(history: Sequence[Info]) -> Iterator[Redeclaration]:
    for info, previous_declaration, current_declaration in _declarations(history):
        changes = (
            tuple(text for _, text in differences(previous_declaration, current_declaration))
            if previous_declaration
            else ()
        )
        if changes:
            yield Redeclaration(int(info["version"]), committed_at(info), changes)


def _declarations(history: Sequence[Info]) -> Iterator[tuple[Info, str, str]]:
    """The commits that record a declaration, oldest first, each with the previous and the current declaration."""
    declaration, declarations_by_version = "", dict[int, str]()
    for info in reversed(history):
        if recorded_declaration := _recorded_declaration(info):
            yield info, declaration, recorded_declaration
            declaration = recorded_declaration
        elif info.get("operation") == "RESTORE":
            declaration = declarations_by_version.get(_restored_version(info), "")
        declarations_by_version[int(info["version"])] = declaration


def _restored_version(info: Info) -> int:
    """The version that a RESTORE restored; -1 if it was given a timestamp."""
    version = str((info.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdecimal() else -1


def _recorded_declaration(info: Info) -> str:
    """The declaration that a commit records; empty if it records none."""
    parameter = (info.get("operationParameters") or {}).get("properties")
    try:
        properties = json.loads(parameter) if isinstance(parameter, str) else parameter
    except ValueError:
        return ""
    return str(properties.get(DECLARATION_PROPERTY, "")) if isinstance(properties, dict) else ""
