"""Rejected records that are not resolved: list them, and decode them again with today's declaration.

Their bytes are in the table, so neither needs the broker.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.decoding import staged
from lakehouse.errors import LakehouseError
from lakehouse.ingest.batches import Outcome, merge_decided, prepare
from lakehouse.ingest.counts import count_batch
from lakehouse.ingest.rejected_records import Decided, rejected_layout, store_rejected
from lakehouse.ingest.staging import hold
from lakehouse.ingest.unresolved_rejections import unresolved
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.storage.table_context import TableContext, again, whole_ledger

Place = tuple[int, int]
"""Partition and position."""
_PLACE = "struct(position.partition, position.position)"
_RECORD = (
    f"time AS {staged.TIME}",
    f"position.partition AS {staged.PARTITION}",
    f"position.position AS {staged.POSITION}",
    f"position.sequence AS {staged.SEQUENCE}",
    f"key AS {staged.KEY}",
    f"value AS {staged.VALUE}",
    f"headers AS {staged.HEADERS}",
)


def redrive(context: TableContext, reason: str | None = None) -> list[Outcome]:
    """Decode the rejected records again, of one reason or all, and merge those that pass now.

    Several commits where there are more than ``max_records`` of the declaration, and one at least for each
    source that they are of; none where no record passes. Those that pass are then marked as resolved by their
    commit, and reasons that are others now are stored. Records whose own time is beyond any timestamp never pass, and
    are left as they are. Moves no progress. A second run finds nothing and writes nothing; after a crash between commit
    and marking it finds the rows in the table and marks them.
    """
    if not context.ledger().exists:
        raise LakehouseError("Nothing has been merged yet", where=context.table.name, action="Merge it first.")
    again(lambda: prepare(context))
    outcomes = []
    for part in _parts(context, reason):
        outcome = again(partial(_redrive_part, context, part))
        if outcome:
            outcomes.append(outcome)
    return outcomes


@dataclass(frozen=True)
class _Part:
    """Rejected records of one source, by their places: behind ``after``, up to and with ``upto``."""

    source: SourceId
    reason: str | None
    after: Place | None = None
    upto: Place | None = None

    def rows(self, context: TableContext, ledger: Ledger) -> DataFrame:
        """Those of its records that are not resolved."""
        rows = _unresolved_rows(context, ledger, self.reason)
        rows = rows.where(F.col("position.source") == self.source.text)
        for end, compared in ((self.after, ">"), (self.upto, "<=")):
            if end is not None:
                rows = rows.where(f"{_PLACE} {compared} struct({end[0]}, {end[1]}L)")
        return rows


def _parts(context: TableContext, reason: str | None) -> Iterator[_Part]:
    """Cut the records into parts of as many as a batch takes; the last one of a source takes the rest."""
    limit, ledger = context.table.max_records, whole_ledger(context.settings, context.table)
    counted = _unresolved_rows(context, ledger, reason).groupBy("position.source").count().collect()
    for text, count in sorted((row[0] or "", row[1]) for row in counted):
        part = _Part(SourceId.parse(text), reason)
        for left in range(count, 0, -limit):
            part = replace(part, after=part.upto, upto=None)
            if left > limit:
                part = replace(part, upto=_cut(part.rows(context, ledger), limit))
            if part.upto is None and left > limit:
                return  # another process resolved the rest meanwhile
            yield part


def _cut(rows: DataFrame, limit: int) -> Place | None:
    """The place of the last of the first so many rows; ``None`` where there is none."""
    first = rows.select(F.expr(_PLACE).alias("place")).orderBy("place").limit(limit)
    ((last,),) = first.agg(F.max("place")).collect()
    return (last[0], last[1]) if last is not None else None


def _unresolved_rows(context: TableContext, ledger: Ledger, reason: str | None) -> DataFrame:
    rows = context.stored(rejected_layout).rows()
    rows = rows.where(unresolved(ledger)).where("time IS NOT NULL")  # else no decoding makes them enter
    return rows if reason is None else rows.where(F.col("reason") == F.lit(reason))


def _redrive_part(context: TableContext, part: _Part) -> Outcome | None:
    """Redrive some records in one commit; ``None`` where none of them passes."""
    started = time.monotonic()
    ledger = whole_ledger(context.settings, context.table)
    rows = part.rows(context, ledger)
    held = hold(context, rows.selectExpr(*_RECORD), "redrive")
    counts = count_batch(held, context.table)
    plan = Plan(context.table.topic, part.source, _spans(held))
    decided = Decided(held, plan, ledger.next_commit("redrive", context.run), ledger)
    if counts.read == counts.rejected:
        store_rejected(context.stored(rejected_layout), decided)
        return None
    entry: Entry = merge_decided(context, decided, counts)
    return Outcome(entry, None, 0, 0, time.monotonic() - started, others=counts.others)


def _spans(held: DataFrame) -> tuple[Range, ...]:
    """Ranges that hold the positions of the held rows, and others between them."""
    least, most = F.min(staged.POSITION), F.max(staged.POSITION) + 1
    found = held.groupBy(staged.PARTITION).agg(least.alias("start"), most.alias("end")).collect()
    return tuple(sorted(Range(row[staged.PARTITION], row["start"], row["end"]) for row in found))
