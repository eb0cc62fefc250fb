"""One batch, from plan to commit: where the stages meet, and only that."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.accounting import sentence
from lakehouse.commits import Commit, Entry
from lakehouse.declaration import StreamTable
from lakehouse.decode import decode_records
from lakehouse.delta import commit_nothing, ensure_table
from lakehouse.errors import AccountingError, ConflictError, ReadLossError
from lakehouse.failures import table_failures
from lakehouse.gaps import gap_commit, plan_table
from lakehouse.ledger import Ledger, read_ledger, require_told
from lakehouse.load import merge_base
from lakehouse.merge import Counts, Target, count_batch, merge_rows, merged_layout, newest_per_key
from lakehouse.offsets import Bounds, Plan, TopicState, lag_of
from lakehouse.rejected import Decided, rejected_layout, store_rejected
from lakehouse.settings import Settings
from lakehouse.topic import look, read_failures, read_records, require_same_topic

_ATTEMPTS = 5  # plans made before a batch gives way to other writers
PATIENCE = 15.0  # seconds for a look: a leader that died has a successor after 9, by the broker's default
_PLAN_AGAIN = (ConflictError, ReadLossError)
T = TypeVar("T")
Passing = tuple[type[Exception], ...]


@dataclass(frozen=True)
class Request:
    """What somebody asks for: batches of at most ``max_records``, up to ``until``; ``run`` says who asks.

    ``None`` leaves the size of a batch to the declaration; a number wins over it, be it less or more.
    """

    max_records: int | None = None
    until: Mapping[int, int] = field(default_factory=dict)
    run: str = "cli"

    def limit(self, table: StreamTable) -> int:
        """How many positions a batch of this table takes at most."""
        return table.max_records if self.max_records is None else self.max_records


@dataclass(frozen=True)
class Outcome:
    """What one commit to the merged table did; lag is in offsets over all partitions."""

    entry: Entry
    plan: Plan | None
    lag_before: int
    lag_after: int
    seconds: float

    def __str__(self) -> str:
        """What it did in a sentence, for a log."""
        return f"{sentence(self.entry)}; lag {self.lag_after:,}, {self.seconds:.1f} s"


@dataclass(frozen=True)
class Engine:
    """What a batch works with: a session, the settings, the table and who asked."""

    spark: SparkSession
    settings: Settings
    table: StreamTable
    run: str = "cli"

    def ledger(self) -> Ledger:
        """Read the merged table's ledger."""
        return merged_ledger(self.settings, self.table)

    def look(self) -> TopicState:
        """Look at the topic, also while the leader of a partition is being replaced."""
        return look(self.settings, self.table.topic, PATIENCE)


def merged_ledger(settings: Settings, table: StreamTable) -> Ledger:
    """Read the ledger of the merged table, without a JVM; ``LedgerError`` where it does not tell the progress."""
    return require_told(read_ledger(settings.table_uri(table.name), table.name), table.name)


def plan_next(settings: Settings, table: StreamTable, request: Request = Request()) -> Plan:
    """Plan the next batch without reading or writing anything, and without a JVM."""
    progress = merged_ledger(settings, table).progress
    bounds = Bounds(request.limit(table), request.until)
    return plan_table(table, look(settings, table.topic, PATIENCE), progress, bounds)


