"""Erases rows for good: those of the merged table, its deletes, base rows, change feed and rejected records.

Their keys are marked, so that no record that was read before brings them back.

Each step removes what the marks say, so that a run after a crash, or after a RESTORE, completes the erasure.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sink import Outlet
from lakehouse.declaration.sql import quoted
from lakehouse.declaration.sql.parsed import named_columns
from lakehouse.decoding import staged
from lakehouse.derived.feed import changes_layout
from lakehouse.derived.refresh import refresh_all
from lakehouse.errors import LakehouseError
from lakehouse.ingest.deletes import deletes_layout, settle_deletes
from lakehouse.ingest.erasures import Marks, add_marks, erased_layout, has_marks, read_marks, stage_columns
from lakehouse.ingest.load import base_layout
from lakehouse.ingest.redrive import RECORD_COLUMNS
from lakehouse.ingest.rejected_records import rejected_layout
from lakehouse.ledger.added_files import hiding_files
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table
from lakehouse.sinks.outlets import runner_of
from lakehouse.storage.merge_spec import MergeSpec, equal_keys
from lakehouse.storage.row_order import same_place, same_record
from lakehouse.storage.slot_files import remove_drafts
from lakehouse.storage.store_drafts import remove_left_drafts
from lakehouse.storage.stored_table import StoredTable
from lakehouse.storage.table_context import TableContext, require_no_switch, retry_on_conflict

_SAME_PLACE = f"{same_place('t.position', 's')} AND t.time <=> s.time"
_PLACES = ("position.source AS _source", "position.partition AS _p", "position.position AS _o", "time AS _t")


@dataclass(frozen=True)
class Erasure:
    """What was erased: the removed rows by table, and how many rejected records could not be searched.

    ``exports`` are those that were written again, and why one was not; ``None`` if it was.
    """

    removed: Mapping[str, int]
    unreadable: int
    exports: Mapping[str, str | None]


def erase(context: TableContext, where: str | None, outlets: Iterable[Outlet] = ()) -> Erasure:
    """Erase the rows that meet a condition on columns, in SQL, and every former row of their keys.

    ``None`` erases again what was erased before, as after a RESTORE. ``exports`` of the tables are then written again,
    without their former versions. Raises ``LakehouseError`` if Spark cannot compute the condition. A second run finds
    no row, and writes the exports again: a run that died may have left them.
    """
    if not context.ledger().exists:
        raise LakehouseError(f"{context.table.name} does not exist yet", action="Nothing was changed.")
    require_no_switch(context.settings, context.table)
    refresh_all(context)
    rejected = _Rejected.of(context, {*context.table.key, *(named_columns(where) if where else ())})
    if has_marks(context):
        context.stored_table(erased_layout).ensure()
    marks = read_marks(context)
    if where is not None:
        marks = _mark_keys(context, where, rejected) or marks
        marks = _mark_rejected(context, where, rejected, marks)
    removed = {}
    for name, remove in _steps(context, marks, rejected) if marks else ():
        removed[name] = retry_on_conflict(remove)
    if where is not None and not context.table.is_log:
        changes = retry_on_conflict(lambda: _remove_changes(context, where))
        removed[context.table.changes_name] = removed.get(context.table.changes_name, 0) + changes
    refresh_all(context)
    merged_table = open_table(context.merged.layout.uri)
    if merged_table and hiding_files(merged_table, context.merged.layout.uri):  # erased rows must not stay in its files
        purge = f"REORG TABLE {context.merged.layout.sql} APPLY (PURGE)"
        retry_on_conflict(lambda: context.merged.run_upkeep(purge, context.run))
    context.merged.key_hashes.erase()
    remove_drafts(context.merged.layout)
    if context.settings.store.folder is None:
        remove_left_drafts()
    written_exports = _replace_exports(context, outlets) if marks or any(removed.values()) else ()
    return Erasure(removed, rejected.unreadable, dict(written_exports))


def _replace_exports(context: TableContext, outlets: Iterable[Outlet]) -> Iterator[tuple[str, str | None]]:
    """Write published exports again; yield each with why it failed, or ``None``."""
    for outlet in outlets:
        try:
            if runner_of(context.settings, outlet, [context.table]).replace_versions(context.run):
                yield outlet.name, None
        except LakehouseError as error:
            yield outlet.name, str(error)


@dataclass(frozen=True)
class _Rejected:
    """The rejected records of which some columns can be read, and how many other_rows there are."""

    rows: DataFrame | None
    unreadable: int

    @classmethod
    def of(cls, context: TableContext, names: Collection[str]) -> "_Rejected":
        """Read these columns of them, even if others are wrong."""
        table, rejected_table = context.table, context.stored_table(rejected_layout)
        if open_table(rejected_table.layout.uri) is None:
            return cls(None, 0)
        stored_rows = rejected_table.rows().where("time IS NOT NULL AND (value IS NOT NULL OR key IS NOT NULL)")
        records = stage_columns(context, stored_rows.selectExpr(*RECORD_COLUMNS), names, "redrive")
        if records is None:
            return cls(None, stored_rows.count())
        whole = "position.index IS NULL" if table.has_elements else "true"
        whole_records = stored_rows.selectExpr(*_PLACES, f"{whole} AS _whole").groupBy("_source", "_p", "_o", "_t")
        places = whole_records.agg(F.expr("bool_or(_whole)").alias("_whole"))
        is_same = f"{staged.PARTITION} = _p AND {staged.POSITION} = _o AND {staged.TIME} <=> _t"
        records = records.join(places, F.expr(is_same)).localCheckpoint()
        is_read = f"{staged.REASON} IS NULL"
        return cls(records.where(is_read), records.where(f"NOT {is_read}").count())


def _mark_keys(context: TableContext, where: str, rejected: _Rejected) -> Marks | None:
    """Mark the keys, or in a log table the records, of rows that meet a condition, or did before they were deleted.

    A key whose row is that of somebody else by now is marked up to its record alone.
    """
    table, rows = context.table, context.merged.rows()
    wanted = [f"`{name}`" for name in table.key] or [RECORD]
    found_keys = [_where(rows, where).select(*wanted)]
    former = []
    if open_table(base_layout(table, context.settings).uri):
        found_keys.append(_where(context.stored_table(base_layout).rows(), where).select(*wanted))
    if table.delete_rule and named_columns(where) <= {*table.key}:  # a stored delete has no other columns
        found_keys.append(_where(context.stored_table(deletes_layout).rows(), where).select(*wanted))
    if not table.is_log:
        former = [_where(changes, where).select(*wanted) for changes in _sides(context)]
        former += [_where(rejected.rows, where).select(*wanted)] if rejected.rows is not None else []
        found_keys += [keys.join(rows, list(table.key), "left_anti") for keys in former]
    keys = reduce(DataFrame.union, found_keys).distinct().localCheckpoint()
    marks = None if keys.isEmpty() else _mark(context, lambda marks: keys.selectExpr(f"{marks.stored_hash} AS hash"))
    if former:
        other_rows = rows.join(reduce(DataFrame.union, former).distinct(), list(table.key), "left_semi")
        other_rows = other_rows.join(keys, list(table.key), "left_anti").where(f"{RECORD}.position IS NOT NULL")
        end = f"map(CAST({RECORD}.partition AS STRING), {RECORD}.position)"
        other_rows = other_rows.select(
            *wanted, F.expr(f"to_json(map({RECORD}.source, {end})) AS ends")
        ).localCheckpoint()
        if not other_rows.isEmpty():
            marks = _mark(context, lambda marks: other_rows.selectExpr(f"{marks.stored_hash} AS hash", "ends"))
    return marks


def _sides(context: TableContext) -> Iterator[DataFrame]:
    """Yield the changes with the values before them, then those after them."""
    table, feed = context.table, context.stored_table(changes_layout).rows()
    for side in ("before", "after"):
        values = [f"`{name}_{side}` AS `{name}`" for name in table.values]
        yield feed.selectExpr(*(f"`{name}`" for name in table.key), "source_table_id", "source_version", *values)


def _remove_changes(context: TableContext, where: str) -> int:
    """Remove the changes from and to values that meet a condition, also of keys whose row is another one by now."""
    place = [*context.table.key, "source_table_id", "source_version"]
    changes = reduce(DataFrame.union, [_where(side, where).select(*place) for side in _sides(context)]).distinct()
    on = equal_keys(place)
    return _remove(context.stored_table(changes_layout), context.run, lambda _: changes, on)


def _where(rows: DataFrame, where: str) -> DataFrame:
    try:
        return rows.where(where)
    except AnalysisException as error:
        action = "Write a condition on columns of the table, in SQL, such as user_id = 1005."
        raise LakehouseError(f"{where!r} cannot be computed: {error.getErrorClass()}", action=action) from error


def _mark(context: TableContext, hashes: Callable[[Marks], DataFrame]) -> Marks:
    return retry_on_conflict(lambda: add_marks(context, hashes, context.ledger()))


def _mark_rejected(context: TableContext, where: str, rejected: _Rejected, marks: Marks | None) -> Marks | None:
    """Mark the rejected records, or elements of one, that meet the condition, or whose key is marked."""
    if rejected.rows is None:
        return marks
    wanted = _where(rejected.rows, where)
    if marks is not None and context.table.key:
        wanted = wanted.union(_of_marked_keys(marks, rejected.rows))
    wanted = wanted.localCheckpoint()
    if wanted.isEmpty():
        return marks
    place = f"struct(_source AS source, {staged.PARTITION} AS partition, {staged.POSITION} AS position)"

    def hashes(marks: Marks) -> DataFrame:
        element = marks.place_hash(place, [staged.INDEX] if context.table.has_elements else [])
        return wanted.selectExpr(f"IF(_whole, {marks.place_hash(place)}, {element}) AS hash")

    return _mark(context, hashes)


def _of_marked_keys(marks: Marks, records: DataFrame) -> DataFrame:
    """Return the records whose key is marked."""
    key_hash = marks.hash_of(*(f"`{name}`" for name in marks.table.key))
    marked_records = marks.concerned(records, key_hash, "_source", staged.PARTITION, staged.POSITION)
    return marked_records.where("_erased").select(*records.columns)


def _remove(stored_table: StoredTable, run: str, erased: Callable[[DataFrame], DataFrame], on: str) -> int:
    """Delete the rows that match erased ones, in one commit; return how many, and make none if there are none.

    The rows are those of the version that the commit is planned on: it fails if another commit comes in between.
    """
    commit = stored_table.next_commit("erasure", run)
    rows = erased(stored_table.rows(commit.table_version)).localCheckpoint()
    if rows.isEmpty():
        return 0
    return stored_table.merge(rows, MergeSpec(on, delete_if="true"), commit).metrics.deleted


def _remove_deletes(context: TableContext, erased: Callable[[DataFrame], DataFrame], on: str) -> int:
    """Delete stored deletes; the merged table then names the version without them, also after a crash in between."""
    ledger = context.ledger()
    deletes = settle_deletes(context, ledger)
    count = _remove(deletes.stored_table, context.run, erased, on)
    version = version_to_consume(deletes.stored_table.ledger())
    counted_version = ledger.last_commit.deletes_table if ledger.last_commit else None
    if count or (counted_version is not None and counted_version != version):
        context.merged.commit_nothing(ledger.next_commit("erasure", context.run).with_fields(deletes_table=version))
    return count


def _steps(context: TableContext, marks: Marks, rejected: _Rejected) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield each table with what removes its erased rows: the feed first: the merged rows say what it may have."""
    table, run = context.table, context.run
    key = [f"`{name}`" for name in table.key] or [RECORD]
    same_row = equal_keys(table.key) if table.key else same_record(table, f"s.{RECORD}", f"t.{RECORD}")
    place = [f"{RECORD}.{name}" for name in ("source", "partition", "position")]

    def of_records(rows: DataFrame) -> DataFrame:
        return marks.concerned(rows, marks.stored_hash, *place).where("_erased").select(*key)

    def of_keys(rows: DataFrame) -> DataFrame:
        return rows.select(*key).distinct().join(versions, F.expr(f"{marks.stored_hash} = _hash")).drop("_hash")

    # a RESTORE brings rows back after their erasure, and the feed reads that
    present_rows = of_records(context.merged.rows()).localCheckpoint()
    versions = _last_versions(marks, present_rows, context.ledger())
    is_former = f"{same_row} AND t.source_version <= s._version"
    if table.delete_rule:
        yield table.deletes_name, partial(_remove_deletes, context, of_records, same_row)
    steps: list[tuple[StoredTable, Callable[[DataFrame], DataFrame], str]] = [
        (context.stored_table(changes_layout), of_keys, is_former),
        (context.merged, of_records, same_row),
        (context.stored_table(base_layout), of_keys, same_row),
        (context.stored_table(rejected_layout), partial(_rejected_places, marks, rejected), _SAME_PLACE),
    ]
    for stored_table, find, on in steps:
        if open_table(stored_table.layout.uri) is not None:
            yield stored_table.layout.name, partial(_remove, stored_table, run, find, on)


