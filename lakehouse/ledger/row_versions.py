"""Which versions of a table changed no row: those who follow the table have nothing to read in them."""

from collections.abc import Iterable, Mapping
from typing import Any

from lakehouse.ledger.commits import Upkeep, entry_of, said_by

_MOVE_ROWS = ("OPTIMIZE", "VACUUM START", "VACUUM END")  # operations that change no row, whoever ran them
_CARRY_ON = ("maintenance", "rewrite", "acceptance")  # commits of ours that change no row


def unchanged_versions(history: Iterable[Mapping[str, Any]]) -> frozenset[int]:
    """Return the versions that changed no row: their operation tells, or a later commit of ours says so."""
    unchanged: set[int] = set()
    for info in history:
        version, said, entry = int(info["version"]), said_by(info), entry_of(info)
        if entry and entry.commit.rows_version is not None:
            unchanged.update(range(entry.commit.rows_version + 1, entry.commit.table_version + 1))
        moves_rows = str(info.get("operation")) in _MOVE_ROWS or (entry and entry.commit.kind in _CARRY_ON)
        if moves_rows or isinstance(said, Upkeep):
            unchanged.add(version)
    return frozenset(unchanged)
