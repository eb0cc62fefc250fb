"""Commits of ours that this process has to understand: to pass one over would be to go on at an older progress."""

from collections.abc import Iterable, Mapping
from typing import Any

from lakehouse.errors import LedgerError
from lakehouse.ledger.commits import VERSION, NotUnderstood, said_by

OLDER = "was written by a lakehouse before 0.1.0"
LOAD_AGAIN = (
    "Go on with the lakehouse that wrote it, or load the table again: move aside and keep the folders of all tables of"
    " its declaration, load the base files, and merge. What the topic no longer holds, and the changes that were told,"
    " are only in the old folders."
)


def require_understood(history: Iterable[Mapping[str, Any]], uri: str) -> None:
    """Raise ``LedgerError`` where a commit of ours is not understood: a newer one, an older one, or a damaged one."""
    for info in history:
        said = said_by(info)
        if not isinstance(said, NotUnderstood):
            continue
        if said.is_newer:
            raise LedgerError(
                f"Version {info['version']} was committed by a newer lakehouse (metadata {said.metadata};"
                f" this process understands {VERSION})",
                where=uri,
                action="Upgrade this process to the version of lakehouse that wrote it; nothing was changed.",
            )
        if said.is_older:
            forms = f"metadata {said.metadata}; this process reads {VERSION}"
            fact = f"Version {info['version']} of the table {OLDER} ({forms})"
            raise LedgerError(fact, where=uri, action=LOAD_AGAIN)
        raise LedgerError(
            f"What the commit of version {info['version']} says of itself cannot be read ({said.problem}): another"
            " lakehouse wrote it, or it is damaged",
            where=f"{uri}/_delta_log/{info['version']:020d}.json",
            action="Use the lakehouse that wrote it, or bring back a backup from before; nothing was changed.",
        )
