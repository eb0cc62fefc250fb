"""Decisions of a person: accept lost records, a batch that does not add up, or a declaration; record a lost progress.

Each decision is a commit of its own in the ledger, without rows, so that it stays visible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.decoding import staged
from lakehouse.derived.refresh import refresh_and_retry
from lakehouse.errors import LakehouseError, LedgerError
from lakehouse.ingest.batches import prepare
from lakehouse.ingest.decode import decode_records
from lakehouse.ingest.deletes import deletes_layout
from lakehouse.ingest.gaps import can_be_accepted, data_loss_error, gap_commit, plan_next_of
from lakehouse.ingest.missing_keys import has_position_in
from lakehouse.ingest.rejecting_rules import read_known
from lakehouse.ingest.rejections import stored_rejections
from lakehouse.ingest.schema_resolution import kept_schemas
from lakehouse.ingest.topics import split_context, with_start
from lakehouse.kafka import PATIENCE
from lakehouse.ledger.accounting import differences
from lakehouse.ledger.commit_values import Consumed, LastRecord, LastRecords, OtherSource, ReachedEnds, merge_reached
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.planning import Bounds
from lakehouse.ledger.positions import Gap, Plan, Range, SourceId, SourceState, source_words
from lakehouse.settings import Settings
from lakehouse.settings.environment import user_of_host
from lakehouse.sources.table_sources import source_of
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.table_context import TableContext, merged_ledger, retry_on_conflict, whole_ledger


@dataclass(frozen=True)
class Proposal:
    """A proposal for a person to accept, and the commit that records exactly what was shown.

    ``facts`` say which records are gone or which batch does not add up; ``positions`` where each partition continues.
    """

    facts: tuple[str, ...]
    commit: Commit

    @property
    def positions(self) -> Mapping[int, int]:
        """The next offset to read of every partition of the topic, after the proposal is recorded."""
        return self.commit.progress or {}

    @property
    def all_positions(self) -> Mapping[str, Mapping[int, int]]:
        """Positions by the name of the topic."""
        other_sources = {
            part.stream: part.progress for part in self.commit.other_sources.values() if part.progress is not None
        }
        return {self.commit.stream or "": self.positions, **other_sources}


def record(context: TableContext, proposal: Proposal) -> Entry:
    """Record a proposal as it was shown, without reading the topic again.

    Raises ``ConflictError`` if the table has a newer commit of lakehouse, which has its number: then the proposal must
    be shown again. If another program such as OPTIMIZE was first, the same commit is tried again. If the topic lost
    more records since, the next merge stops and names them.
    """
    return retry_on_conflict(lambda: context.merged.commit_nothing(proposal.commit))


def propose_gap(settings: Settings, table: StreamTable, *, only_deletes: bool = False) -> Proposal | None:
    """Propose to continue after lost records, without a JVM; ``None`` if no records are lost.

    Raises ``DataLossError`` if the gap cannot be accepted, because the rows after it would be ordered wrongly, and for
    any other loss than one of deletes if ``only_deletes``.

    Partitions that lost records continue at the earliest offset, or where the topic is known to be unchanged. No record
    in the topic is skipped. Records that were merged before are merged again, which changes nothing.
    """
    ledger = merged_ledger(settings, table)
    state = with_start(settings, table, ledger, source_of(settings, table).read_state(ledger, PATIENCE))
    plan = plan_next_of(ledger, state, Bounds())
    if plan.gap is None:
        return None
    if not can_be_accepted(plan.gap, table) or (only_deletes and not plan.gap.hides_deletes):
        raise data_loss_error(plan.gap, table)
    return Proposal(plan.gap.facts, gap_commit(ledger, plan, settings.command_run))


def propose_acceptance(settings: Settings, table: StreamTable, versions: Sequence[int], reason: str) -> Proposal:
    """Propose to accept the differences at these versions, for a reason given as text, without a JVM.

    The ``facts`` are the differences, oldest first. Raises ``LakehouseError`` if a version has no open difference, and
    names the versions that have one. A difference can be accepted only once.
    """
    ledger = whole_ledger(settings, table)
    open_versions = ledger.unaccounted
    wrong_versions = sorted(set(versions) - set(open_versions))
    if wrong_versions:
        choices = ", ".join(map(str, open_versions)) or "none"
        raise LakehouseError(
            f"There is no difference to accept at version {', '.join(map(str, wrong_versions))} of {table.name}",
            where=ledger.uri,
            action=f"Versions with a difference that is not accepted: {choices}. See: lakehouse audit {table.name}",
        )
    facts = [difference.text for difference in differences(ledger.entries) if difference.version in versions]
    fields = {
        "unaccounted": tuple(version for version in open_versions if version not in versions),
        "accepted": tuple(sorted(set(versions))),
        "reason": reason,
    }
    return Proposal(tuple(facts), ledger.next_commit("acceptance", settings.command_run).with_fields(**fields))


def accept_declaration(context: TableContext, changes: Sequence[str]) -> Entry:
    """Change the tables as declared, and record in the merged table who accepted which changes.

    Raises what ``prepare`` raises; nothing is recorded then.
    """
    reason = f"{user_of_host()} accepted the declaration: {'; '.join(changes)}"
    refresh_and_retry(context, lambda: retry_on_conflict(lambda: prepare(context)))

    def record_reason() -> Entry:
        commit = context.merged.next_commit("acceptance", context.run)
        return context.merged.commit_nothing(commit.with_fields(reason=reason))

    return retry_on_conflict(record_reason)


@spark_failures()
def propose_progress(context: TableContext) -> Proposal:
    """Propose a progress from the merged rows: one offset after the greatest one of each partition of each topic.

    Only for a table whose log no longer records its progress, otherwise raises ``LakehouseError``. A row counts only if
    the topic still has its record, because rows of an earlier topic with the same name have offsets too. All other
    partitions start at their earliest offset. All stored deletes count. Merging records again changes nothing, unless
    rows are ordered only by offset: the records would seem older than the rows, so this raises ``DataLossError``.
    Rejected records never count. In a change stream, offsets decide among all changes up to then; truncates before it
    are not known.
    """
    ledger = _ledger_without_progress(context)
    parts = split_context(context)
    states = [source_of(context.settings, part.table).read_state(None, PATIENCE) for part in parts]
    if context.table.order == "offset":
        _require_one_source(context, states[0])
    positions = [_read_positions(part, state) for part, state in zip(parts, states, strict=True)]
    times = _greatest_times(context)
    other_sources = {
        state.source.text: OtherSource(
            stream=state.stream, progress=progress, last_records=times.get(state.source.text, {})
        )
        for state, progress in zip(states, positions, strict=True)
    }
    state = states[0]
    own = other_sources.pop(state.source.text)
    fields = {"stream": state.stream, "source": state.source, "progress": own.progress, "other_sources": other_sources}
    fields |= {"last_records": own.last_records}
    fields |= {"reached": _reached_by_rows(context.merged.rows()) if context.table.is_log else {}}
    fields |= {"deletes_table": _newest_deletes(context), "snapshot_position": _greatest_position(context)}
    fields |= {"rejected_table": stored_rejections(context)}
    return Proposal((), ledger.next_commit("recovery", context.run).with_fields(**fields))


def _read_positions(context: TableContext, state: SourceState) -> dict[int, int]:
    """The proposed progress of one topic, by its partitions."""
    spark, settings, table = context.spark, context.settings, context.table
    newest_rows = _newest_rows(context.merged.rows(), table, state).localCheckpoint()
    row_ranges = tuple(Range(row[0], row[1], row[1] + 1) for row in newest_rows.collect())
    confirmed_partitions: set[int] = set()  # their newest row came from a record that the topic still has
    if row_ranges:
        plan = Plan(state.stream, state.source, row_ranges)
        source = source_of(settings, table)
        with source.failures(plan, f"lakehouse repair progress {table.name}"):
            schemas, known_values = kept_schemas(settings, table), read_known(settings, table)
            records = decode_records(source.read(spark, plan, None), table, schemas, known_values=known_values)
            matches = records.join(newest_rows, newest_rows.columns).select(staged.PARTITION)
            confirmed_partitions = {row[0] for row in matches.collect()}
    unconfirmed_ranges = [part for part in row_ranges if part.partition not in confirmed_partitions]
    if unconfirmed_ranges and table.order == "offset":
        words = source_words(state.source)
        mismatch = f"the {words.source} has another record at {words.position}"
        facts = (f"Partition {part.partition}: {mismatch} {part.start}" for part in unconfirmed_ranges)
        raise data_loss_error(Gap(tuple(facts), tuple(unconfirmed_ranges)), table)
    ends = {part.partition: part.end for part in row_ranges if part.partition in confirmed_partitions}
    return {**state.earliest, **ends}


def _greatest_times(context: TableContext) -> dict[str, LastRecords]:
    """The greatest time of the rows and deletes of each partition, by source: no later record is ordered before it."""
    groups = _stored_records(context).groupBy("source", "partition").agg(F.expr("unix_micros(max(time))"))
    times: dict[str, LastRecords] = {}
    for source, partition, greatest_time in groups.collect():
        times.setdefault(source, {})[partition] = LastRecord(greatest_time=greatest_time)
    return times


def _greatest_position(context: TableContext) -> int | None:
    """The greatest position of the source in the rows of a change stream: any of them may be that of a snapshot."""
    if not context.table.has_changes:
        return None
    row = context.merged.rows().agg(F.max("_record.sequence")).first()
    return row[0] if row else None


def _newest_deletes(context: TableContext) -> Consumed | None:
    ledger = ledger_of(context.settings, context.table.deletes_name)
    return version_to_consume(ledger) if context.table.delete_rule and ledger.exists else None


def _require_one_source(context: TableContext, state: SourceState) -> None:
    """Raise ``DataLossError`` if rows came from another source: by offset alone, newer records may seem older."""
    sources = _stored_records(context).select("source").distinct()
    for (source,) in sources.where(F.col("source") != state.source.text).limit(1).collect():
        fact = f"{state.differs_from(SourceId.parse(source))}; the table has rows of both"
        raise data_loss_error(Gap((fact,), ()), context.table)


def _stored_records(context: TableContext) -> DataFrame:
    """The records of the rows and of the deletes that are stored: source, partition, and the time that orders them."""
    tables, deletes = [context.merged.rows()], context.stored_table(deletes_layout)
    if context.table.delete_rule and deletes.ledger().exists:
        tables.append(deletes.rows())
    return reduce(DataFrame.unionByName, map(_records_of, tables))


def _records_of(rows: DataFrame) -> DataFrame:
    records = rows.where("_record.position IS NOT NULL")
    time = F.coalesce("_record.order_time", "_record.time").alias("time")
    return records.select("_record.source", "_record.partition", time)


def _ledger_without_progress(context: TableContext) -> Ledger:
    """The ledger of a table whose history does not record its progress; ``LakehouseError`` if it does."""
    table = context.table
    try:
        context.ledger()
    except LedgerError:
        return ledger_of(context.settings, table.name)
    raise LakehouseError(
        f"The history of {table.name} records its progress; there is nothing to recover",
        action=f"Continue with: lakehouse merge {table.name}",
    )


def _reached_by_rows(rows: DataFrame) -> ReachedEnds:
    """The end offsets of a log table's rows, by source and partition."""
    end = F.expr("max(_record.position) + 1")
    ends = rows.where("_record.position IS NOT NULL").groupBy("_record.source", "_record.partition").agg(end).collect()
    return merge_reached(*({row[0]: {row[1]: row[2]}} for row in ends))


def _newest_rows(rows: DataFrame, table: StreamTable, state: SourceState) -> DataFrame:
    """For each partition, the row with the greatest offset in the source: offset, timestamp and key."""
    rows = rows.where(F.col("_record.source") == state.source.text)
    position = F.expr(f"struct(_record.position AS {staged.POSITION}, _record.time AS {staged.TIME})")
    newest = F.max_by(F.struct(position.alias("_at"), *table.key), "_record.position").alias("_newest")
    partition = F.col("_record.partition").alias(staged.PARTITION)
    newest_rows = rows.where(has_position_in(state, RECORD)).groupBy(partition).agg(newest)
    return newest_rows.select(staged.PARTITION, "_newest._at.*", *(f"_newest.{name}" for name in table.key))
