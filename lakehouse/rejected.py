"""Rejected records: kept with their bytes, their position and a reason, in a table of their own."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.delta import Layout, TableColumn, commit_merge, read_table
from lakehouse.ledger import read_ledger
from lakehouse.offsets import Plan, Range
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
    TableColumn("resolved_number", "BIGINT", "Number of the batch in which it passed; NULL while it is rejected."),
)
_CLAUSES = (
    "ON " + " AND ".join(f"t.{c} = s.{c}" for c in _POSITION) + " AND {prune}"
    " WHEN MATCHED AND s.passes THEN UPDATE SET t.resolved_number = s.number"
    " WHEN MATCHED THEN UPDATE SET t.reason = s.reason, t.detail = s.detail, t.number = s.number,"
    " t.resolved_number = NULL, t.key = s.key, t.value = s.value, t.headers = s.headers"
    f" WHEN NOT MATCHED THEN INSERT ({', '.join(c.name for c in _COLUMNS)})"
    f" VALUES ({', '.join('NULL' if c.name == 'resolved_number' else f's.{c.name}' for c in _COLUMNS)})"
)


def rejected_layout(table: StreamTable, settings: Settings) -> Layout:
    """How the rejected records are stored: one row for each position."""
    doc = f"Records of topic {table.topic} that may not enter {table.name}: one row for each position."
    uri = settings.table_uri(table.rejected_name)
    statistics = ["kafka_partition", "kafka_offset"]
    return Layout(table.rejected_name, uri, doc, _COLUMNS, statistics=statistics, retention=table.retention)


@dataclass(frozen=True)
class Decided:
    """The records of a plan as a batch decided them: held rows with ``reason`` NULL where one may enter."""

    held: DataFrame
    plan: Plan
    number: int
    replayed: bool = False
    run: str = ""


def store_rejected(spark: SparkSession, layout: Layout, decided: Decided) -> int:
    """Store what a batch rejected, before the batch itself commits; returns how many rows changed.

    Positions inside the plan that an earlier attempt decided otherwise are decided again: updated, or
    marked as resolved where they pass now. Nothing is written where nothing changes. A second run with
    the same plan writes nothing.
    """
    ledger = read_ledger(layout.uri, layout.name)
    prune = _inside(decided.plan, "t")
    changed = _changed(spark, layout, decided, prune).localCheckpoint()
    count = changed.count()
    if count:
        commit = ledger.next_commit("rejected", decided.run).model_copy(update={"rejected": count})
        commit_merge(spark, layout, changed, _CLAUSES.format(prune=prune), commit)
    return count


def _changed(spark: SparkSession, layout: Layout, decided: Decided, prune: str) -> DataFrame:
    """Rows to write: newly rejected, rejected for another reason, or passing now."""
    plan = decided.plan
    identified = decided.held.withColumns({"cluster_id": F.lit(plan.cluster_id), "topic_id": F.lit(plan.topic_id)})
    now = identified.where("reason IS NOT NULL").withColumn("number", F.lit(decided.number).cast("bigint"))
    stored = read_table(spark, layout).alias("t").where(prune)
    same = " AND ".join(f"s.{c} = t.{c}" for c in _POSITION)
    joined = now.alias("s").join(stored, F.expr(same), "full")
    # a replay leaves the number of the batch that rejected first
    renumbered = "false" if decided.replayed else "s.number <> t.number"
    differs = f"NOT (s.reason <=> t.reason AND s.detail <=> t.detail) OR t.resolved_number IS NOT NULL OR {renumbered}"
    passes = "s.kafka_offset IS NULL"
    wanted = f"t.kafka_offset IS NULL OR ({passes} AND t.resolved_number IS NULL) OR (NOT {passes} AND ({differs}))"
    names = [c.name for c in _COLUMNS if c.name not in ("resolved_number", "number")]
    columns = [F.expr(f"coalesce(s.{n}, t.{n})").alias(n) for n in names]
    number = F.lit(decided.number).cast("bigint").alias("number")
    return joined.where(wanted).select(*columns, number, F.expr(passes).alias("passes"))


def _inside(plan: Plan, alias: str) -> str:
    """The positions of a plan, in literals."""
    terms = [_covers(part, alias) for part in plan.ranges if part.span]
    return f"({alias}.topic_id = '{plan.topic_id}' AND ({' OR '.join(terms) or 'false'}))"


def _covers(part: Range, alias: str) -> str:
    offset = f"{alias}.kafka_offset"
    return f"({alias}.kafka_partition = {part.partition} AND {offset} >= {part.start} AND {offset} < {part.end})"
