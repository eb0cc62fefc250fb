"""Which versions of a table can be read: the one whose rows are read as they are, and those after it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.ledger.positions import VERSION_PLACES, Positions, Range, SourceId, SourceState

KIND = "table"
ROWS, CHANGES = 0, 1
"""The partition with the rows as of a version, and the one with the changes since."""
KIND_FIELD = "_change_type"
"""The field of a record that says what happened to its row."""
MAX_VERSIONS = 1_000
"""Most versions of one batch."""
RECORD_FIELDS = frozenset({"source", "partition", "position", "sequence", "time"})
"""The fields of the record of a row that lakehouse wrote, which order it."""
ADDED = VERSION_PLACES // 2
"""The first place of rows that a version adds; those that it removes have places before."""
_LAST_PLACE = VERSION_PLACES - 1
_CAUSE = "commits or change data were deleted, or change data was off"
_ROW_COUNTS = (
    *("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted", "numOutputRows"),
    *("numUpdatedRows", "numDeletedRows"),
    *("num_target_rows_inserted", "num_target_rows_updated", "num_target_rows_deleted", "num_added_rows"),
    *("num_updated_rows", "num_deleted_rows"),
)
"""The metrics of Spark's Delta, and those of deltalake."""


@dataclass(frozen=True)
class TableState(SourceState):
    """The state of a table as a source: ``rows`` has the number of changed rows of each version, if it is known."""

    rows: Mapping[int, int] = field(default_factory=dict)

    def divide(self, starts: Positions, lags: Positions, limit: int | None, turn: int = 0) -> dict[int, int]:  # noqa: ARG002
        """Return the positions of the next versions: with ``limit`` changed rows together, and at least one version.

        The rows as of a version are read at once.
        """
        shares, start = dict(lags), starts.get(CHANGES, 0)
        total = 0
        for version in range(start // VERSION_PLACES, (start + lags.get(CHANGES, 0)) // VERSION_PLACES):
            total += self.rows.get(version, 0)
            is_full = limit is not None and total > limit
            if (is_full or version - start // VERSION_PLACES >= MAX_VERSIONS) and version * VERSION_PLACES > start:
                shares[CHANGES] = version * VERSION_PLACES - start
                break
        return shares

    def describe_lost(self, part: Range) -> str:
        """Return the sentence that versions can no longer be read, or that rows are to be read again."""
        if part.partition == ROWS:
            return f"After the loss, all rows of {self.stream} are read as of version {part.end // VERSION_PLACES}"
        versions = versions_in(part)
        count = f"Version {versions[0]}" if len(versions) == 1 else f"Versions {versions[0]} to {versions[-1]}"
        return f"{count} of {self.stream} can no longer be read, and were not: {_CAUSE}"


def versions_in(part: Range) -> range:
    """Return the versions of which a range has a part."""
    return range(part.start // VERSION_PLACES, -(-part.end // VERSION_PLACES))


def split_at(part: Range, versions: Collection[int]) -> list[Range]:
    """Return the pieces of a range of versions: one begins at each of these versions."""
    inner_starts = [v * VERSION_PLACES for v in versions_in(part)[1:] if v in versions]
    starts = [part.start, *inner_starts]
    return [Range(part.partition, start, end) for start, end in zip(starts, [*inner_starts, part.end], strict=True)]


def first_after(version: int, versions: Collection[int]) -> int:
    """Return the first version from this one on that is not among these."""
    while version in versions:
        version += 1
    return version


def starts_of(newest: int) -> dict[int, int]:
    """Return where a new table begins: with the rows of the newest version, and the changes after it."""
    return {ROWS: newest * VERSION_PLACES, CHANGES: (newest + 1) * VERSION_PLACES}


def ends_of(first: int, newest: int) -> dict[int, int]:
    """Return the ends of both partitions, for a table that began with the rows of the version ``first``."""
    return {ROWS: first * VERSION_PLACES + _LAST_PLACE, CHANGES: (newest + 1) * VERSION_PLACES}


def source_id(table_id: str) -> SourceId:
    """Return the identity of a table as a source: the id that Delta gave it."""
    return SourceId(KIND, table_id)


def changed_rows(info: Mapping[str, Any]) -> int:
    """Return the number of rows that a commit changed, as far as its metrics say."""
    metrics = info.get("operationMetrics") or {}
    return sum(int(metrics[name]) for name in _ROW_COUNTS if str(metrics.get(name, "")).isdecimal())
