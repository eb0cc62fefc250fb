"""One batch, from plan to commit: where the stages meet, and only that."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.decoding import staged
from lakehouse.errors import AccountingError, ConflictError, ReadLossError
from lakehouse.ingest.append import append_records
from lakehouse.ingest.around_timeless import hold_around
from lakehouse.ingest.counts import MOST_OTHERS, Counts, count_batch
from lakehouse.ingest.gaps import gap_commit, plan_table, require_comparable
from lakehouse.ingest.load import merge_base
from lakehouse.ingest.merge import Target, merge_rows
from lakehouse.ingest.newest_per_key import newest_per_key
from lakehouse.ingest.rejected_records import Decided, rejected_layout, store_rejected
from lakehouse.ingest.staging import hold
from lakehouse.kafka import PATIENCE, TimelessRecordError, look, read_failures, read_records, require_same_topic
from lakehouse.ledger.accounting import sentence
from lakehouse.ledger.active_files import count_rows
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Bounds, Plan, SourceState, lag_of, words_of
from lakehouse.settings import Settings
from lakehouse.spark.sessions import rows_expected
from lakehouse.storage.sql_analysis import require_types
from lakehouse.storage.table_context import TableContext, again, merged_ledger

_PLAN_AGAIN = (ConflictError, ReadLossError)
_MOST_NAMED = 20  # fields that no column takes
_log = logging.getLogger(__name__)  # what is done now, for whoever waits


@dataclass(frozen=True)
class Request:
    """What somebody asks for: batches of at most ``max_records``, up to ``until``.

    ``None`` leaves the size of a batch to the declaration; a number wins over it, be it less or more.
    """

    max_records: int | None = None
    until: Mapping[int, int] = field(default_factory=dict)

    def limit(self, table: StreamTable) -> int:
        """How many positions a batch of this table takes at most."""
        return table.max_records if self.max_records is None else self.max_records


@dataclass(frozen=True)
class Outcome:
    """What one commit to the merged table did; lag is in positions over all partitions.

    ``more`` says that there may be more to merge, up to what was asked for; ``others`` are fields of records that no
    column takes, and in how many records they were.
    """

    entry: Entry
    plan: Plan | None
    lag_before: int
    lag_after: int
    seconds: float
    more: bool = True
    others: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """What it did in a sentence, for a log."""
        return f"{sentence(self.entry)}; lag {self.lag_after:,}, {self.seconds:.1f} s"


def others_of(outcomes: Iterable[Outcome], most: int = _MOST_NAMED) -> dict[str, int]:
    """The fields that no column takes, and how many records of these batches had each: so many of them at most."""
    return dict(_all_others(outcomes).most_common(most))


def others_beyond(outcomes: Sequence[Outcome], most: int = _MOST_NAMED) -> str:
    """How many such fields there are beyond those, in words; nothing where there are none."""
    more = len(_all_others(outcomes)) - most
    cut = any(len(outcome.others) >= MOST_OTHERS for outcome in outcomes)
    return f"{'at least ' if cut else ''}{more:,} more" if more > 0 else ""


def _all_others(outcomes: Iterable[Outcome]) -> Counter[str]:
    return sum((Counter(outcome.others) for outcome in outcomes), Counter[str]())


def plan_next(settings: Settings, table: StreamTable, request: Request = Request()) -> Plan:
    """Plan the next batch without reading or writing anything, and without a JVM."""
    ledger = merged_ledger(settings, table)
    bounds = Bounds(request.limit(table), request.until)
    return plan_table(table, look(settings, table.topic, PATIENCE), ledger, bounds)


def merge_all(
    context: TableContext, request: Request = Request(), on_batch: Callable[[Outcome], None] = lambda _: None
) -> list[Outcome]:
    """Merge the base rows where they are newer, then batches up to the ends seen at the start.

    Returns one outcome for each commit, in order; none where there was nothing to do, which is what a
    second run finds. Where records are gone, raises ``DataLossError``; where they expired and the table accepts
    that, records the gap and goes on behind it. Raises ``BrokerError`` and ``TopicError``.
    """
    _log.info("Preparing %s", context.table.name)
    again(lambda: prepare(context))
    outcomes: list[Outcome] = []
    based = again(lambda: _merge_base(context))
    if based:
        outcomes.append(based)
        on_batch(based)
    first = [_see(context)]
    ends = first[0].state.end
    bounds = Bounds(request.limit(context.table), {p: min(end, request.until.get(p, end)) for p, end in ends.items()})
    while outcome := again(lambda: merge_batch(context, bounds, first.pop() if first else _see(context)), _PLAN_AGAIN):
        outcomes.append(outcome)
        on_batch(outcome)
        if not outcome.more:
            break
    return outcomes


@dataclass(frozen=True)
class Seen:
    """What a plan is made of: the ledger, and the source as it was after that."""

    ledger: Ledger
    state: SourceState


def _see(context: TableContext) -> Seen:
    _log.info("Planning a batch of %s", context.table.name)
    ledger = context.ledger()  # first: a batch that another writer commits in between is not beyond the topic's end
    return Seen(ledger, look(context.settings, context.table.topic, PATIENCE))


def prepare(context: TableContext) -> None:
    """Create the merged and the rejected table where they are missing, add columns they lack, and widen some.

    Raises ``DeclarationError`` where Spark cannot compute the SQL of the declaration, or the declared order cannot
    compare new records with the rows that are there; ``NotConsumedError`` where a derived table has not read all that
    has to be read before columns are widened; nothing is written then.
    """
    # a table whose history does not tell its progress is left as it is
    require_comparable(context.table, context.ledger())
    require_types(context.spark, context.table)
    context.merged.ensure(context.require_consumed)
    context.stored(rejected_layout).ensure()


def _merge_base(context: TableContext) -> Outcome | None:
    started = time.monotonic()
    entry = merge_base(context, context.ledger())
    if entry is None:
        return None
    return Outcome(require_accounted(entry, context.table), None, 0, 0, time.monotonic() - started)


def merge_batch(context: TableContext, bounds: Bounds, seen: Seen) -> Outcome | None:
    """Merge the next batch: one plan, one commit; ``None`` where there is nothing to read.

    A gap that the declaration accepts is a commit of its own, before the batch behind it.
    """
    started = time.monotonic()
    ledger, state = seen.ledger, seen.state
    plan = plan_table(context.table, state, ledger, bounds)
    if plan.gap:
        entry = context.merged.commit_nothing(gap_commit(ledger, plan, context.run))
        lag = sum(lag_of(state, ledger.progress).values())
        return Outcome(entry, None, lag, lag, time.monotonic() - started)
    if plan.span == 0:
        return None
    commit = ledger.next_commit("batch", context.run).with_fields(source=plan.source)
    entry, plan, later, others = run_batch(context, plan, commit, ledger)
    before, after = (sum(lag_of(state, progress).values()) for progress in (ledger.progress, plan.progress))
    reached = plan.progress.positions
    more = any(reached.get(p, 0) < bounds.until.get(p, end) for p, end in later.end.items())
    return Outcome(entry, plan, before, after, time.monotonic() - started, more, others)


class Ran(NamedTuple):
    """A batch that was merged: its entry, what it read, the source as it was after that, and what no column takes."""

    entry: Entry
    plan: Plan
    later: SourceState
    others: Mapping[str, int]


def run_batch(context: TableContext, plan: Plan, commit: Commit, ledger: Ledger) -> Ran:
    """Read exactly what is planned, decode it, keep what is rejected, merge the rest in one commit.

    Only the beginning of the plan where it holds too many records whose time is beyond any timestamp.
    """
    spark, settings, table = context.spark, context.settings, context.table
    layout = context.merged.layout
    command = f"lakehouse {'merge' if commit.kind == 'batch' else commit.kind} {table.name}"
    words = words_of(plan.source)
    _log.info("Reading %s %ss of %s %s", f"{plan.span:,}", words.position, words.source, plan.stream)
    with rows_expected(spark, plan.span):
        try:
            with read_failures(plan, command):
                held = hold(context, read_records(spark, settings, plan), commit.kind)
        except TimelessRecordError as error:
            plan, held = hold_around(context, plan, commit.kind, error)
        later = look(context.settings, context.table.topic, PATIENCE)
        require_same_topic(plan, later, command)
        progress = dict(plan.progress.positions) if commit.kind == "batch" else commit.progress
        said = commit.with_fields(stream=plan.stream, ranges=plan.ranges, progress=progress)
        counts = count_batch(held, table)
    met = count_rows(layout.uri, layout.partition_by, counts.partitions)
    _log.info("Merging %s records into %s", f"{counts.rows:,}", table.name)
    with rows_expected(spark, counts.rows, met):
        entry = merge_decided(context, Decided(held, plan, said, ledger), counts)
    return Ran(entry, plan, later, counts.others)


def merge_decided(context: TableContext, decided: Decided, counts: Counts) -> Entry:
    """Merge the records that may enter in one commit and store the others, each when a crash does no harm."""
    table, rejected = context.table, context.stored(rejected_layout)
    commit = _counted(decided.commit, counts, table)
    decided = replace(decided, commit=commit)
    waiting = commit.kind != "batch" or store_rejected(rejected, decided, committed=False)
    entry = _store_rows(context, decided, counts)
    if waiting:
        _store_merged(context, decided)
    return require_accounted(entry, table)


def _store_rows(context: TableContext, decided: Decided, counts: Counts) -> Entry:
    table = context.table
    if table.is_log:
        return append_records(context.merged, decided, counts)
    rows = decided.held.where(f"{staged.REASON} IS NULL").withColumn(staged.BASE, F.lit(None).cast("bigint"))
    newest = newest_per_key(rows, table, decided.plan.source, alone=not counts.duplicate)
    return merge_rows(Target(table, context.merged), newest, counts, decided.commit)


def _store_merged(context: TableContext, decided: Decided) -> None:
    """Store what was decided, now that it is merged.

    A batch whose marks another writer prevents is merged all the same: the next redrive sets them.
    """
    rejected = context.stored(rejected_layout)
    try:
        again(lambda: store_rejected(rejected, replace(decided, merged=context.ledger())))
    except ConflictError:
        if decided.commit.kind != "batch":
            raise


def _counted(commit: Commit, counts: Counts, table: StreamTable) -> Commit:
    return commit.with_fields(
        read=counts.read,
        rejected=counts.rejected,
        duplicate=counts.duplicate,
        late=counts.late,
        declaration=table.fingerprint,
    )


def require_accounted(entry: Entry, table: StreamTable) -> Entry:
    """Return the entry, or raise ``AccountingError`` where it does not account for every record it read."""
    commit, counted = entry.commit, entry.metrics
    if commit.read != commit.rejected + commit.duplicate + counted.source_rows or counted.stale < 0:
        raise AccountingError(
            f"Batch {commit.number} read {commit.read} records but accounts for {commit.rejected} rejected,"
            f" {commit.duplicate} duplicate and {counted.source_rows} merged",
            where=f"table {table.name}, version {entry.version}",
            action=f"See what to do with: lakehouse audit {table.name}",
        )
    return entry
