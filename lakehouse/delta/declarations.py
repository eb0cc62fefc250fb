"""What was declared, as the history of a table tells it, with what columns took that are not declared any more."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from lakehouse.declaration.facts import added, declared_again, with_former
from lakehouse.delta.layout import DECLARES
from lakehouse.delta.log import read_history

Info = Mapping[str, Any]


def declarations(history: Sequence[Info]) -> Iterator[tuple[Info, str, str]]:
    """The commits of a history that say what is declared, oldest first, with the facts before each and since."""
    before, held = "", dict[int, str]()
    for info in reversed(history):
        if said := _said_in(info):
            now = with_former(before, said)
            yield info, before, now
            before = now
        elif info.get("operation") == "RESTORE":
            before = held.get(_restored(info), "")
        held[int(info["version"])] = before


def facts_before(uri: str, stands: str, declares: str, columns: Collection[str]) -> tuple[str, set[str]]:
    """The facts that a table keeps, and which of its columns are declared now, of which nothing tells what they took.

    Where a column of the table is declared that was not before, the history is asked what it took when it was. It is
    not told of a column of somebody else, nor where the history that told it has expired.
    """
    found = added(stands, declares) & {*columns}
    untold = found - {name for name, *_ in declared_again(stands, declares)}
    if not stands or not untold:
        return stands, set()
    history = read_history(uri)
    told = [now for *_, now in declarations(history)]
    stands = with_former(told[-1] if told else "", stands)
    untold -= {name for name, *_ in declared_again(stands, declares)}
    return stands, untold if history and int(history[-1]["version"]) > 0 else set()


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
