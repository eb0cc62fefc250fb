"""What a commit of ours says of itself, and what Delta counted for it.

A ``Commit`` is written as the ``userMetadata`` of the commit that holds the rows. It holds all a next batch
has to know, so the newest one is enough to go on.

Its form has a version. One process may be older than another that writes the same table: what it would not
understand, or drop when it carries the rest on, is an error to it and never somebody else's commit. So a change
that adds a field, or gives one another meaning, raises ``VERSION``. Versions before the first release are not read.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from lakehouse.ledger.positions import Range, SourceId
from lakehouse.ledger.reached import Reached

Kind = Literal[
    "batch",
    "base",
    "replay",
    "redrive",
    "gap",
    "recovery",
    "acceptance",
    "rewrite",
    "maintenance",
    "load",
    "rejected",
    "derived",
]
OF_RECORDS: Final = ("batch", "replay", "redrive")  # kinds that merge records
MERGED: Final = (*OF_RECORDS, "base")  # kinds that merge rows, and account for each of them
VERSION: Final = 8
_FIRST: Final = 8  # of the first release


class Frozen(BaseModel):
    """A value that is written as JSON and never changed; a field it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def with_fields(self, **fields: Any) -> Self:
        """The same with other values of some fields; ``ValidationError`` where a field cannot hold one."""
        return type(self)(**{**dict(self), **fields})


class Consumed(Frozen):
    """A version of a table that a commit has consumed.

    ``commit`` is the identity of the commit that made it (``None``: the log no longer held it): a table that is
    brought back from a backup goes through the same versions again.
    """

    table_id: str
    version: int
    commit: str | None = None


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

    metadata: Literal[8] = VERSION
    kind: Literal["upkeep"] = "upkeep"
    run: str


class Commit(Frozen):
    """What a commit says of itself: metadata version 8.

    ``late`` counts the late ones among the records read, rejected for it or not. Records come from ``source``, which a
    person calls ``stream``. ``progress`` holds the next position of every partition after this commit, ``consumed`` the
    version merged so far of the base table, or of the table that a derived one follows, ``table_version`` the version
    of the table this commit was planned on, ``rows_version`` the newest until then that may have changed a row
    (``None``: not told). ``reached`` tells, by source and partition, where the positions end that were ever read beside
    the progress: rows of them may be there. ``declaration`` is the hash of the one whose columns the table was given
    last: a commit without that carries the one before on. ``unaccounted`` are the versions before it that do not add up
    and were not accepted, ``accepted`` those whose differences a person accepts with it, and ``reason`` why.
    """

    metadata: Literal[8] = VERSION
    kind: Kind
    number: int
    attempt: str
    table_version: int
    rows_version: int | None = None
    stream: str | None = None
    source: SourceId | None = None
    ranges: tuple[Range, ...] = ()
    progress: dict[int, int] | None = None
    reached: Reached = {}
    read: int = 0
    rejected: int = 0
    duplicate: int = 0
    late: int = 0
    totals_before: Totals = Totals()
    consumed: Consumed | None = None
    gap: tuple[Range, ...] = ()
    folder: str | None = None
    reconciled: bool = False
    declaration: str = ""
    run: str = ""
    unaccounted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    reason: str = ""

    @property
    def ends(self) -> Reached:
        """Its progress, by its source."""
        return {self.source.text: self.progress} if self.source and self.progress else {}


@dataclass(frozen=True)
class NotUnderstood:
    """What a commit of ours says that this process cannot read; ``metadata`` is the version of its form."""

    metadata: int
    problem: str

    @property
    def is_newer(self) -> bool:
        """Whether a newer lakehouse made the commit."""
        return self.metadata > VERSION

    @property
    def is_older(self) -> bool:
        """Whether a lakehouse from before the first release made the commit."""
        return self.metadata < _FIRST


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


_EITHER: Final = ("MERGE", "WRITE")
_OPERATIONS: Final = {"rewrite": ("WRITE",), "derived": _EITHER, "batch": _EITHER}  # of other kinds: MERGE


@lru_cache(maxsize=4096)
def said_in(metadata: str) -> Commit | Upkeep | NotUnderstood | None:
    """What the metadata of a commit says; ``None`` where it is not ours. The same history is read again and again."""
    try:
        said = json.loads(metadata)
    except ValueError:
        return None
    if not isinstance(said, dict) or not isinstance(said.get("kind"), str) or "metadata" not in said:
        return None
    try:
        return (Upkeep if said["kind"] == "upkeep" else Commit).model_validate(said)
    except ValidationError as error:
        version, first = said.get("metadata"), error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        return NotUnderstood(version, problem) if isinstance(version, int) else None


def said_by(info: Mapping[str, Any]) -> Commit | Upkeep | NotUnderstood | None:
    """What a commit of a history says of itself."""
    return said_in(info.get("userMetadata") or "")


def identity_of(info: Mapping[str, Any]) -> str:
    """What tells a commit from any other that may take its version: our attempt, else its time."""
    said = said_by(info)
    return said.attempt if isinstance(said, Commit) else str(info.get("timestamp"))


def committed_at(info: Mapping[str, Any]) -> datetime:
    """When a commit of a history was made, UTC."""
    return datetime.fromtimestamp(int(info.get("timestamp", 0)) / 1000, UTC)


def entry_of(info: Mapping[str, Any]) -> Entry | None:
    """A commit of a history as an entry of the ledger; ``None`` where it is none."""
    commit, operation = said_by(info), str(info.get("operation"))
    if not isinstance(commit, Commit) or operation not in _OPERATIONS.get(commit.kind, ("MERGE",)):
        return None
    metrics = _metrics(operation, commit.kind, info.get("operationMetrics") or {})
    return Entry(int(info["version"]), committed_at(info), commit, metrics)


# what Spark's Delta counts, and what deltalake does
_ADDED: Final = ("numOutputRows", "num_added_rows")
_MERGED_ROWS: Final = {
    "source_rows": ("numSourceRows", "num_source_rows"),
    "inserted": ("numTargetRowsInserted", "num_target_rows_inserted"),
    "updated": ("numTargetRowsUpdated", "num_target_rows_updated"),
    "deleted": ("numTargetRowsDeleted", "num_target_rows_deleted"),
}


def _metrics(operation: str, kind: Kind, counted: Mapping[str, Any]) -> Metrics:
    if operation == "WRITE":
        appended = 0 if kind == "rewrite" else _figure(counted, _ADDED)
        return Metrics(source_rows=appended, inserted=appended)
    return Metrics(**{figure: _figure(counted, names) for figure, names in _MERGED_ROWS.items()})


def _figure(counted: Mapping[str, Any], names: Iterable[str]) -> int:
    return next((int(counted[name]) for name in names if name in counted), 0)
