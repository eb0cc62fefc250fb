"""What a commit of ours says of itself, and what Delta counted for it.

A ``Commit`` is written as the ``userMetadata`` of the commit that holds the rows. It holds all a next batch
has to know, so the newest one is enough to go on.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from lakehouse.offsets import Range

Kind = Literal["batch", "base", "replay", "redrive", "gap", "maintenance", "load", "rejected", "derived"]


class Frozen(BaseModel):
    """A value that is written as JSON and never changed."""

    model_config = ConfigDict(frozen=True)


class Source(Frozen):
    """A version of a table that a commit has consumed."""

    table_id: str
    version: int


class Totals(Frozen):
    """Sums over the batches of a table; replays and base rows do not count."""

    batches: int = 0
    read: int = 0
    rejected: int = 0
    duplicate: int = 0
    inserted: int = 0
    updated: int = 0
    stale: int = 0


class Upkeep(Frozen):
    """What a commit of ours says of itself that changes no row: compaction, vacuum, columns and properties."""

    kind: Literal["upkeep"]
    run: str


class Commit(Frozen):
    """What a commit says of itself: metadata version 1.

    ``late`` counts the late ones among the records read, whether they were rejected for it or not.
    ``progress`` holds the next offset of every partition after this commit, ``source`` the version of
    the base table (or, of a derived table, its source) merged so far, ``table_version`` the version of
    the table this commit was planned on, ``rows_version`` the newest one until then that may have changed
    a row (``None``: not told).
    """

    metadata: Literal[1] = 1
    kind: Kind
    number: int
    attempt: str
    table_version: int
    rows_version: int | None = None
    cluster_id: str | None = None
    topic: str | None = None
    topic_id: str | None = None
    ranges: tuple[Range, ...] = ()
    progress: dict[int, int] | None = None
    read: int = 0
    rejected: int = 0
    duplicate: int = 0
    late: int = 0
    totals_before: Totals = Totals()
    source: Source | None = None
    gap: tuple[Range, ...] = ()
    folder: str | None = None
    reconciled: bool = False
    declaration: str = ""
    run: str = ""


@dataclass(frozen=True)
class Metrics:
    """What Delta itself counted for a commit: rows of the MERGE's source, inserted, updated, deleted."""

    source_rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def stale(self) -> int:
        """Source rows that lost to the rows already in the table."""
        return self.source_rows - self.inserted - self.updated


@dataclass(frozen=True)
class Entry:
    """A commit of ours, with the version it made and what Delta counted."""

    version: int
    committed_at: datetime
    commit: Commit
    metrics: Metrics

    @property
    def totals(self) -> Totals:
        """The sums over all batches up to and including this one."""
        before, commit, counted = self.commit.totals_before, self.commit, self.metrics
        if commit.kind != "batch":
            return before
        return Totals(
            batches=before.batches + 1,
            read=before.read + commit.read,
            rejected=before.rejected + commit.rejected,
            duplicate=before.duplicate + commit.duplicate,
            inserted=before.inserted + counted.inserted,
            updated=before.updated + counted.updated,
            stale=before.stale + counted.stale,
        )
