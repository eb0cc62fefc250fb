"""Rejected records that are not resolved: decode them again with the current declaration.

Their bytes are in the table, so this does not need the broker.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.decoding import staged
from lakehouse.errors import LakehouseError
from lakehouse.ingest.batches import commit_batch, prepare
from lakehouse.ingest.counts import count_batch
from lakehouse.ingest.erasures import leave_out_erased
from lakehouse.ingest.horizon import is_beyond_horizon, reject_beyond_horizon
from lakehouse.ingest.order_times import with_order_times
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.rejected_records import (
    DecodedBatch,
    keep_unresolved,
    records_with_bytes,
    rejected_layout,
    store_rejected,
)
from lakehouse.ingest.rejections import require_kept_rejections, unresolved_sql
from lakehouse.ingest.staging import stage_records
from lakehouse.ledger.commit_infos import find_name
from lakehouse.ledger.commits import Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.storage.table_context import TableContext, retry_on_conflict, whole_ledger

Place = tuple[int, int]
"""Partition and position."""
_PLACE = "struct(position.partition, position.position)"
RECORD_COLUMNS = (
    f"time AS {staged.TIME}",
    f"position.partition AS {staged.PARTITION}",
    f"position.position AS {staged.POSITION}",
    f"position.sequence AS {staged.SEQUENCE}",
    f"key AS {staged.KEY}",
    f"value AS {staged.VALUE}",
    f"headers AS {staged.HEADERS}",
)


def redrive(context: TableContext, reason: str | None = None) -> list[Outcome]:
    """Decode the rejected records again, with one reason or all, and merge those that pass now.

    Needs several commits if there are more records than ``max_records`` of the declaration, and at least one for each
    source; none if no record passes. Afterwards, marks records that pass as resolved by their commit, and stores
    reasons that changed. Records whose own time is out of range for a timestamp never pass and stay as they are. Does
    not change the progress. A second run finds nothing and writes nothing. After a crash between a commit and its
    marks, a run finds the rows in the table and marks them.
    """
    if not context.ledger().exists:
        raise LakehouseError(
            "Nothing has been merged yet",
            where=f"table {context.table.name}",
            action=f"First run: lakehouse merge {context.table.name}",
        )
    require_kept_rejections(context)
    retry_on_conflict(lambda: prepare(context))
    outcomes = []
    for part in _split_records(context, reason):
        outcome = retry_on_conflict(partial(_redrive_part, context, part))
        if outcome:
            outcomes.append(outcome)
    return outcomes


@dataclass(frozen=True)
class _Part:
    """Rejected records of one source in a range of places: from ``after``, exclusive, to ``last_place``, inclusive."""

    source: SourceId
    reason: str | None
    after: Place | None = None
    last_place: Place | None = None

    def rows(self, context: TableContext, ledger: Ledger) -> DataFrame:
        """Return its records that are not resolved."""
        rows = _unresolved_rows(context, ledger, self.reason)
        rows = rows.where(F.col("position.source") == self.source.text)
        for place, operator in ((self.after, ">"), (self.last_place, "<=")):
            if place is not None:
                rows = rows.where(f"{_PLACE} {operator} struct({place[0]}, {place[1]}L)")
        return rows


def _split_records(context: TableContext, reason: str | None) -> Iterator[_Part]:
    """Split the records into parts of the size of a batch; the last part of a source has the rest."""
    limit, ledger = context.table.max_records, whole_ledger(context.settings, context.table)
    counts = _unresolved_rows(context, ledger, reason).groupBy("position.source").count().collect()
    sources = {row[0] or "": row[1] for row in counts}
    # last those whose topic has no name any more: they stop a redrive of a table that needs it
    has_no_name = {text: find_name(ledger.entries, SourceId.parse(text)) is None for text in sources}
    for source, count in sorted(sources.items(), key=lambda item: (has_no_name[item[0]], item[0])):
        part = _Part(SourceId.parse(source), reason)
        for remaining_count in range(count, 0, -limit):
            part = replace(part, after=part.last_place, last_place=None)
            if remaining_count > limit:
                part = replace(part, last_place=_find_last_place(part.rows(context, ledger), limit))
            if part.last_place is None and remaining_count > limit:
                return  # another process has resolved the rest
            yield part


def _find_last_place(rows: DataFrame, limit: int) -> Place | None:
    """Return the last place among the first ``limit`` rows; ``None`` if there are no rows."""
    first_places = rows.select(F.expr(_PLACE).alias("place")).orderBy("place").limit(limit)
    ((last_place,),) = first_places.agg(F.max("place")).collect()
    return (last_place[0], last_place[1]) if last_place is not None else None


def _unresolved_rows(context: TableContext, ledger: Ledger, reason: str | None) -> DataFrame:
    """Return the records to decode again, one row for each."""
    stored_rows = context.stored_table(rejected_layout).rows()
    has_bytes = " OR ".join(f"{name} IS NOT NULL" for name in ("value", "key", "headers"))
    has_bytes = f"({has_bytes} OR position.index IS NOT NULL)" if context.table.has_elements else f"({has_bytes})"
    # records without a time never pass, and those without bytes cannot be decoded
    rows = stored_rows.where(unresolved_sql(ledger)).where(f"time IS NOT NULL AND {has_bytes}")
    rows = _of_reason(rows, reason)
    return records_with_bytes(stored_rows, rows) if context.table.has_elements else rows


def _of_reason(rows: DataFrame, reason: str | None) -> DataFrame:
    return rows if reason is None else rows.where(F.col("reason") == F.lit(reason))


def _redrive_part(context: TableContext, part: _Part) -> Outcome | None:
    """Redrive some records in one commit; ``None`` if all of them are rejected again."""
    start_time = time.monotonic()
    ledger = whole_ledger(context.settings, context.table)
    context = _in_topic_of(part.source, context, ledger)
    rows = part.rows(context, ledger)
    is_beyond = is_beyond_horizon(context.table, ledger, part.source, "redrive") if context.table.delete_rule else ""
    records = stage_records(context, rows.selectExpr(*RECORD_COLUMNS), "redrive", is_beyond)
    later_times = rows.where("order_time IS NOT NULL").selectExpr(
        *RECORD_COLUMNS[1:3], f"order_time AS {staged.ORDER_TIME}"
    )
    records = leave_out_erased(context, with_order_times(records, later_times), part.source, are_stored=True)
    unresolved = None
    if context.table.has_elements:
        stored_rows = _of_reason(context.stored_table(rejected_layout).rows(), part.reason)
        unresolved = keep_unresolved(records, stored_rows.where(unresolved_sql(ledger)), part.source)
        records = unresolved.rows
    counts = count_batch(records, context.table, is_beyond)
    counts = counts if unresolved is None else replace(counts, read=unresolved.record_count)
    if counts.beyond_horizon:
        records, counts = reject_beyond_horizon(context, records, counts, ledger, is_beyond)
    plan = Plan(context.table.topic or part.source.text, part.source, _covering_ranges(records))
    batch = DecodedBatch(records, plan, ledger.next_commit("redrive", context.run), ledger)
    if counts.are_all_rejected and not (unresolved and unresolved.opened_count):
        store_rejected(context.table, context.stored_table(rejected_layout), batch)
        return None
    entry: Entry = commit_batch(context, batch, counts)
    return Outcome(entry, None, 0, 0, time.monotonic() - start_time, unmapped_fields=counts.unmapped_fields)


def _in_topic_of(source: SourceId, context: TableContext, ledger: Ledger) -> TableContext:
    """Return the context for the topic of the records, if the table reads several or has a column for its name."""
    table = context.table
    if not table.topics and not table.reads_topic:
        return context
    name = find_name(ledger.entries, source) or table.topic
    if not name and table.reads_topic:
        raise LakehouseError(
            f"No commit in the history of {table.name} names the topic of records from {source.text}",
            where=f"table {table.name}",
            action="Their rows need its name. Send the records to a topic of the table again.",
        )
    return replace(context, table=table.in_topic(name)) if name else context


def _covering_ranges(records: DataFrame) -> tuple[Range, ...]:
    """Return ranges that contain the positions of the staged records, and others between them."""
    start, end = F.min(staged.POSITION), F.max(staged.POSITION) + 1
    rows = records.groupBy(staged.PARTITION).agg(start.alias("start"), end.alias("end")).collect()
    return tuple(sorted(Range(row[staged.PARTITION], row["start"], row["end"]) for row in rows))
