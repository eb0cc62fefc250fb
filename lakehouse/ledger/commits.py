"""The metadata of a commit of lakehouse, and what Delta counted for the commit.

A ``Commit`` is written as the ``userMetadata`` of the commit that holds the rows. It holds everything that the next
batch needs, so the newest one is enough to continue. A change that adds a field, or changes the meaning of one, raises
``VERSION``; ``commit_infos`` reads no other.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from lakehouse.ledger.commit_values import Consumed, Frozen, LastRecords, OtherSource, ReachedEnds, RecordOrder, Totals
from lakehouse.ledger.positions import Range, SourceId

Kind = Literal[
    "batch",
    "base",
    "replay",
    "correction",
    "erasure",
    "redrive",
    "gap",
    "start",
    "recovery",
    "acceptance",
    "rewrite",
    "maintenance",
    "purge",
    "load",
    "rejected",
    "derived",
    "deletes",
    "truncate",
    "missing",
    "wait",
]
OF_RECORDS: Final = ("batch", "replay", "correction", "redrive")  # kinds that merge records
MERGED: Final = (*OF_RECORDS, "base")  # kinds that merge rows, and account for each of them
VERSION: Final = 19  # the only one that is read: no release wrote another


class Upkeep(Frozen):
    """The metadata of a lakehouse commit that changes no row: compaction, vacuum, columns and properties."""

    metadata: Literal[19] = VERSION
    kind: Literal["upkeep"] = "upkeep"
    run: str


class Origin(Frozen):
    """What a commit is, which attempt made it, and what it was planned on.

    - ``table_version``: the version of the table on which this commit was planned.
    - ``follows``: the digest of the log entry of that version; empty if there is none.
    - ``rows_version``: the newest version up to then that may have changed a row; ``None`` if unknown.
    - ``declaration``: the hash of the declaration whose columns the table last received; commits without a declaration
      carry on the previous one.
    - ``meaning``: the hash of what decides the values of a record, by which the newest records were decoded.
    """

    metadata: Literal[19] = VERSION
    kind: Kind
    number: int
    attempt: str
    table_version: int
    follows: str = ""
    rows_version: int | None = None
    declaration: str = ""
    meaning: str = ""
    run: str = ""


class SourceProgress(Frozen):
    """How far the sources of a table are read, and what a commit read of one of them.

    - ``source`` and ``stream``: the source of the records, and the name by which people call it.
    - ``progress``: the next position of every partition after this commit.
    - ``reached``: by source and partition, the end of the positions that were ever read, if it is beyond the progress.
      Rows of these positions may be in the table.
    - ``left_out``: the positions that a new table left out on purpose, because ``start`` is after them: one range for
      each partition that has any, until another source is read.
    - ``last_records``: the last record that was read of each partition of a topic.
    - ``versions_before``: of a table that reads another one, how many versions of former ones come before.
    - ``other_sources``: by source, what the table has read of its other topics, if it has several. ``stream``,
      ``source``, ``progress``, ``left_out`` and ``last_records`` are those of one of them.
    - ``undone_sources``: the other sources whose whole progress a RESTORE undid, with their names.
    - ``awaited``: by source and partition, the end up to which a streaming query has come and an open transaction does
      not let a batch read, until a commit has merged it.
    - ``outdated``: by source, the positions whose records were decoded by another meaning than that of the commit, and
      were not read again since.
    """

    stream: str | None = None
    source: SourceId | None = None
    ranges: tuple[Range, ...] = ()
    progress: dict[int, int] | None = None
    reached: ReachedEnds = Field(default_factory=dict)
    left_out: tuple[Range, ...] = ()
    last_records: LastRecords = Field(default_factory=dict)
    versions_before: int = 0
    other_sources: dict[str, OtherSource] = Field(default_factory=dict)
    undone_sources: dict[str, str] = Field(default_factory=dict)
    awaited: ReachedEnds = Field(default_factory=dict)
    outdated: dict[str, tuple[Range, ...]] = Field(default_factory=dict)
    gap: tuple[Range, ...] = ()


class Outcomes(Frozen):
    """What became of the records that a commit read, and of those of all batches before it.

    - ``rows_read`` and ``empty``: if the rows are elements of records, the rows that the records have, and the records
      that have none. A record that is judged as a whole is one row. The other counts are then about rows.
    - ``filtered``: the records among those read that do not meet ``where``.
    - ``late``: the late records among those read, whether they were rejected or not.
    - ``times_back``: the records among those read whose time is before that of an earlier record of their partition.
    - ``rounded``: the records among those read of which a DECIMAL lost digits.
    - ``equal_versions``: the records among those read whose key and version an earlier record of the batch has, or the
      stored row, with other values. The source decided which of them is the row.
    - ``erased``: the records among those read whose key was erased after they were read first.
    - ``deletes_without_row``: the deletes among the merged rows whose key had no row.
    - ``corrected``: the stored rows that changed because their own record was read again, and means something else now.
    - ``withdrawn``: the merged rows without a record: keys whose stored row came from a record that was read again, and
      gives it none any more.
    """

    read: int = 0
    empty: int = 0
    rows_read: int | None = None
    filtered: int = 0
    rejected: int = 0
    superseded: int = 0
    late: int = 0
    times_back: int = 0
    rounded: int = 0
    equal_versions: int = 0
    erased: int = 0
    deletes_without_row: int = 0
    corrected: int = 0
    withdrawn: int = 0
    totals_before: Totals = Totals()

    @property
    def judged(self) -> int:
        """What the records have: rows, if they can have many, else one each."""
        return self.read if self.rows_read is None else self.rows_read

    @property
    def has_every_record(self) -> bool:
        """Whether each record that was read is accounted for: it has a row at least, or is known to have none."""
        return self.rows_read is None or 0 <= self.read - self.empty <= self.rows_read


class OrderBounds(Frozen):
    """Orders in the source that decide about all rows.

    - ``snapshot_position``: the greatest position of a snapshot that was read, in the order of the source. Below it,
      offsets decide which change is newer.
    - ``snapshot_end``: the order of the record that ended the newest snapshot of a whole table.
    - ``origins``: by server and binlog of a change stream, a number, the greatest position of a change that was read.
    - ``truncate``: the order of the newest truncate that was read. No row is older.
    - ``purged``: the greatest order of a delete that was purged. A record up to it whose key has no row is rejected.
    """

    snapshot_position: int | None = None
    snapshot_end: RecordOrder | None = None
    origins: dict[int, int] = Field(default_factory=dict)
    truncate: RecordOrder | None = None
    purged: RecordOrder | None = None


class OtherTables(Frozen):
    """The versions of other tables, and the files, that the rows after a commit go with.

    - ``consumed``: the version merged so far of the base table, or of the table that a derived table follows.
    - ``consumed_tables``: the version that was read of each table by a materialized view, or of a ``TableRows``.
    - ``deletes_table``: the version of the table of deletes that counts for the rows after this commit; ``None`` if no
      commit before declared deletes. Deletes in newer versions do not count.
    - ``rejected_table``: the version of the rejected records that was stored when the newest batch was merged; ``None``
      if no commit before named one.
    """

    consumed: Consumed | None = None
    consumed_tables: dict[str, Consumed] = Field(default_factory=dict)
    deletes_table: Consumed | None = None
    rejected_table: Consumed | None = None
    folder: str | None = None
    reconciled: bool = False


class Decision(Frozen):
    """What does not add up, and what a person accepts.

    - ``unaccounted``: the older versions with open differences.
    - ``accepted`` and ``reason``: the versions whose differences a person accepts with this commit, and why.
    """

    unaccounted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    reason: str = ""


class Commit(Decision, OtherTables, OrderBounds, Outcomes, SourceProgress, Origin):
    """The metadata of a commit: one flat object in JSON, whose fields are those of its parts."""


@dataclass(frozen=True)
class Metrics:
    """The row counts of Delta for a commit: source rows of the MERGE, inserted, updated and deleted rows."""

    source_rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Entry:
    """A lakehouse commit, with its version and the counts of Delta."""

    version: int
    committed_at: datetime
    commit: Commit
    metrics: Metrics

    @property
    def stale(self) -> int:
        """Merged rows that wrote nothing: the table already had newer ones, or newer deletes."""
        rows = self.metrics
        return rows.source_rows - rows.inserted - rows.updated - rows.deleted - self.commit.deletes_without_row

    @property
    def totals(self) -> Totals:
        """The sums over all batches up to and including this one."""
        before = self.commit.totals_before
        if self.commit.kind != "batch":
            return before
        counts = vars(self.commit) | vars(self.metrics) | {"batches": 1, "stale": self.stale}
        return Totals(**{name: total + (counts[name] or 0) for name, total in before})
