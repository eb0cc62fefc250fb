"""One batch, from plan to commit: calls the stages in order."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pyspark.sql import DataFrame

from lakehouse.declaration import StreamTable
from lakehouse.errors import ConflictError, ReadLossError
from lakehouse.ingest.change_positions import note_origins, note_snapshot_end, require_greater_positions
from lakehouse.ingest.correction import note_meaning
from lakehouse.ingest.counts import Counts, count_batch, with_counts
from lakehouse.ingest.deletes import deletes_layout
from lakehouse.ingest.erasures import leave_out_erased
from lakehouse.ingest.gaps import gap_commit, plan_table, require_comparable
from lakehouse.ingest.horizon import delete_truncated, is_beyond_horizon, reject_beyond_horizon
from lakehouse.ingest.load import load_named_references, merge_base
from lakehouse.ingest.merge import (
    WrittenRecords,
    append_records,
    count_data_files,
    merge_by_key,
    removed_on_failure,
    take_data_files,
    with_data_files,
    write_failures,
)
from lakehouse.ingest.newest_per_key import equal_order
from lakehouse.ingest.order_times import order_records
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.rejected_records import DecodedBatch, rejected_layout, store_rejected
from lakehouse.ingest.rejections import name_rejections, require_kept_rejections
from lakehouse.ingest.staging import stage_around_timeless, stage_records
from lakehouse.ingest.topics import split_by_topic, split_context, with_start
from lakehouse.kafka import PATIENCE, TimelessRecordError, require_same_source
from lakehouse.ledger.accounting import require_accounted
from lakehouse.ledger.commit_values import LastRecord, LastRecords
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import Bounds, lag_of
from lakehouse.ledger.positions import Plan, SourceState, source_words
from lakehouse.ledger.versions import count_rows
from lakehouse.settings import Settings
from lakehouse.sources.table_sources import source_of
from lakehouse.spark.own_session import rows_expected
from lakehouse.storage.data_files import DataFile
from lakehouse.storage.sql_analysis import require_types
from lakehouse.storage.table_context import TableContext, merged_ledger, require_no_switch, retry_on_conflict

_REPLAN_ERRORS = (ConflictError, ReadLossError)
_log = logging.getLogger(__name__)  # the current step, for a user who waits


@dataclass(frozen=True)
class Request:
    """A request to merge: batches of at most ``max_records``, up to the position ``until`` of each partition.

    ``None`` leaves the size of a batch to the declaration; a number overrides it. ``topic`` is the only one to merge.
    """

    max_records: int | None = None
    until: Mapping[int, int] = field(default_factory=dict)
    topic: str | None = None

    def limit(self, table: StreamTable) -> int:
        """Return the maximum number of positions in a batch of this table."""
        return table.max_records if self.max_records is None else self.max_records


def plan_each(settings: Settings, table: StreamTable, request: Request = Request()) -> list[Plan]:
    """Plan the next batch of each topic, like ``plan_next``."""
    return [plan_next(settings, part, request) for part in split_by_topic(settings, table)]


def plan_next(settings: Settings, table: StreamTable, request: Request = Request()) -> Plan:
    """Plan the next batch of one topic; reads no record, writes nothing, and needs no JVM."""
    ledger = merged_ledger(settings, table)
    state = with_start(settings, table, ledger, source_of(settings, table).preview_state(ledger, PATIENCE))
    return plan_table(table, state, ledger, Bounds(request.limit(table), request.until))


def merge_all(
    context: TableContext, request: Request = Request(), on_batch: Callable[[Outcome], None] = lambda _: None
) -> list[Outcome]:
    """Merge the base rows if they changed, then batches up to the ends of the partitions at the start.

    Topics are merged one after the other. Returns one outcome for each commit, in order; none if there is nothing to
    do. If records expired and the table accepts gaps, records the gap and continues after it. Raises ``DataLossError``,
    ``BrokerError`` and ``TopicError``.
    """
    _log.info("Preparing %s", context.table.name)
    require_kept_rejections(context)
    retry_on_conflict(lambda: prepare(context))
    outcomes: list[Outcome] = []
    base_outcome = retry_on_conflict(lambda: merge_base_rows(context))
    if base_outcome:
        outcomes.append(base_outcome)
        on_batch(base_outcome)
    for part in split_context(context):
        if request.topic in (None, part.table.topic):
            outcomes += _merge_topic(part, request, on_batch)
    return outcomes


def _merge_topic(context: TableContext, request: Request, on_batch: Callable[[Outcome], None]) -> list[Outcome]:
    outcomes, new_snapshots = list[Outcome](), [_read_snapshot(context)]
    ends = new_snapshots[0].state.end
    bounds = Bounds(request.limit(context.table), {p: min(end, request.until.get(p, end)) for p, end in ends.items()})

    def merge_next() -> Outcome | None:
        return merge_batch(context, bounds, new_snapshots.pop() if new_snapshots else _read_snapshot(context))

    while outcome := retry_on_conflict(merge_next, _REPLAN_ERRORS):
        outcomes.append(outcome)
        on_batch(outcome)
        if not outcome.has_more:
            break
    return outcomes


@dataclass(frozen=True)
class Snapshot:
    """The input of a plan: the ledger, and the state of the source after the ledger was read."""

    ledger: Ledger
    state: SourceState


def _read_snapshot(context: TableContext) -> Snapshot:
    _log.info("Planning a batch of %s", context.table.name)
    # the ledger first, so that a batch of another writer in between does not lie after the end of the topic
    source, ledger = source_of(context.settings, context.table), context.ledger()
    state = source.register_state(context, ledger, PATIENCE)
    return Snapshot(ledger, with_start(context.settings, context.table, ledger, state))


def prepare(context: TableContext) -> None:
    """Create the tables that batches write if they are missing; add missing columns, and widen columns.

    Loads references that rules of the table name, if their files have changed.

    Raises ``DeclarationError`` if Spark cannot compute the SQL of the declaration, or if the declared order cannot
    compare new records with the stored rows. Raises ``NotConsumedError`` if columns are to be widened before a derived
    table has read the changes so far. Nothing is written then.
    """
    require_no_switch(context.settings, context.table)
    # a table whose history does not contain its progress stays as it is
    require_comparable(context.table, context.ledger())
    if context.table.has_sql:
        require_types(context.spark, context.table)
    context.merged.ensure(context.require_consumed)
    context.stored_table(rejected_layout).ensure()
    if context.table.rejects:
        load_named_references(context)
    if context.table.delete_rule:
        context.stored_table(deletes_layout).ensure()


def merge_base_rows(context: TableContext) -> Outcome | None:
    """Merge the base rows if they changed, in one commit; ``None`` if there is nothing to do."""
    start_time = time.monotonic()
    entry = merge_base(context, context.ledger())
    if entry is None:
        return None
    return Outcome(require_accounted(entry, context.table.name), None, 0, 0, time.monotonic() - start_time)


def merge_batch(context: TableContext, bounds: Bounds, snapshot: Snapshot) -> Outcome | None:
    """Merge the next batch: one plan, one commit; ``None`` if there is nothing to read.

    A gap that the declaration accepts is a separate commit before the batch after it, and so is the declared start of a
    new table.
    """
    start_time = time.monotonic()
    ledger, state = snapshot.ledger, snapshot.state
    plan = plan_table(context.table, state, ledger, bounds)
    if plan.gap or plan.left_out is not None:
        entry = context.merged.commit_nothing(gap_commit(ledger, plan, context.run))
        lag = sum(lag_of(state, ledger.progress).values())
        return Outcome(entry, None, lag, lag, time.monotonic() - start_time)
    if plan.span == 0:
        return None
    commit = ledger.next_commit("batch", context.run).with_fields(source=plan.source)
    if source_of(context.settings, context.table).times_may_go_back:
        commit = _note_caught_up(commit, plan, state)
    entry, plan, state_after, unmapped_fields = run_batch(context, plan, commit, ledger)
    lag_before, lag_after = (sum(lag_of(state, progress).values()) for progress in (ledger.progress, plan.progress))
    positions = plan.progress.positions
    ends = {**state.end, **state_after.end}  # partitions may have been added meanwhile
    has_more = any(positions.get(p, 0) < bounds.until.get(p, end) for p, end in ends.items())
    return Outcome(entry, plan, lag_before, lag_after, time.monotonic() - start_time, has_more, unmapped_fields)


class MergedBatch(NamedTuple):
    """A merged batch: its ledger entry, the plan it read, the state of its source afterwards, and unmapped fields."""

    entry: Entry
    plan: Plan
    state_after: SourceState
    unmapped_fields: Mapping[str, int]


def run_batch(
    context: TableContext, plan: Plan, commit: Commit, ledger: Ledger, before: LastRecords | None = None
) -> MergedBatch:
    """Read exactly the planned records, decode them, store the rejected ones, and merge the rest in one commit.

    ``before`` are the last records before the plan, if they are not those of the commit before.

    Reads only the beginning of the plan if it has too many records whose time is out of range for a timestamp.
    """
    spark, settings, table = context.spark, context.settings, context.table
    layout, source = context.merged.layout, source_of(settings, table)
    words = source_words(plan.source)
    is_beyond = is_beyond_horizon(table, ledger, plan.source, commit.kind) if table.delete_rule else ""
    _log.info("Reading %s %ss of %s %s", f"{words.count(plan.span):,}", words.position, words.source, plan.stream)
    with rows_expected(spark, plan.span):
        plan, records, files = _stage(context, plan, commit, ledger, is_beyond)
        state_after = source.read_state_after(ledger, PATIENCE)
        require_same_source(plan, state_after.source, _command_of(commit, table))
        is_batch = commit.kind == "batch"
        progress = dict(plan.progress.positions) if is_batch else commit.progress
        consumed_tables = source.consumed(plan) if is_batch else commit.consumed_tables
        fields = {"ranges": plan.ranges, "progress": progress, "consumed_tables": consumed_tables}
        commit = commit.with_fields(stream=plan.stream, **fields)
        if source.times_may_go_back:
            last_records = commit.last_records if before is None else before
            records, commit = _order(context, records, commit, last_records, plan)
        records = leave_out_erased(context, records, plan.source)
        keys = context.merged.key_hashes
        key_hash = keys.sql if keys.are_useful(plan.span) else ""
        counts = count_data_files(count_batch(records, table, is_beyond, equal_order(table, source), key_hash), files)
        if counts.beyond_horizon:
            records, counts = reject_beyond_horizon(context, records, counts, ledger, is_beyond)
    stored_rows = count_rows(layout.uri, layout.partition_by, counts.touched.partitions)
    stored_rows += count_rows(settings.table_uri(table.deletes_name)) if table.delete_rule else 0
    _log.info("Merging %s records into %s", f"{counts.rows:,}", table.name)
    with rows_expected(spark, counts.rows, stored_rows):
        entry = commit_batch(context, DecodedBatch(records, plan, commit, ledger, files), counts)
    return MergedBatch(entry, plan, state_after, counts.unmapped_fields)


def _order(
    context: TableContext, records: DataFrame, commit: Commit, before: LastRecords, plan: Plan
) -> tuple[DataFrame, Commit]:
    """Give records of a topic their times of order; a batch names the last ones of its partitions."""
    ordered_records = order_records(records, context.table, before, plan.span)
    fields = {"last_records": before | ordered_records.last_records, "times_back": ordered_records.times_back}
    return ordered_records.records, commit.with_fields(**fields) if commit.kind == "batch" else commit


def _note_caught_up(commit: Commit, plan: Plan, state: SourceState) -> Commit:
    """Note when partitions were seen to end where a plan ends; of one that was never read before, when that begins."""
    now = time.time_ns() // 1000
    records = {part.partition: commit.last_records.get(part.partition, LastRecord()) for part in plan.ranges}
    ends = {part.partition: part.end for part in plan.ranges}
    noted = {p for p, last in records.items() if last.caught_up is None or state.end.get(p, ends[p]) <= ends[p]}
    return commit.with_fields(
        last_records=commit.last_records | {p: records[p].with_fields(caught_up=now) for p in sorted(noted)}
    )


def _command_of(commit: Commit, table: StreamTable) -> str:
    if commit.kind == "correction":
        return f"lakehouse replay {table.name} --again"
    return f"lakehouse {'merge' if commit.kind == 'batch' else commit.kind} {table.name}"


def _stage(
    context: TableContext, plan: Plan, commit: Commit, ledger: Ledger, is_beyond: str
) -> tuple[Plan, DataFrame, list[DataFile]]:
    """Read and decode; return what was read of the plan, its records, and files with the rows of other valid ones."""
    source = source_of(context.settings, context.table)
    try:
        with source.failures(plan, _command_of(commit, context.table)):
            undecoded = with_data_files(context, source.read(context.spark, plan, ledger), plan, commit, ledger)
            are_written = isinstance(undecoded, WrittenRecords)
            with write_failures(context.merged.layout.uri), removed_on_failure(undecoded):
                records = stage_records(context, undecoded, commit.kind, is_beyond)
    except TimelessRecordError as error:
        return *stage_around_timeless(context, plan, commit.kind, error, is_beyond), []
    return plan, *(take_data_files(records) if are_written else (records, []))


def commit_batch(context: TableContext, batch: DecodedBatch, counts: Counts) -> Entry:
    """Merge the valid records in one commit, and store the others at a time when a crash does no harm."""
    table, rejected_table = context.table, context.stored_table(rejected_layout)
    if table.has_changes:
        require_greater_positions(context, batch, counts)
        batch = note_origins(context, batch, counts)
    commit = note_meaning(with_counts(batch.commit, counts, table), batch.ledger, table)
    batch = replace(batch, commit=commit)
    if counts.changes.snapshot_ends:
        batch = note_snapshot_end(table, batch)
    if counts.truncates:
        batch = delete_truncated(context, batch)
    # before the rows: those of rejected records are removed by a correction, and are not read at all after a batch
    has_unmarked = True
    if batch.commit.kind in ("batch", "correction"):
        has_unmarked = store_rejected(table, rejected_table, batch, is_committed=False)
        batch = replace(batch, commit=name_rejections(context, batch.ledger, batch.commit))
    entry = (append_records if table.is_log else merge_by_key)(context, batch, counts)
    if has_unmarked:
        _mark_resolved(context, batch)
    return require_accounted(entry, table.name)


def _mark_resolved(context: TableContext, batch: DecodedBatch) -> None:
    """Store the rejected records and mark the resolved ones, now that the batch is merged.

    If another writer prevents this for a batch, the batch stays merged: the next redrive marks them.
    """
    rejected_table = context.stored_table(rejected_layout)
    try:
        retry_on_conflict(
            lambda: store_rejected(context.table, rejected_table, replace(batch, ledger=context.ledger()))
        )
    except ConflictError:
        if batch.commit.kind != "batch":
            raise
