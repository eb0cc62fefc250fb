"""Finds the versions of a table that changed no row, so that derived tables can skip them."""

from collections.abc import Iterable, Mapping
from typing import Any

from lakehouse.ledger.commit_infos import entry_of, metadata_of
from lakehouse.ledger.commits import Upkeep

_OPERATIONS = ("OPTIMIZE", "VACUUM START", "VACUUM END")  # they change no row, no matter which program runs them
_KINDS = ("maintenance", "purge", "rewrite", "acceptance", "wait")  # lakehouse commits that change no row


def unchanged_versions(history: Iterable[Mapping[str, Any]]) -> frozenset[int]:
    """Return the versions that changed no row, according to their operation or to a later lakehouse commit."""
    unchanged: set[int] = set()
    for info in history:
        version, metadata, entry = int(info["version"]), metadata_of(info), entry_of(info)
        if entry and entry.commit.rows_version is not None:
            unchanged.update(range(entry.commit.rows_version + 1, entry.commit.table_version + 1))
        keeps_rows = str(info.get("operation")) in _OPERATIONS or (entry and entry.commit.kind in _KINDS)
        if keeps_rows or isinstance(metadata, Upkeep):
            unchanged.add(version)
    return frozenset(unchanged)