def merge_all(
    spark: SparkSession,
    settings: Settings,
    table: StreamTable,
    request: Request = Request(),
    on_batch: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Merge the base rows where they are newer, then batches up to the ends seen at the start.

    Returns one outcome for each commit, in order; none where there was nothing to do, which is what a
    second run finds. Where records are gone, raises ``DataLossError``, or records the gap and goes on behind
    it, as the table declares. Raises ``BrokerError`` and ``TopicError``.
    """
    engine = Engine(spark, settings, table, request.run)
    again(lambda: prepare(engine))
    outcomes: list[Outcome] = []
    based = again(lambda: _merge_base(engine))
    if based:
        outcomes.append(based)
        on_batch(based)
    ends = engine.look().end
    bounds = Bounds(request.limit(table), {p: min(end, request.until.get(p, end)) for p, end in ends.items()})
    while outcome := again(lambda: merge_batch(engine, bounds), _PLAN_AGAIN):
        outcomes.append(outcome)
        on_batch(outcome)
    return outcomes


@table_failures()
def again(step: Callable[[], T], passing: Passing = (ConflictError,)) -> T:
    """Run a step, and plan it again where another writer was first, or after such errors: so many times."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return step()
        except passing:
            continue
    return step()


def prepare(engine: Engine) -> None:
    """Create the merged and the rejected table where they are missing, and add columns they lack."""
    ensure_table(engine.spark, merged_layout(engine.table, engine.settings))
    ensure_table(engine.spark, rejected_layout(engine.table, engine.settings))


def _merge_base(engine: Engine) -> Outcome | None:
    started = time.monotonic()
    entry = merge_base(engine.spark, engine.settings, engine.table, engine.ledger(), engine.run)
    if entry is None:
        return None
    return Outcome(require_accounted(entry, engine.table), None, 0, 0, time.monotonic() - started)


def merge_batch(engine: Engine, bounds: Bounds) -> Outcome | None:
    """Merge the next batch: one look, one plan, one commit; ``None`` where there is nothing to read.

    A gap that the declaration accepts is a commit of its own, before the batch behind it.
    """
    started = time.monotonic()
    ledger = engine.ledger()
    state = engine.look()
    plan = plan_table(engine.table, state, ledger.progress, bounds)
    if plan.gap:
        gap = gap_commit(ledger, engine.table, plan, engine.run)
        entry = commit_nothing(engine.spark, merged_layout(engine.table, engine.settings), gap)
        lag = sum(lag_of(state, ledger.progress).values())
        return Outcome(entry, None, lag, lag, time.monotonic() - started)
    if plan.span == 0:
        return None
    commit = ledger.next_commit("batch", engine.run).model_copy(
        update={"incarnation": plan.incarnation, "progress": dict(plan.progress.offsets)}
    )
    entry = run_batch(engine, plan, commit, ledger.undone)
    before, after = (sum(lag_of(state, progress).values()) for progress in (ledger.progress, plan.progress))
    return Outcome(entry, plan, before, after, time.monotonic() - started)


def run_batch(engine: Engine, plan: Plan, commit: Commit, undone: frozenset[int]) -> Entry:
    """Read exactly what is planned, decode it, keep what is rejected, merge the rest in one commit.

    ``undone`` are the numbers of the table's commits that no longer hold.
    """
    spark, settings, table = engine.spark, engine.settings, engine.table
    command = f"lakehouse {'merge' if commit.kind == 'batch' else commit.kind} {table.name}"
    with read_failures(plan, command):
        held = decode_records(read_records(spark, settings, plan), table).localCheckpoint()
    require_same_topic(plan, engine.look(), command)
    said = commit.model_copy(update={"topic": plan.topic, "ranges": plan.ranges})
    return merge_decided(engine, Decided(held, plan, said, undone), count_batch(held, table))


def merge_decided(engine: Engine, decided: Decided, counts: Counts) -> Entry:
    """Merge the records that may enter in one commit and store the others, each when a crash does no harm."""
    table, layout = engine.table, rejected_layout(engine.table, engine.settings)
    commit = _counted(decided.commit, counts, table)
    if commit.kind == "batch":
        store_rejected(engine.spark, layout, decided)
    rows = decided.held.where("reason IS NULL").withColumn("base_version", F.lit(None).cast("bigint"))
    target = Target(table, merged_layout(table, engine.settings))
    entry = merge_rows(engine.spark, target, newest_per_key(rows, table), counts.prune, commit)
    if commit.kind != "batch":
        again(lambda: store_rejected(engine.spark, layout, decided))
    return require_accounted(entry, table)


def _counted(commit: Commit, counts: Counts, table: StreamTable) -> Commit:
    return commit.model_copy(
        update={
            "read": counts.read,
            "rejected": counts.rejected,
            "duplicate": counts.duplicate,
            "late": counts.late,
            "declaration": table.fingerprint,
        }
    )


def require_accounted(entry: Entry, table: StreamTable) -> Entry:
    """Return the entry, or raise ``AccountingError`` where it does not account for every record it read."""
    commit, counted = entry.commit, entry.metrics
    if commit.read != commit.rejected + commit.duplicate + counted.source_rows or counted.stale < 0:
        raise AccountingError(
            f"Batch {commit.number} read {commit.read} records but accounts for {commit.rejected} rejected,"
            f" {commit.duplicate} duplicate and {counted.source_rows} merged",
            where=f"table {table.name}, version {entry.version}",
            action=f"Look at it with: lakehouse audit {table.name}",
        )
    return entry
