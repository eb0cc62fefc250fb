"""Finds the commit that an attempt made, to learn whether it succeeded."""

from lakehouse.ledger.commit_infos import entry_of
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.ledger import read_ledger
from lakehouse.ledger.log import read_commit


def find_attempt(uri: str, name: str, attempt: str) -> Entry | None:
    """Return the entry that an attempt committed; ``None`` if it did not commit."""
    return next((entry for entry in read_ledger(uri, name).entries if entry.commit.attempt == attempt), None)


def find_commit(uri: str, name: str, commit: Commit) -> Entry | None:
    """Return the entry of a commit that was just made; ``None`` if the commit is not valid.

    A commit directly after the version on which it was planned is valid, regardless of the rest of the history.
    """
    version = commit.table_version + 1
    info = read_commit(uri, version)
    entry = entry_of(info | {"version": version}) if info else None
    return entry if entry and entry.commit.attempt == commit.attempt else find_attempt(uri, name, commit.attempt)
