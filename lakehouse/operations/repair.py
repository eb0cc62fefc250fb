"""What a person decides when records or the ledger are gone, or a batch does not add up: accept it, or record it anew.

Each is a commit of its own in the ledger, an empty MERGE, so that the decision stays visible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.decoding import staged
from lakehouse.errors import LakehouseError, LedgerError
from lakehouse.ingest.decode import decode_records
from lakehouse.ingest.gaps import can_be_accepted, gap_commit, loss, plan_next_of
from lakehouse.ingest.kept_schemas import kept_schemas
from lakehouse.kafka import look, read_failures, read_records
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.differences import differences
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.positions import Bounds, Gap, Plan, Range, SourceId, SourceState, words_of
from lakehouse.ledger.reached import Reached, furthest
from lakehouse.settings import Settings
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.table_context import TableContext, merged_ledger, whole_ledger


@dataclass(frozen=True)
class Proposal:
    """What a person is asked to decide, and the commit that records it: exactly what was shown.

    ``facts`` say what is gone, or does not add up; ``positions`` where each partition goes on.
    """

    facts: tuple[str, ...]
    commit: Commit

    @property
    def positions(self) -> Mapping[int, int]:
        """The next position to read of every partition, once it is recorded."""
        return self.commit.progress or {}


def record(context: TableContext, accepted: Proposal) -> Entry:
    """Record a proposal as it was shown, without another look at the topic.

    Raises ``ConflictError`` where somebody committed since: it has to be shown again then. Where the topic lost
    more records since, the next merge stops and names those.
    """
    return context.merged.commit_nothing(accepted.commit)


def propose_gap(settings: Settings, table: StreamTable, run: str = "cli") -> Proposal | None:
    """Propose to go on behind records that are gone, without a JVM; ``None`` where none are.

    Raises ``DataLossError`` where the gap cannot be accepted: the rows would be ordered wrongly behind it.

    Partitions that lost records go on at the earliest position there is. Nothing that is still in the topic
    is stepped over: what was merged before is merged again, which changes nothing.
    """
    ledger = merged_ledger(settings, table)
    plan = plan_next_of(ledger, look(settings, table.topic), Bounds())
    if plan.gap is None:
        return None
    if not can_be_accepted(plan.gap, table):
        raise loss(plan.gap, table)
    return Proposal(plan.gap.facts, gap_commit(ledger, plan, run))


def propose_acceptance(
    settings: Settings, table: StreamTable, versions: Sequence[int], reason: str, run: str = "cli"
) -> Proposal:
    """Propose to accept what does not add up at these versions, for a reason in words; without a JVM.

    Its ``facts`` are the differences, oldest first. Raises ``LakehouseError`` where a version has none that is open,
    and names those that have: a difference that was accepted cannot be accepted again.
    """
    ledger = whole_ledger(settings, table)
    known = ledger.unaccounted
    unknown = sorted(set(versions) - set(known))
    if unknown:
        those = ", ".join(map(str, known)) or "none"
        raise LakehouseError(
            f"Nothing is to be accepted at version {', '.join(map(str, unknown))} of {table.name}",
            where=ledger.uri,
            action=f"Versions with a difference that nobody accepted: {those}. See: lakehouse audit {table.name}",
        )
    facts = [each.text for each in differences(ledger.entries) if each.version in versions]
    said = {
        "unaccounted": tuple(version for version in known if version not in versions),
        "accepted": tuple(sorted(set(versions))),
        "reason": reason,
    }
    return Proposal(tuple(facts), ledger.next_commit("acceptance", run).with_fields(**said))


@spark_failures()
def propose_progress(context: TableContext) -> Proposal:
    """Propose a progress from the merged rows: one past the greatest position of each partition.

    For a table whose log no longer tells; raises ``LakehouseError`` where it does. A position counts only where the
    topic still holds the record that the row came from: rows of a former topic of that name have positions too. Any
    other partition starts at its earliest position; merging records again changes nothing, but where rows are ordered
    by offset alone they would seem older than the rows: ``DataLossError``. Rejected records never count.
    """
    spark, settings, table = context.spark, context.settings, context.table
    ledger, state = _untold_ledger(context), look(settings, table.topic)
    if table.order == "offset":
        _require_one_source(context, state)
    newest = _newest_rows(context.merged.rows(), table, state).localCheckpoint()
    seen = tuple(Range(row[0], row[1], row[1] + 1) for row in newest.collect())
    found: set[int] = set()
    if seen:
        plan = Plan(state.stream, state.source, seen)
        with read_failures(plan, f"lakehouse recover-progress {table.name}"):
            records = decode_records(read_records(spark, settings, plan), table, kept_schemas(settings, table))
            found = {row[0] for row in records.join(newest, newest.columns).select(staged.PARTITION).collect()}
    other = [part for part in seen if part.partition not in found]
    if other and table.order == "offset":
        words = words_of(state.source)
        holds = f"the {words.source} holds another record at {words.position}"
        facts = (f"Partition {part.partition}: {holds} {part.start}" for part in other)
        raise loss(Gap(tuple(facts), tuple(other)), table)
    positions = {**state.earliest, **{part.partition: part.end for part in seen if part.partition in found}}
    reached = _reached_by_rows(context.merged.rows()) if table.is_log else {}
    said = {"stream": state.stream, "source": state.source, "progress": positions, "reached": reached}
    return Proposal((), ledger.next_commit("recovery", context.run).with_fields(**said))


def _require_one_source(context: TableContext, state: SourceState) -> None:
    """Raise ``DataLossError`` where rows came from another source: by position alone, newer records may seem older."""
    others = context.merged.rows().where("_record.position IS NOT NULL").select("_record.source").distinct()
    for (source,) in others.where(F.col("source") != state.source.text).limit(1).collect():
        fact = f"{state.differs_from(SourceId.parse(source))}; rows of both are in the table"
        raise loss(Gap((fact,), ()), context.table)


def _untold_ledger(context: TableContext) -> Ledger:
    """The ledger of a table whose history does not tell its progress; ``LakehouseError`` where it does."""
    table = context.table
    try:
        context.ledger()
    except LedgerError:
        return ledger_of(context.settings, table.name)
    action = f"Go on with: lakehouse merge {table.name}"
    raise LakehouseError(f"The history of {table.name} tells its progress; there is nothing to recover", action=action)


def _reached_by_rows(rows: DataFrame) -> Reached:
    """Where the positions of a log table's rows end, by source and partition."""
    end = F.expr("max(_record.position) + 1")
    ends = rows.where("_record.position IS NOT NULL").groupBy("_record.source", "_record.partition").agg(end).collect()
    return furthest(*({row[0]: {row[1]: row[2]}} for row in ends))


def _newest_rows(rows: DataFrame, table: StreamTable, state: SourceState) -> DataFrame:
    """Of each partition the row with the greatest position that the source holds: position, timestamp and key."""
    within = (
        f"(_record.partition = {p} AND _record.position >= {earliest} AND _record.position < {state.end[p]})"
        for p, earliest in state.earliest.items()
    )
    rows = rows.where(F.col("_record.source") == state.source.text)
    place = F.expr(f"struct(_record.position AS {staged.POSITION}, _record.time AS {staged.TIME})")
    newest = F.max_by(F.struct(place.alias("_at"), *table.key), "_record.position").alias("_newest")
    grouped = rows.where(" OR ".join(within)).groupBy(F.col("_record.partition").alias(staged.PARTITION)).agg(newest)
    return grouped.select(staged.PARTITION, "_newest._at.*", *(f"_newest.{name}" for name in table.key))
