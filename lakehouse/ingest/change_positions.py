"""Positions of a change stream: each snapshot and each server continues them, or the database went back."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.errors import LedgerError
from lakehouse.ingest.counts import Counts
from lakehouse.ingest.deletes import deletes_layout
from lakehouse.ingest.horizon import greatest_order
from lakehouse.ingest.rejected_records import DecodedBatch
from lakehouse.storage.merge_spec import bounds_after
from lakehouse.storage.row_order import record_fields
from lakehouse.storage.table_context import TableContext

_IS_LATER = "s.sequence > n.sequence AND (s.source IS NULL OR s.partition = n.partition AND s.position < n.position)"
_PLACE = (f"{staged.PARTITION} AS partition", f"{staged.POSITION} AS position", f"{staged.SEQUENCE} AS sequence")
_SERVER_IDS = 2**32


def require_greater_positions(context: TableContext, batch: DecodedBatch, counts: Counts) -> None:
    """Raise ``LedgerError`` if a snapshot of the whole table has a smaller position than a change before it.

    Compares with stored rows and deletes, only for a batch with a snapshot that no batch had before, and not with the
    position that the declaration accepts.
    """
    if batch.commit.kind != "batch" or counts.changes.snapshot_position is None:
        return
    known_position = bounds_after(batch.ledger).snapshot
    known_positions = [p for p in (known_position, context.table.format.accepted_snapshot) if p is not None]
    snapshots = batch.records.where(f"{staged.SNAPSHOT} <> '{staged.PART}'").selectExpr(*_PLACE)
    new_snapshots = snapshots.where(~F.col("sequence").isin(known_positions)) if known_positions else snapshots
    first_records = new_snapshots.groupBy("partition", "sequence").agg(F.min("position").alias("position"))
    if first_records.isEmpty():
        return
    found_pair = first_after_later(context, batch, first_records)
    if found_pair is not None:
        raise _went_back_error(context, found_pair)


def first_after_later(context: TableContext, batch: DecodedBatch, records: DataFrame) -> Row | None:
    """The record with the smallest position of which the source had already sent a later change; ``None`` if none is.

    ``records`` have partition, position and sequence. Compares with the other changes of the batch, with stored rows
    and with deletes.
    """
    source = quoted(batch.plan.source.text if batch.plan.source else "")
    changes = batch.records.where(f"{staged.SNAPSHOT} IS NULL").selectExpr(f"{source} AS source", *_PLACE)
    stored_tables = (context.merged, context.stored_table(deletes_layout))
    stored_records = (
        table.rows().selectExpr(*(f"{RECORD}.{name}" for name in changes.columns)) for table in stored_tables
    )
    earlier_records = reduce(DataFrame.unionByName, stored_records, changes).where("sequence IS NOT NULL")
    # of another source, whose positions in the topic cannot be compared, every record was before
    earlier_records = earlier_records.withColumn("source", F.expr(f"IF(source = {source}, source, NULL)")).alias("s")
    pairs = records.alias("n").join(earlier_records, F.expr(_IS_LATER))
    return pairs.selectExpr("n.*", "s.sequence AS later").orderBy("sequence", F.desc("later")).first()


def note_snapshot_end(table: StreamTable, batch: DecodedBatch) -> DecodedBatch:
    """Return the batch with the order of the record that ends its newest snapshot of the whole table."""
    fields = record_fields(table, batch.plan.source)
    ends = batch.records.where(f"{staged.SNAPSHOT} = '{staged.LAST}'")
    end = greatest_order(ends, table, fields)
    former_end = batch.commit.snapshot_end
    is_newer = end and (former_end is None or (end.sequence or 0) >= (former_end.sequence or 0))
    return replace(batch, commit=batch.commit.with_fields(snapshot_end=end)) if is_newer else batch


def _went_back_error(context: TableContext, pair: Row) -> LedgerError:
    position = pair["sequence"]
    return LedgerError(
        f"The log of the database went back: partition {pair['partition']} has a snapshot at position {position} after"
        f" a change at position {pair['later']}",
        where=f"topic {context.table.topic}, offset {pair['position']}",
        action="Nothing was merged. If the database was restored, or replaced by another server, send its changes to a"
        " new topic, and declare a table with another name. If it did not go back, as with a snapshot that was"
        f" requested while changes were sent, declare Debezium(accepted_snapshot={position}).",
    )


class Positions(NamedTuple):
    """Of a server in a batch: the greatest position, and the smallest that no batch had before, if there is one."""

    origin: int
    greatest: int
    first: int | None


def note_origins(context: TableContext, batch: DecodedBatch, counts: Counts) -> DecodedBatch:
    """Return the batch with the greatest position of each server.

    Raises ``LedgerError`` if a server sends changes that are before those of another one. A snapshot of the whole table
    that ends in the batch says where all later changes begin, so that the servers before it do not matter.
    """
    if batch.commit.kind != "batch" or counts.changes.min_origin is None or counts.changes.max_origin is None:
        return batch
    former = {} if counts.changes.snapshot_ends else batch.commit.origins
    is_alone = counts.changes.min_origin == counts.changes.max_origin and {*former} <= {counts.changes.min_origin}
    if is_alone and counts.changes.origin_position is not None:
        positions = [Positions(counts.changes.min_origin, counts.changes.origin_position, None)]
    else:
        positions = _read_positions(batch, former)
    suspects = before_others(former, positions)
    _require_order(context, batch, former, suspects)
    if suspects and context.table.format.accepted_snapshot is not None:  # what follows may be before the others, too
        former = {}
        positions = [position for position in positions if position.origin in suspects]
    greatest = {p.origin: max(p.greatest, former.get(p.origin, p.greatest)) for p in positions}
    return replace(batch, commit=batch.commit.with_fields(origins={**former, **greatest}))


def before_others(former: Mapping[int, int], positions: Iterable[Positions]) -> list[int]:
    """The servers with a new change whose position is smaller than the greatest of another server."""
    all_positions = list(positions)
    greatest = [*former.items(), *((p.origin, p.greatest) for p in all_positions)]
    return [
        p.origin
        for p in all_positions
        if p.first is not None and any(p.first < position for origin, position in greatest if origin != p.origin)
    ]


def _read_positions(batch: DecodedBatch, former: Mapping[int, int]) -> list[Positions]:
    first = f"min(IF({_is_new(former)}, {staged.SEQUENCE}, NULL)) AS first"
    changes = batch.records.where(f"{staged.ORIGIN} IS NOT NULL").groupBy(staged.ORIGIN)
    rows = changes.agg(F.expr(f"max({staged.SEQUENCE}) AS greatest"), F.expr(first)).collect()
    return [Positions(row[staged.ORIGIN], row["greatest"], row["first"]) for row in rows]


def _is_new(former: Mapping[int, int]) -> str:
    """The condition that a change is after all that its server sent in other batches: else it is sent again."""
    cases = " ".join(f"WHEN {origin} THEN {position}" for origin, position in former.items())
    return f"{staged.SEQUENCE} > CASE {staged.ORIGIN} {cases} ELSE -1 END" if cases else "true"


def _require_order(context: TableContext, batch: DecodedBatch, former: Mapping[int, int], origins: list[int]) -> None:
    """Raise ``LedgerError`` if a new change of some servers is after a change with a greater position."""
    accepted = context.table.format.accepted_snapshot
    if not origins:
        return
    is_suspect = f"{staged.ORIGIN} IN ({', '.join(map(str, origins))}) AND {_is_new(former)}"
    is_suspect += "" if accepted is None else f" AND {staged.SEQUENCE} < {accepted}"
    columns = (f"{name} AS {name[1:]}" for name in (staged.PARTITION, staged.POSITION, staged.SEQUENCE, staged.ORIGIN))
    changes = batch.records.where(is_suspect).selectExpr(*columns)
    first = F.min(F.struct("position", "sequence")).alias("first")
    first_changes = changes.groupBy("partition", "origin").agg(first).selectExpr("partition", "origin", "first.*")
    pair = first_after_later(context, batch, first_changes)
    if pair is not None:
        raise _changed_server_error(context, pair)


def _changed_server_error(context: TableContext, pair: Row) -> LedgerError:
    position, server = pair["sequence"], pair["origin"] % _SERVER_IDS
    server_words = f"another server ({server})" if server else "another binlog"
    return LedgerError(
        f"The log of the database went back: partition {pair['partition']} has a change of {server_words} at position"
        f" {position} after a change at position {pair['later']}",
        where=f"topic {context.table.topic}, offset {pair['position']}",
        action="Nothing was merged. After a failover, send the changes to a new topic, beginning with a snapshot, and"
        " declare a table with another name. If the log did not go back, declare"
        f" Debezium(accepted_snapshot={position}) until they are merged.",
    )
