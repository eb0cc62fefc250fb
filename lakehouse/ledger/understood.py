"""Stops at commits of lakehouse that this process cannot read: skipping one would resume from an older progress."""

from collections.abc import Iterable, Mapping
from typing import Any

from lakehouse.errors import LedgerError
from lakehouse.ledger.commit_infos import UnreadableMetadata, metadata_of
from lakehouse.ledger.commits import VERSION

OLDER = "was written by a lakehouse before 0.1.0"
LOAD_AGAIN = (
    "Continue with the lakehouse that wrote it, or load the table again: move aside and keep the folders of all tables"
    " of its declaration, load the base files, and merge. Records that the topic no longer holds, and the recorded"
    " changes, are only in the old folders."
)


def require_readable(history: Iterable[Mapping[str, Any]], uri: str) -> None:
    """Raise ``LedgerError`` if the metadata of a lakehouse commit is newer, older or damaged."""
    for info in history:
        metadata = metadata_of(info)
        if not isinstance(metadata, UnreadableMetadata):
            continue
        if metadata.is_newer:
            raise LedgerError(
                f"Version {info['version']} was committed by a newer lakehouse (metadata {metadata.metadata};"
                f" this process reads {VERSION})",
                where=uri,
                action="Upgrade this process to the version of lakehouse that wrote it; nothing was changed.",
            )
        if metadata.is_older:
            versions = f"metadata {metadata.metadata}; this process reads {VERSION}"
            message = f"Version {info['version']} of the table {OLDER} ({versions})"
            raise LedgerError(message, where=uri, action=LOAD_AGAIN)
        raise LedgerError(
            f"The metadata of the commit of version {info['version']} cannot be read ({metadata.problem}): another"
            " lakehouse wrote it, or it is damaged",
            where=f"{uri}/_delta_log/{info['version']:020d}.json",
            action="Use the lakehouse that wrote it, or restore an older backup; nothing was changed.",
        )
