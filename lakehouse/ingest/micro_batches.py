"""The micro-batches of a streaming query over topics: which positions they reach. Their rows are not merged.

The ranges that a table merges are read by its own source: a query may have read records of aborted transactions, or
dropped some of its rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.errors import LakehouseError, TopicError
from lakehouse.ingest.batches import prepare
from lakehouse.ingest.gaps import plan_table
from lakehouse.ingest.topics import with_start
from lakehouse.kafka import PATIENCE, first_records, is_exact_in_spark, written_ends
from lakehouse.ledger.planning import Bounds
from lakehouse.ledger.positions import Plan, Positions, Range, SourceState, first_of
from lakehouse.settings import Settings
from lakehouse.sources.table_sources import source_of
from lakehouse.storage.table_context import TableContext

_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
}
_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_OPTIONAL_COLUMNS = {"timestampType": "int", "headers": "array<struct<key:string,value:binary>>"}


@dataclass(frozen=True)
class MicroBatchPart:
    """The records of one partition in a micro-batch: their range, and the time of the last one.

    The time is in milliseconds since 1970, UTC, as the topic has it.
    """

    range: Range
    last_milliseconds: int


@dataclass(frozen=True)
class MicroBatchPlan:
    """What a table merges for a micro-batch of one topic: the state of the topic, and the plan up to ``ends``.

    A partition that the micro-batch does not have ends where it starts.
    """

    state: SourceState
    plan: Plan
    ends: Positions


def read_parts(records: DataFrame) -> dict[str, list[MicroBatchPart]]:
    """Return the partitions of a micro-batch by their topic; reads the micro-batch once.

    Raises ``LakehouseError`` if the columns are not those of Spark's Kafka source.
    """
    _require_columns(records)
    bounds = {
        "first": F.min("offset"),
        "last": F.max("offset"),
        "milliseconds": F.expr("unix_millis(max_by(timestamp, offset))"),
    }
    aggregates = [value.alias(name) for name, value in bounds.items()]
    rows = records.groupBy("topic", "partition").agg(*aggregates).collect()
    if any(None in tuple(row) for row in rows):  # a row contains its names
        raise _columns_error(["topic, partition, offset or timestamp is NULL"])
    parts_by_topic: dict[str, list[MicroBatchPart]] = {}
    for row in sorted(rows, key=lambda row: row["partition"]):
        part = MicroBatchPart(Range(row["partition"], row["first"], row["last"] + 1), row["milliseconds"])
        parts_by_topic.setdefault(row["topic"], []).append(part)
    return parts_by_topic


def plan_micro_batch(context: TableContext, ends: Positions) -> MicroBatchPlan:
    """Plan what a table merges of one topic up to these ends, from its progress; writes nothing.

    Raises ``DataLossError`` as any plan does, and ``TopicError`` if the topic has never had such ends.
    """
    settings, table, ledger = context.settings, context.table, context.ledger()
    state = with_start(settings, table, ledger, source_of(settings, table).read_state(ledger, PATIENCE))
    all_ends = {partition: ends.get(partition, 0) for partition in state.end}
    plan = plan_table(table, state, ledger, Bounds(until=all_ends))
    _require_written(settings, state, ends)
    return MicroBatchPlan(state, plan, all_ends)


def require_same_records(settings: Settings, state: SourceState, parts: list[MicroBatchPart]) -> None:
    """Raise ``TopicError`` if the topic has other records than a micro-batch, by the times of the last ones.

    A record that the topic does not hold any more, or that was aborted, is not compared; nor is one with a time that
    Spark shifts.
    """
    last_ranges = [Range(part.range.partition, part.range.end - 1, part.range.end) for part in parts]
    earliest, end = state.earliest, state.end
    readable_ranges = [p for p in last_ranges if earliest[p.partition] <= p.start and p.end <= end[p.partition]]
    records = first_records(settings, state.stream, readable_ranges) if readable_ranges else {}
    for part in parts:
        partition, record = part.range.partition, records.get(part.range.partition)
        milliseconds = (record.time - _EPOCH) // _MILLISECOND if record and record.time else None
        if milliseconds is None or not is_exact_in_spark(milliseconds):
            continue
        if milliseconds != part.last_milliseconds:
            raise _other_topic_error(
                state, f"has another record at offset {part.range.end - 1} of partition {partition}"
            )


def describe_merged(plan: Plan, parts: list[MicroBatchPart]) -> str:
    """Return which offsets of a micro-batch are before the progress of the table, in words; empty if none is."""
    starts = {part.partition: part.start for part in plan.ranges}
    return _describe(Range(r.partition, r.start, min(r.end, starts[r.partition])) for r in _ranges(parts))


def find_earlier(plan: Plan, parts: list[MicroBatchPart]) -> list[Range]:
    """Return the ranges between the progress of the table and the first offsets of a micro-batch.

    They end with the plan: records of an open transaction cannot be read.
    """
    planned_ranges = {part.partition: part for part in plan.ranges}
    ranges = (
        replace(planned_ranges[p.partition], end=min(p.start, planned_ranges[p.partition].end)) for p in _ranges(parts)
    )
    return [part for part in ranges if part.span > 0]


def describe_earlier(settings: Settings, plan: Plan, parts: list[MicroBatchPart]) -> str:
    """Return which records come between the progress and a micro-batch, in words; empty if there are none.

    Only ranges with a record count: markers of transactions have offsets too.
    """
    ranges = find_earlier(plan, parts)
    records = first_records(settings, plan.stream, ranges) if ranges else {}
    return _describe(part for part in ranges if part.partition in records)


def find_waiting(state: SourceState, ends: Mapping[int, int]) -> dict[int, int]:
    """Return the ends that a topic has not committed yet, because a transaction is open."""
    return {partition: end for partition, end in ends.items() if end > state.end[partition]}


def record_waiting(context: TableContext, plan: Plan, ends: Positions) -> None:
    """Record the ends that wait for a transaction in a commit, unless it has them: a new process has to know them.

    The commit moves no progress. That of a new table records where its first batch will begin.
    """
    prepare(context)
    ledger = context.ledger()
    commit = ledger.next_commit("wait", context.run)
    if ledger.progress is None:
        commit = commit.with_fields(stream=plan.stream, source=plan.source, progress=plan.progress.positions)
    if commit.awaited.get(plan.source.text) != ends:
        awaited = {**commit.awaited, plan.source.text: dict(ends)}
        context.merged.commit_nothing(commit.with_fields(awaited=awaited))


def _ranges(parts: list[MicroBatchPart]) -> list[Range]:
    return [part.range for part in parts]


def _describe(ranges: Iterator[Range]) -> str:
    texts = [f"partition {p.partition}: offsets {p.start} to {p.end - 1}" for p in ranges if p.span > 0]
    return "; ".join(first_of(texts, "partitions"))


def _require_written(settings: Settings, state: SourceState, ends: Positions) -> None:
    """Raise if the topic has no such partition, or ends before; records of an open transaction are written."""
    log_ends = state.end
    if any(end > log_ends.get(partition, 0) for partition, end in ends.items()):
        log_ends = written_ends(settings, state.stream, state.end, PATIENCE)
    for partition, end in sorted(ends.items()):
        if partition not in log_ends:
            raise _other_topic_error(state, f"has no partition {partition}")
        if end > log_ends[partition]:
            fact = f"has no offset {end - 1} in partition {partition}, which ends at {log_ends[partition]}"
            raise _other_topic_error(state, fact)


def _other_topic_error(state: SourceState, fact: str) -> TopicError:
    return TopicError(
        f"The query reads another topic than the table: that of the table {fact}",
        where=f"topic {state.stream}",
        action="Nothing was merged. Give the query the broker of LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS. If the topic was"
        " created again, give it a new checkpoint.",
    )


def _require_columns(records: DataFrame) -> None:
    types = {field.name: field.dataType.simpleString() for field in records.schema.fields}
    problems = [
        f"{name} is {types[name].upper()}, expected {type_.upper()}" if name in types else f"{name} is missing"
        for name, type_ in _COLUMNS.items()
        if types.get(name) != type_
    ]
    problems += [f"{name} is not one of them" for name in types if name not in {**_COLUMNS, **_OPTIONAL_COLUMNS}]
    if problems:
        raise _columns_error(problems)


def _columns_error(problems: list[str]) -> LakehouseError:
    text = "; ".join(first_of(problems, "columns"))
    return LakehouseError(
        f"A micro-batch does not have the columns of Spark's Kafka source: {text}",
        where="foreach_batch",
        action="Nothing was merged. Pass the stream of format kafka as it is: the table decodes the records. Append"
        " another stream to a Delta table, and declare a table with source=TableRows(...).",
    )