def _rejected_places(marks: Marks, rejected: _Rejected, rows: DataFrame) -> DataFrame:
    """Return the places of the rejected records that are marked, or have a marked element: their bytes are of all."""
    place = ("source", "partition", "position", "time")
    hash_ = marks.place_hash("position", ["position.index"] if marks.table.has_elements else [])
    places = rows.selectExpr("position.*", "time", f"{hash_} AS _hash").select(*place, "_hash")
    if rejected.rows is not None and marks.table.has_elements:
        record = f"struct(_source AS source, {staged.PARTITION} AS partition, {staged.POSITION} AS position)"
        element = f"{marks.place_hash(record, [staged.INDEX])} AS _hash"
        fields = ("_source", staged.PARTITION, staged.POSITION, staged.TIME)
        places = places.union(rejected.rows.selectExpr(*fields, element))
    return places.join(marks.rows.selectExpr("hash AS _hash"), "_hash", "left_semi").select(*place).distinct()


def _last_versions(marks: Marks, present_rows: DataFrame, ledger: Ledger) -> DataFrame:
    """Return by hash the last version whose changes are erased: this one for rows that are present."""
    is_of_table = f"table_id = {quoted(ledger.table_id or '')}"  # versions of a table before a rebuild say nothing
    rows = marks.rows.where(f"version >= 0 AND {is_of_table}").select("hash", "version")
    if marks.table.key:
        rows = rows.union(present_rows.selectExpr(f"{marks.stored_hash} AS hash", f"{ledger.version}L AS version"))
    return rows.groupBy("hash").agg(F.max("version").alias("_version")).withColumnRenamed("hash", "_hash")
