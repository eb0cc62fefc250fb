"""Rejected records: stored with their bytes, their position and a reason, in a separate table.

The bytes of a record are stored with its first rejected element, not with each: a record may have very many of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.ingest.rejections import open_sql, undone_sql
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.ledger.versions import count_rows
from lakehouse.settings import Settings
from lakehouse.storage.data_files import DataFile
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.merge_spec import MergeSpec, from_source
from lakehouse.storage.row_order import POSITION, position_columns, same_place
from lakehouse.storage.stored_table import StoredTable

_PLACE = ("position.source", "position.partition", "position.position", "time")
# a tombstone has no value; it is rejected as a whole
_HAS_BYTES = "(value IS NOT NULL OR position.index IS NULL)"

_STORED_PLACE = ("position.partition AS _p", "position.position AS _o", "time AS _t", "position.index AS _i")
_IS_SAME_RECORD = f"{staged.PARTITION} = _p AND {staged.POSITION} = _o AND {staged.TIME} <=> _t"
"""Whether a staged row belongs to the record of a stored one, of which ``_STORED_PLACE`` was selected."""
_NO_ROWS = ", ".join(map(quoted, staged.NO_ROWS))
HAS_NO_ROWS = f"({staged.INDEX} IS NULL AND {staged.REASON} IN ({_NO_ROWS}))"
"""Whether a staged row says that its record, as a whole, has no row of the table."""
_RECORD = (
    TableColumn("time", "TIMESTAMP", "When the broker got the record, UTC."),
    TableColumn(
        "order_time", "TIMESTAMP", "Time that orders the record, UTC, if its partition had a later one before."
    ),
    TableColumn("key", "BINARY", "The record's key, unchanged."),
    TableColumn("value", "BINARY", "The record's value, unchanged; NULL for a tombstone."),
    TableColumn("headers", "ARRAY<STRUCT<key: STRING, value: BINARY>>", "The record's headers, unchanged."),
    TableColumn("reason", "STRING", "Why the record was rejected: one of a fixed list of reasons, or that of a rule."),
    TableColumn("detail", "STRING", "What exactly is wrong with the record."),
)
_DECISION = (
    TableColumn("number", "BIGINT", "Number of the batch that rejected it."),
    TableColumn("resolved_number", "BIGINT", "Number of the commit in which it passed; NULL while it is rejected."),
    TableColumn("resolved_table_id", "STRING", "Id of the merged table that holds it; NULL while it is rejected."),
)
_RAW = ("key", "value", "headers")
_FAILS = f"(s.{staged.REASON} IS NOT NULL AND s.{staged.REASON} NOT IN ({_NO_ROWS}))"
# a broker that was restored from an older copy reuses offsets; if the time is NULL, only the detail has it
_SAME_RECORD = (
    f"{same_place('t.position', 's.position')} AND t.time IS NOT DISTINCT FROM s.{{of}}time"
    " AND CASE WHEN t.time IS NULL THEN t.detail END IS NOT DISTINCT FROM"
    " CASE WHEN s.{of}time IS NULL THEN s.{of}detail END"
)


def records_with_bytes(stored_rows: DataFrame, rejected_rows: DataFrame) -> DataFrame:
    """Return the record of each of these rejected rows once, like a rejected record, with its bytes.

    They are with any of its stored rows, resolved or not. Leaves out a record whose bytes somebody deleted.
    """
    names = [name.rpartition(".")[2] for name in _PLACE]
    places = rejected_rows.select(*(F.col(path).alias(f"_{name}") for path, name in zip(_PLACE, names, strict=True)))
    rows = stored_rows.where(_HAS_BYTES)
    is_same = " AND ".join(f"{path} <=> _{name}" for path, name in zip(_PLACE, names, strict=True))
    rows = rows.join(places.distinct(), F.expr(is_same), "left_semi")
    first = "struct(value IS NULL, position.index)"
    columns = ", ".join(["position", "time", "order_time", "key", "value", "headers"])
    return rows.groupBy(*_PLACE).agg(F.expr(f"min_by(struct({columns}), {first})").alias("_first")).select("_first.*")


class Unresolved(NamedTuple):
    """The staged rows that are unresolved, and the number of their records.

    ``opened_count`` records were rejected as a whole, and have elements now, each with a verdict of its own.
    """

    rows: DataFrame
    record_count: int
    opened_count: int


def keep_unresolved(records: DataFrame, unresolved_rows: DataFrame, source: SourceId) -> Unresolved:
    """Keep the staged rows of records that are unresolved elements, or whose record was rejected as a whole.

    Other elements were judged before: they are in the table, or belong to no row of it. A record that has no rows now
    is kept for any of its unresolved elements. The raw parts are dropped: they are stored already.
    """
    open_rows = unresolved_rows.where(F.col("position.source") == source.text).selectExpr(*_STORED_PLACE)
    marked = records
    # several joins, because a record can have very many elements: each compares a row with one stored row
    for name, kind, element in (
        ("_whole", "_i IS NULL", ""),
        ("_alone", "_i IS NOT NULL", f" AND {staged.INDEX} = _i"),
        ("_any", "_i IS NOT NULL", ""),
    ):
        rows = open_rows.where(kind)
        rows = (rows if element else rows.drop("_i")).distinct().withColumn(name, F.lit(True))
        marked = marked.join(rows, F.expr(_IS_SAME_RECORD + element), "left").drop("_p", "_o", "_t", "_i")
    no_bytes = {name: F.expr(f"IF(false, {name}, NULL)") for name in staged.RAW}
    is_kept = f"_whole OR _alone OR (_any AND {HAS_NO_ROWS})"
    open_records = marked.where(is_kept).drop("_alone", "_any").withColumns(no_bytes).localCheckpoint()
    has_opened = F.count_if(F.expr(f"_whole AND {staged.INDEX} = 0"))
    record = F.struct(staged.PARTITION, staged.POSITION, staged.TIME)
    ((record_count, opened_count),) = open_records.agg(F.count_distinct(record), has_opened).collect()
    return Unresolved(open_records.drop("_whole"), record_count, opened_count)


def for_each_element(records: DataFrame, stored_rows: DataFrame) -> DataFrame:
    """Return records without rows once for each of their stored elements, which they resolve."""
    elements = stored_rows.where("position.index IS NOT NULL").selectExpr(*_STORED_PLACE)
    rows = records.where(HAS_NO_ROWS).join(elements, F.expr(_IS_SAME_RECORD))
    return rows.withColumn(staged.INDEX, F.col("_i")).drop("_p", "_o", "_t", "_i")


def rejected_columns(table: StreamTable) -> tuple[TableColumn, ...]:
    """Return the columns of the rejected records."""
    doc = "Position of the record in its source."
    if table.has_elements:
        doc += " index is the place of the rejected element in its array; NULL if the record is rejected as a whole."
    return (TableColumn.struct("position", doc, position_columns(table)), *_RECORD, *_DECISION)


def rejected_layout(table: StreamTable, settings: Settings) -> Layout:
    """Return the layout of the rejected records: one row for each of them.

    If the elements of an array are rows, one row for each rejected element; only the first of a record has its bytes.
    """
    doc = f"Rejected records of {table.topic_text} for table {table.name}: one row for each."
    if table.has_elements:
        doc = f"Rejected elements of records of {table.topic_text} for table {table.name}: one row for each."
    return Layout(
        table.rejected_name,
        settings.table_uri(table.rejected_name),
        doc,
        rejected_columns(table),
        statistics=["position"],
        retention=table.upkeep.retention,
        anchors=["position", "value"],
        sync=settings.sync,
    )


@dataclass(frozen=True)
class DecodedBatch:
    """The decoded records of a commit: their positions are in ``plan``, and ``_reason`` is NULL if one is valid.

    ``ledger`` is the ledger of the merged table that they are decided for. The rows of ``files`` are valid records of
    the batch too.
    """

    records: DataFrame
    plan: Plan
    commit: Commit
    ledger: Ledger
    files: Sequence[DataFile] = ()


def has_rejected(rejected_table: StoredTable, plan: Plan) -> bool:
    """Whether records in the ranges of a plan are stored as rejected ones."""
    if not count_rows(rejected_table.layout.uri):
        return False
    return not rejected_table.rows().where(covered_sql("position", plan)).isEmpty()


def store_rejected(
    table: StreamTable, rejected_table: StoredTable, batch: DecodedBatch, *, is_committed: bool = True
) -> bool:
    """Store which records of a batch are rejected, for their positions only.

    Returns whether records wait to be marked as resolved. A record that is already stored is updated, or marked as
    resolved by the commit in which it passes, or turns out to be no row of the table. If the resolving commit was
    undone, or the merged table was restored from a backup without it, the record is unresolved again, at any position.
    Writes nothing if nothing changes.

    A batch stores its rejected records before it commits: until then they lie at or after the progress. No commit
    marks a record as resolved before it has merged it (``is_committed``): another commit may take its number, and the
    record would be in no table and in no list. Until then, records that pass wait.
    """
    if not batch.commit.rejected and not count_rows(rejected_table.layout.uri):
        return False
    rejected_ledger = rejected_table.ledger()
    consumption = Consumption(batch.ledger, rejected_ledger.consumed)
    is_everywhere = bool(batch.ledger.undone_numbers) or consumption.is_of_lost_version
    may_change = _may_change(batch, is_everywhere)
    stored_rows = rejected_table.rows().alias("t").where(may_change)
    joined_rows = _join_stored(table, stored_rows, batch, "full" if is_everywhere else "left")
    rows = _rows_to_store(table, joined_rows, batch, is_committed).localCheckpoint()
    ((changed_count, waiting_count),) = rows.agg(F.count_if("_changes"), F.count_if("_waits")).collect()
    if changed_count:
        consumed = Consumed(table_id=batch.ledger.table_id, version=batch.ledger.version)
        commit_fields = {"rejected": changed_count, "consumed": consumed}
        commit = rejected_ledger.next_commit("rejected", batch.commit.run).with_fields(**commit_fields)
        values = from_source([column.name for column in rejected_columns(table)])
        spec = MergeSpec(f"{_is_same(table, of='')} AND {may_change}", values, values)
        rejected_table.merge(rows.where("_changes").select("row.*"), spec, commit)
    return bool(waiting_count)


def _is_same(table: StreamTable, of: str) -> str:
    """Return the condition that a stored row and a staged one are about the same record, or the same element of it."""
    is_same_element = " AND t.position.index IS NOT DISTINCT FROM s.position.index" if table.has_elements else ""
    return _SAME_RECORD.format(of=of) + is_same_element


def _join_stored(table: StreamTable, stored_rows: DataFrame, batch: DecodedBatch, join: str) -> DataFrame:
    """Return the records of a batch (``s``), each with what is stored of it (``t``)."""
    records = batch.records
    if table.has_elements:
        # the elements of a record were read: it is not rejected as a whole
        reasons = {name: F.lit(None).cast("string") for name in (staged.REASON, staged.DETAIL)}
        whole_records = records.where(f"{staged.INDEX} = 0").withColumns(reasons)
        records = records.unionByName(whole_records.withColumn(staged.INDEX, F.lit(None).cast("int")))
        if batch.commit.filtered or batch.commit.empty:  # else each record has a row at least
            records = records.unionByName(for_each_element(batch.records, stored_rows))
    index = f", {staged.INDEX} AS index" if table.has_elements else ""
    position = F.expr(f"struct({position_fields(batch.plan)}{index})").alias("position")
    records = records.select(position, *(f"_{c.name}" for c in _RECORD))
    return records.alias("s").join(stored_rows.alias("t"), F.expr(_is_same(table, of="_")), join)


def _rows_to_store(table: StreamTable, joined_rows: DataFrame, batch: DecodedBatch, is_committed: bool) -> DataFrame:
    """Return the rows that differ from the stored ones, and those that wait to be marked."""
    has_no_registry = batch.commit.kind == "replay"  # only a registry reports why a schema cannot be used
    columns, is_same_record = [c.name for c in rejected_columns(table)], _is_same(table, of="_")
    passes = f"({is_same_record} AND NOT {_FAILS} AND {open_sql('t.', batch.ledger)})"
    keeps_reason = f"s.{staged.REASON} = 'unknown_schema' AND t.position IS NOT NULL"
    has_new_reason = f"{_FAILS} AND NOT ({keeps_reason})" if has_no_registry else _FAILS
    values = {"position": f"IF({has_new_reason}, s.position, t.position)"}
    values |= {c.name: f"IF({has_new_reason}, s._{c.name}, t.{c.name})" for c in _RECORD}
    # bytes that are stored stay: an element may have them, and a record may be read again without them
    values |= {name: f"IF({has_new_reason}, coalesce(s._{name}, t.{name}), t.{name})" for name in _RAW}
    is_erased = f"coalesce(s.{staged.REASON} = '{staged.ERASED}', false)"
    values |= {name: f"IF({is_erased}, NULL, {values[name]})" for name in _RAW}
    values |= _decision_values(batch, passes if is_committed else "false")
    new_row = f"struct({', '.join(f'{values[name]} AS {name}' for name in columns)})"
    stored_row = f"struct({', '.join(f't.{name}' for name in columns)})"
    changes = f"({_FAILS} OR t.position IS NOT NULL) AND NOT {new_row} <=> {stored_row}"
    waits = "false" if is_committed else f"NOT {_FAILS} AND {passes}"
    rows = joined_rows.selectExpr(f"{new_row} AS row", f"{changes} AS _changes", f"{waits} AS _waits")
    return rows.where("_changes OR _waits")


def _decision_values(batch: DecodedBatch, passes: str) -> dict[str, str]:
    """Return the values for the commit that rejected a record and for the one in which it passes.

    A stored record keeps the number of the batch that rejected it, unless another batch rejects it.
    """
    number, is_batch, ledger = f"{batch.commit.number}L", batch.commit.kind == "batch", batch.ledger
    is_undone = undone_sql("t.", ledger)

    def resolution_sql(value: str, stored_value: str) -> str:
        cases = f"WHEN {_FAILS} THEN NULL WHEN {passes} THEN {value} WHEN {is_undone} THEN NULL"
        return f"CASE {cases} ELSE {stored_value} END"

    return {
        "number": f"IF({_FAILS}, {number if is_batch else f'coalesce(t.number, {number})'}, t.number)",
        "resolved_number": resolution_sql(number, "t.resolved_number"),
        "resolved_table_id": resolution_sql(quoted(ledger.table_id), "t.resolved_table_id"),
    }


def _may_change(batch: DecodedBatch, is_everywhere: bool) -> str:
    """Return a condition on stored rows, made of literals, that holds for every row that can change."""
    is_undone = undone_sql("t.", batch.ledger) if is_everywhere else "false"
    return f"({covered_sql('t.position', batch.plan)} OR {is_undone})"


def position_fields(plan: Plan) -> str:
    """Return the position of a staged record of a plan, as fields of a struct in SQL."""
    values = {"source": quoted(plan.source.text)} | {c.name: f"_{c.name}" for c in POSITION[1:]}
    return ", ".join(f"{value} AS {name}" for name, value in values.items())


def covered_sql(position: str, plan: Plan) -> str:
    """Return a condition, made of literals, that holds for the positions in the ranges of a plan."""
    is_inside = has_position_in_ranges([part for part in plan.ranges if part.span], position)
    return f"({position}.source = {quoted(plan.source.text)} AND {is_inside})"


def has_position_in_ranges(ranges: Sequence[Range], record: str) -> str:
    """Return the condition that a record, a struct of this name, has a position in one of some ranges."""
    place, number = f"{record}.position", f"{record}.partition"
    parts = (f"({number} = {r.partition} AND {place} >= {r.start} AND {place} < {r.end})" for r in ranges)
    return f"({' OR '.join(parts) or 'false'})"
