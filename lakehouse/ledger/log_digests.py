"""Shows whether an entry of a log was replaced: each commit of rows names a digest of the entry it was planned on.

Delta's default for S3, and its rename on a local disk, can replace an entry without an error. The commit that is
lost then must not be hidden by the next one. A RESTORE to a version before it undoes what came since.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import TableDamagedError, restore_advice
from lakehouse.ledger.log_copies import LOG, copied_log, forget_replaced, replaced_versions
from lakehouse.ledger.log_files import Action, LogFiles, info_in
from lakehouse.ledger.restores import restored_version

if TYPE_CHECKING:
    from lakehouse.ledger.commits import Entry


def digest_of(uri: str, version: int) -> str:
    """Return the digest of a log entry as it was read last; empty if the log does not hold it."""
    with suppress(OSError):
        return sha256(Path(copied_log(uri), LOG, f"{version:020d}.json").read_bytes()).hexdigest()
    return ""


def replaced_entries(uri: str, entries: "Iterable[Entry]") -> list[int]:
    """Return the versions, among those that these valid commits were planned on, whose entry is another one now."""
    digests = ((entry.commit.table_version, entry.commit.follows) for entry in entries if entry.commit.follows)
    return [version for version, digest in digests if digest_of(uri, version) not in ("", digest)]


def require_unreplaced(uri: str, version: int, entries: "Iterable[Entry]") -> None:
    """Raise ``TableDamagedError`` if the log up to a version has an entry that is known to replace another one.

    ``entries`` are valid commits. A replaced entry that a RESTORE has undone does not count.
    """
    replaced = min(known_replaced(uri, version, entries), default=None)
    if replaced is None:
        return
    name, log = uri.rstrip("/").rpartition("/")[2], LogFiles(uri, copied_log(uri))
    writer = next((_writer(info_in(actions) or {}) for _, actions in log.commits(replaced)), "another program")
    raise TableDamagedError(
        f"Version {replaced} of {name} is not the commit that it was: {writer} replaced it, and its rows are lost",
        where=uri,
        action="Stop that writer, or give its Spark the class lakehouse.ConditionalLogStore. Restore the version before"
        f" and merge: the lost records are read again. {restore_advice(uri, replaced - 1)}",
    )


def known_replaced(uri: str, version: int, entries: "Iterable[Entry]") -> set[int]:
    """Return the versions of ``replaced_entries``, and those that this home saw replaced and no RESTORE undid."""
    return {*replaced_entries(uri, entries), *_not_undone(uri, version)}


def _not_undone(uri: str, version: int) -> Iterator[int]:
    """The versions that this home saw replaced, and that no later RESTORE undid; one that expired is forgotten."""
    for replaced in replaced_versions(uri):
        log = LogFiles(uri, copied_log(uri))
        commits = list(islice(log.commits(version), version - replaced + 1))
        if len(commits) <= version - replaced or any(_undoes(uri, *commit, replaced) for commit in commits):
            forget_replaced(uri, replaced)
        else:
            yield replaced


def _undoes(uri: str, version: int, actions: Iterable[Action], replaced: int) -> bool:
    """Whether a commit is a RESTORE to before a version."""
    info = info_in(actions) or {}
    restored = restored_version(uri, "", 0, info | {"version": version}) if info.get("operation") == "RESTORE" else None
    return restored is not None and restored < replaced


def _writer(info: Action) -> str:
    return str(info.get("engineInfo") or info.get("clientVersion") or "another program")
