"""Rejected records that are not resolved: list them, and decode them again with today's declaration.

Their bytes are in the table, so neither needs the broker.
"""

import time
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.commits import Entry
from lakehouse.counts import count_batch
from lakehouse.declaration import StreamTable
from lakehouse.decode import decode_records
from lakehouse.delta import read_table
from lakehouse.errors import LakehouseError, TableError
from lakehouse.ingest import Engine, Outcome, again, merge_decided, merged_ledger, prepare
from lakehouse.ledger import Ledger, read_ledger, require_told
from lakehouse.log import open_table
from lakehouse.offsets import Incarnation, Plan, Range
from lakehouse.rejected import Decided, rejected_layout, store_rejected, unresolved
from lakehouse.serve import query
from lakehouse.settings import Settings

_RECORD = (
    "time AS _time",
    "position.partition AS _partition",
    "position.offset AS _offset",
    "key AS _key",
    "value AS _value",
    "headers AS _headers",
)


@dataclass(frozen=True)
class Sample:
    """One rejected record; ``key`` and ``value`` are its bytes as they came, ``None`` where it has none."""

    incarnation: str
    partition: int
    offset: int
    time: datetime
    key: bytes | None
    value: bytes | None
    detail: str


@dataclass(frozen=True)
class Reason:
    """The rejected records of one reason: how many, and the newest of them."""

    reason: str
    count: int
    samples: tuple[Sample, ...]


def list_rejected(settings: Settings, table: StreamTable, reason: str | None = None, limit: int = 3) -> list[Reason]:
    """List the rejected records by reason, the most frequent first, with ``limit`` samples of each; without a JVM.

    Left out are those that were resolved and those that are pending.
    """
    name = table.rejected_name
    ledger = _whole_ledger(settings, table)
    stored = open_table(settings.table_uri(name))
    if stored is None:
        return []
    if "position" not in (field.name for field in stored.schema().fields):
        action = f"It gets today's form with the next: lakehouse merge {table.name}"
        raise TableError(f"Table {name} was written by an older lakehouse", where=stored.table_uri, action=action)
    which = f"reason = {_quoted(reason)} AND " if reason is not None else ""
    sample = (
        "{'incarnation': position.incarnation, 'partition': position.partition, 'offset': position.offset,"
        " 'time': time, 'key': key, 'value': value, 'detail': detail}"
    )
    newest = "{'time': time, 'partition': position.partition, 'offset': position.offset}"
    found = query(
        settings,
        f"SELECT reason, count(*), max_by({sample}, {newest}, {max(1, limit)}) FROM {name}"
        f" WHERE {which}{unresolved(ledger, _quoted)} GROUP BY reason ORDER BY 2 DESC, 1",
        [name],
    )
    return [Reason(why, count, tuple(Sample(**each) for each in newest[:limit])) for why, count, newest in found.rows]


def _quoted(text: str) -> str:
    """Text in DuckDB's SQL, in which a backslash is itself."""
    return "'" + text.replace("'", "''") + "'"


def redrive(
    spark: SparkSession, settings: Settings, table: StreamTable, reason: str | None = None, run: str = "cli"
) -> list[Outcome]:
    """Decode the rejected records again, of one reason or all, and merge those that pass now.

    One commit for each incarnation of the topic in which some pass; then they are marked as resolved by it,
    and reasons that are others now are stored. Moves no progress. A second run finds nothing and writes
    nothing; after a crash between commit and marking it finds the rows in the table and marks them.
    """
    if not merged_ledger(settings, table).exists:
        raise LakehouseError("Nothing has been merged yet", where=table.name, action="Merge it first.")
    engine = Engine(spark, settings, table, run)
    again(lambda: prepare(engine))
    rows = _unresolved_rows(engine, _whole_ledger(settings, table), reason).select("position.incarnation").distinct()
    outcomes = []
    for text in sorted(row[0] for row in rows.collect()):
        part = Plan(table.topic, Incarnation.parse(text), ())
        outcome = again(lambda: _redrive_topic(engine, part, reason))  # noqa: B023 - called before part moves on
        if outcome:
            outcomes.append(outcome)
    return outcomes


def _whole_ledger(settings: Settings, table: StreamTable) -> Ledger:
    """The whole history: a RESTORE of long ago may have undone what resolved a record."""
    return require_told(read_ledger(settings.table_uri(table.name), table.name, whole=True), table.name)


def _unresolved_rows(engine: Engine, ledger: Ledger, reason: str | None) -> DataFrame:
    rows = read_table(engine.spark, rejected_layout(engine.table, engine.settings))
    rows = rows.where(unresolved(ledger))
    return rows if reason is None else rows.where(F.col("reason") == F.lit(reason))


def _redrive_topic(engine: Engine, part: Plan, reason: str | None) -> Outcome | None:
    """Redrive the records of one incarnation of the topic; ``None`` where none of them passes."""
    started = time.monotonic()
    ledger = _whole_ledger(engine.settings, engine.table)
    rows = _unresolved_rows(engine, ledger, reason)
    rows = rows.where(F.col("position.incarnation") == part.incarnation.text)
    held = decode_records(rows.selectExpr(*_RECORD), engine.table).localCheckpoint()
    counts, prune = count_batch(held, engine.table)
    plan = Plan(part.topic, part.incarnation, _spans(held))
    decided = Decided(held, plan, ledger.next_commit("redrive", engine.run), ledger)
    if counts.read == counts.rejected:
        store_rejected(engine.spark, rejected_layout(engine.table, engine.settings), decided)
        return None
    entry: Entry = merge_decided(engine, decided, counts, prune)
    return Outcome(entry, None, 0, 0, time.monotonic() - started)


def _spans(held: DataFrame) -> tuple[Range, ...]:
    """Ranges that hold the positions of the held rows, and others between them."""
    least, most = F.min("_offset"), F.max("_offset") + 1
    found = held.groupBy("_partition").agg(least.alias("start"), most.alias("end")).collect()
    return tuple(sorted(Range(row["_partition"], row["start"], row["end"]) for row in found))
