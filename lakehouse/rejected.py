"""Rejected records: kept with their bytes, their position and a reason, in a table of their own."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.commits import Commit
from lakehouse.declaration import StreamTable
from lakehouse.delta import Layout, TableColumn, commit_merge, quoted, read_table
from lakehouse.ledger import read_ledger
from lakehouse.offsets import Plan, Progress, Range
from lakehouse.settings import Settings

_POSITION = ("cluster_id", "topic_id", "kafka_partition", "kafka_offset")
_COLUMNS = (
    TableColumn("cluster_id", "STRING", "Cluster the record stands in; part of its position."),
    TableColumn("topic_id", "STRING", "Incarnation of the topic; part of its position."),
    TableColumn("kafka_partition", "INT", "Partition; part of its position."),
    TableColumn("kafka_offset", "BIGINT", "Offset; part of its position."),
    TableColumn("kafka_timestamp", "TIMESTAMP", "When the broker got the record, UTC."),
    TableColumn("key", "BINARY", "The record's key, as it came."),
    TableColumn("value", "BINARY", "The record's value, as it came; NULL for a tombstone."),
    TableColumn("headers", "ARRAY<STRUCT<key: STRING, value: BINARY>>", "The record's headers, as they came."),
    TableColumn("reason", "STRING", "Why it may not enter, one of a short list."),
    TableColumn("detail", "STRING", "What exactly was wrong."),
    TableColumn("number", "BIGINT", "Number of the batch that rejected it."),
    TableColumn("resolved_number", "BIGINT", "Number of the commit in which it passed; NULL while it is rejected."),
)
_FROM_RECORD = ("kafka_partition", "kafka_offset", "kafka_timestamp", "key", "value", "headers", "reason", "detail")
_FAILS = "s.reason IS NOT NULL"
_DECIDED = [column.name for column in _COLUMNS if column.name not in _POSITION]
_CLAUSES = (
    "ON " + " AND ".join(f"t.{c} = s.{c}" for c in _POSITION) + " AND {near}"
    f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{c} = s.{c}' for c in _DECIDED)}"
    f" WHEN NOT MATCHED THEN INSERT ({', '.join(c.name for c in _COLUMNS)})"
    f" VALUES ({', '.join(f's.{c.name}' for c in _COLUMNS)})"
)


def rejected_layout(table: StreamTable, settings: Settings) -> Layout:
    """How the rejected records are stored: one row for each position."""
    doc = f"Records of topic {table.topic} that may not enter {table.name}: one row for each position."
    uri = settings.table_uri(table.rejected_name)
    statistics = ["kafka_partition", "kafka_offset"]
    kept = table.retention
    return Layout(
        table.rejected_name, uri, doc, _COLUMNS, statistics=statistics, retention=kept, anchors=[*_POSITION, "value"]
    )


@dataclass(frozen=True)
class Decided:
    """Records as a commit decides them: held rows of positions in ``plan``, with ``reason`` NULL where one may enter.

    ``undone`` are the numbers of the merged table's commits that no longer hold (``Ledger.undone``).
    """

    held: DataFrame
    plan: Plan
    commit: Commit
    undone: frozenset[int]


def store_rejected(spark: SparkSession, layout: Layout, decided: Decided) -> int:
    """Store what was decided, for the positions of the held rows and no others; returns how many rows changed.

    A position that was stored before is decided again: updated, or marked as resolved by the commit in which
    its record passes. What a commit resolved that was undone since is unresolved again, wherever it stands.
    Nothing is written where nothing changes: a second run writes nothing.

    A batch stores before it commits: what it decided lies at or beyond the progress until then. A replay or a
    redrive stores after its commit: its records lie below the progress, and one that is marked as resolved
    before it is merged would be lost with the process.
    """
    ledger = read_ledger(layout.uri, layout.name)
    near = _near(decided)
    changed = _changed(read_table(spark, layout).alias("t").where(near), decided).localCheckpoint()
    count = changed.count()
    if count:
        commit = ledger.next_commit("rejected", decided.commit.run).model_copy(update={"rejected": count})
        commit_merge(spark, layout, changed, _CLAUSES.format(near=near), commit)
    return count


def _changed(stored: DataFrame, decided: Decided) -> DataFrame:
    """Rows as they are to be stored, where that is not how they are."""
    plan = decided.plan
    identity = {"cluster_id": F.lit(plan.incarnation.cluster_id), "topic_id": F.lit(plan.incarnation.topic_id)}
    now = decided.held.select(*_FROM_RECORD).withColumns(identity)
    same = " AND ".join(f"s.{c} = t.{c}" for c in _POSITION)
    joined = now.alias("s").join(stored.alias("t"), F.expr(same), "full" if decided.undone else "left")
    position = {c: f"coalesce(s.{c}, t.{c})" for c in _POSITION}
    record = {c: f"IF({_FAILS}, s.{c}, t.{c})" for c in _FROM_RECORD if c not in _POSITION}
    wanted = {**position, **record, **_numbers(decided)}
    rows = f"struct({', '.join(f'{wanted[c.name]} AS {c.name}' for c in _COLUMNS)})"
    before = f"struct({', '.join(f't.{c.name}' for c in _COLUMNS)})"
    kept = f"({_FAILS} OR t.kafka_offset IS NOT NULL) AND NOT {rows} <=> {before}"
    return joined.where(kept).select(F.expr(rows).alias("row")).select("row.*")


def _numbers(decided: Decided) -> dict[str, str]:
    """Which commit rejected a record, and in which it passes.

    What is stored keeps the number of the batch that rejected it, unless another batch does. A position that
    now holds another record says nothing of the one that stood there.
    """
    number, batch = f"{decided.commit.number}L", decided.commit.kind == "batch"
    undone = _among("t.resolved_number", decided.undone)
    passes = "s.kafka_offset IS NOT NULL AND s.kafka_timestamp <=> t.kafka_timestamp"
    anew = "true" if batch else f"(t.resolved_number IS NULL OR {undone})"
    return {
        "number": f"IF({_FAILS}, {number if batch else f'coalesce(t.number, {number})'}, t.number)",
        "resolved_number": f"CASE WHEN {_FAILS} THEN NULL WHEN {passes} AND {anew} THEN {number}"
        f" WHEN {undone} THEN NULL ELSE t.resolved_number END",
    }


def unresolved(progress: Progress | None, undone: frozenset[int], quote: Callable[[str], str] = quoted) -> str:
    """SQL for the rows whose records are out: not pending, and not passed in a commit that still holds.

    Pending are the positions at or beyond the progress, of the topic it belongs to: their batch has not
    committed yet. Without a progress all are. ``quote`` writes text in the SQL of whoever asks.
    """
    if progress is None:
        return "false"
    below = [f"(kafka_partition = {p} AND kafka_offset < {offset})" for p, offset in sorted(progress.offsets.items())]
    at = progress.incarnation
    here = f"cluster_id = {quote(at.cluster_id)} AND topic_id = {quote(at.topic_id)}"
    pending = f"{here} AND NOT ({' OR '.join(below) or 'false'})"
    return f"(resolved_number IS NULL OR {_among('resolved_number', undone)}) AND NOT ({pending})"


def _among(column: str, numbers: frozenset[int]) -> str:
    return f"{column} IN ({', '.join(map(str, sorted(numbers)))})" if numbers else "false"


def _near(decided: Decided) -> str:
    """A condition on stored rows, in literals, that holds for every row that can change."""
    plan = decided.plan
    inside = " OR ".join(_covers(part) for part in plan.ranges if part.span) or "false"
    undone = _among("t.resolved_number", decided.undone)
    return f"((t.topic_id = {quoted(plan.incarnation.topic_id)} AND ({inside})) OR {undone})"


def _covers(part: Range) -> str:
    offset = "t.kafka_offset"
    return f"(t.kafka_partition = {part.partition} AND {offset} >= {part.start} AND {offset} < {part.end})"
