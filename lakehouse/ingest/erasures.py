"""Erasures: which keys are erased, as keyed hashes, so that no record that was read before brings their rows back.

A mark holds no value: it is the hash of a key, with a salt of the table. Of a log table, it is that of a record's
position. It concerns records before the progress at the erasure; a later record of the key is a new row.
"""

import json
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Deletes, Explode, StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sql import quoted
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding import staged
from lakehouse.ingest.staging import stage_records
from lakehouse.ledger.commit_infos import progress_by_source
from lakehouse.ledger.commits import Kind
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table
from lakehouse.ledger.positions import SourceId
from lakehouse.ledger.versions import count_rows
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.merge_spec import MergeSpec, from_source
from lakehouse.storage.row_order import INDEX
from lakehouse.storage.table_context import TableContext

_NO_BYTES = "its key cannot be read, and keys were erased after it was read first: it may be one of them"
_ENDS = "MAP<STRING, MAP<STRING, BIGINT>>"
_COLUMNS = (
    TableColumn("hash", "STRING", "SHA-256 of the salt and the key; in a log table, of the position of the record."),
    TableColumn("salt", "STRING", "Random text, the same for all marks of the table."),
    TableColumn("ends", "STRING", "By source and partition, the first position that the erasure does not concern."),
    TableColumn("version", "BIGINT", "Version of the merged table before the erasure; -1 if the key has another row."),
    TableColumn("erased_at", "TIMESTAMP", "When the mark was stored, UTC."),
    TableColumn("table_id", "STRING", "Id of the merged table of that version; a rebuild counts from 0 again."),
)


def erased_layout(table: StreamTable, settings: Settings) -> Layout:
    """Return the layout of the marks: one row for each key and erasure; in a log table, for each record."""
    doc = f"Erased keys of {table.name}, as keyed hashes: records that were read before do not bring them back."
    return Layout(
        table.erased_name,
        settings.table_uri(table.erased_name),
        doc,
        _COLUMNS,
        statistics=["version"],
        retention=table.upkeep.retention,
        anchors=["hash", "ends", "version"],
        sync=settings.sync,
    )


@dataclass(frozen=True)
class Marks:
    """The marks of a table, and their salt."""

    table: TableParts
    rows: DataFrame
    salt: str

    def hash_of(self, *names: str) -> str:
        """Return the SQL of the hash of a key, or of a log table's record, given by its columns or fields."""
        values = ", ".join(f"hex(CAST(CAST({name} AS STRING) AS BINARY))" for name in names)
        return f"sha2(concat_ws(',', {quoted(self.salt)}, {values}), 256)"

    @property
    def stored_hash(self) -> str:
        """The SQL of the hash of a stored row: of its key, or in a log table of its record."""
        if self.table.key:
            return self.hash_of(*(f"`{name}`" for name in self.table.key))
        return self.place_hash(RECORD, [f"{RECORD}.{INDEX.name}"] if self.table.has_elements else [])

    def place_hash(self, position: str, index: Sequence[str] = ()) -> str:
        """Return the SQL of the hash of a record, a struct with its position."""
        return self.hash_of(*(f"{position}.{name}" for name in ("source", "partition", "position")), *index)

    def is_before_an_end(self, source: SourceId) -> str:
        """Return the SQL of whether a record was read before something was erased."""
        last_ends: dict[int, int] = {}
        for (text,) in self.rows.select("ends").distinct().collect():
            for partition, end in json.loads(text).get(source.text, {}).items():
                last_ends[int(partition)] = max(end, last_ends.get(int(partition), 0))
        cases = [f"WHEN {partition} THEN {staged.POSITION} < {end}" for partition, end in sorted(last_ends.items())]
        return f"CASE {staged.PARTITION} {' '.join(cases)} ELSE false END" if cases else "false"

    def concerned(self, rows: DataFrame, hash_: str, source: str, partition: str, position: str) -> DataFrame:
        """Return rows with ``_erased``: whether a mark concerns the record, by its place in SQL, or a base row."""
        marks = self.rows.selectExpr("hash AS _hash", f"from_json(ends, '{_ENDS}') AS _ends", "version AS _of")
        ends = marks.groupBy("_hash").agg(F.collect_list("_ends").alias("_all_ends"), F.max("_of").alias("_last"))
        end = f"ends[{source}][CAST({partition} AS STRING)]"
        is_before = f"exists(_all_ends, ends -> coalesce({position} < {end}, false))"
        is_concerned = f"_hash IS NOT NULL AND IF({position} IS NULL, _last >= 0, {is_before})"
        hashed_rows = rows.withColumn("_own_hash", F.expr(hash_))
        joined_rows = hashed_rows.join(F.broadcast(ends), F.expr("_own_hash = _hash"), "left")
        return joined_rows.withColumn("_erased", F.expr(is_concerned)).drop("_own_hash", "_hash", "_all_ends", "_last")


def read_marks(context: TableContext) -> Marks | None:
    """Return the marks of a table; ``None`` if nothing of it was ever erased."""
    layout = erased_layout(context.table, context.settings)
    if open_table(layout.uri) is None or not count_rows(layout.uri):
        return None
    rows = context.stored_table(erased_layout).rows()
    first = rows.select("salt").first()
    return Marks(context.table, rows, first[0]) if first else None


def add_marks(context: TableContext, hashes: Callable[[Marks], DataFrame], ledger: Ledger) -> Marks:
    """Store a mark for each hash (``hash``) that a function of the marks returns; at one progress, each once.

    A mark concerns what was read up to now; if the function returns ``ends``, only records before these, and nothing
    that is stored by the key.
    """
    stored_table = context.stored_table(erased_layout)
    stored_table.ensure()
    commit = stored_table.next_commit("erasure", context.run)  # before the salt is read, which another may store now
    marks = read_marks(context) or Marks(context.table, stored_table.rows(), secrets.token_hex(16))
    positions = progress_by_source(ledger.last_commit)
    ends = quoted(json.dumps({source.text: dict(ends) for source, ends in positions.items() if ends}, sort_keys=True))
    rows = hashes(marks).distinct()
    columns = {
        "hash": "hash",
        "salt": quoted(marks.salt),
        "ends": "ends" if "ends" in rows.columns else ends,
        "version": f"{-1 if 'ends' in rows.columns else ledger.version}L",
        "erased_at": "current_timestamp()",
        "table_id": quoted(ledger.table_id or ""),
    }
    new_marks = rows.selectExpr(*(f"{sql} AS {name}" for name, sql in columns.items()))
    spec = MergeSpec("t.hash = s.hash AND t.ends = s.ends", insert=from_source(list(columns)))
    stored_table.merge(new_marks.localCheckpoint(), spec, commit)
    return replace(marks, rows=stored_table.rows())


def without_erased(context: TableContext, base_rows: DataFrame) -> DataFrame:
    """Return base rows without those whose key is erased."""
    marks = read_marks(context)
    if marks is None:
        return base_rows
    place = [f"CAST(NULL AS {type_})" for type_ in ("STRING", "INT", "BIGINT")]  # a base row has none
    concerned_rows = marks.concerned(base_rows, marks.stored_hash, *place)
    return concerned_rows.where("NOT _erased").drop("_erased")


def has_marks(context: TableContext) -> bool:
    """Whether something of the table was ever erased."""
    return open_table(erased_layout(context.table, context.settings).uri) is not None


def table_of_columns(table: StreamTable, names: Collection[str]) -> StreamTable | None:
    """Return the table with these columns alone, without rules; ``None`` if records do not have them all.

    It only decodes: what a declaration must have besides is not checked.
    """
    columns = [column for column in table.record_columns if column.name in names]
    if len(columns) < len(names):
        return None
    part = copy(table)
    changes: dict[str, Any] = {"where": None, "version": None, "late": None, "partition_by": None, "base": None}
    if isinstance(table.rows_from, Explode):
        changes["rows_from"] = replace(table.rows_from, where=None)
    changes |= dict.fromkeys(("key", "rejects", "references", "rollups", "checks"), ())
    changes["columns"] = [replace(column, between=None, keep=False, null_erases=False) for column in columns]
    for name, value in (changes | {"deletes": Deletes()}).items():
        object.__setattr__(part, name, value)
    return part


def stage_columns(context: TableContext, records: DataFrame, names: Collection[str], kind: Kind) -> DataFrame | None:
    """Stage records with these columns alone, even if others are wrong; ``None`` if records do not have them all."""
    part = table_of_columns(context.table, names)
    return None if part is None else stage_records(replace(context, table=part), records, kind)


def leave_out_erased(
    context: TableContext, records: DataFrame, source: SourceId, *, are_stored: bool = False
) -> DataFrame:
    """Return staged records; those that are erased, or whose key is, have the outcome ``erased``, and become no row.

    So has a record that is rejected, if its key can be read, and with an erased element each rejected one: the bytes of
    a rejected record are those of all. If its key cannot be read, and it may be an erased one, it keeps no bytes,
    unless the records ``are_stored`` ones that were rejected before.
    """
    table, marks = context.table, read_marks(context)
    if marks is None:
        return records
    place = {"source": quoted(source.text), "partition": staged.PARTITION, "position": staged.POSITION}
    record = f"struct({', '.join(f'{sql} AS {name}' for name, sql in place.items())})"
    hashes = {"_erased_record": marks.hash_of(*place.values())}
    if table.key:
        key_hash = marks.hash_of(*(f"`{name}`" for name in table.key))
        hashes["_erased_key"] = f"IF({staged.REASON} IS NULL, {key_hash}, NULL)"
    if table.has_elements:
        hashes["_erased_row"] = marks.place_hash(record, [staged.INDEX])
    for flag, hash_ in hashes.items():
        records = marks.concerned(records, hash_, *place.values()).withColumnRenamed("_erased", flag)
    records = records.withColumn("_is_erased", F.expr(" OR ".join(hashes))).drop(*hashes)
    records = records.withColumn("_may_be_erased", F.lit(False))
    if table.key or table.has_elements:
        may_be_erased = None if are_stored or not table.key else partial(marks.is_before_an_end, source)
        records = _with_erased_bytes(context, marks, records.localCheckpoint(), place, may_be_erased)
    changes = {
        staged.REASON: f"IF(_is_erased, '{staged.ERASED}', {staged.REASON})",
        staged.DETAIL: f"IF(_may_be_erased, '{_NO_BYTES}', {staged.DETAIL})",
        **{name: f"IF(_is_erased OR _may_be_erased, NULL, {name})" for name in staged.RAW},
    }
    facts = [name for name in (staged.LATE, staged.ROUNDED) if name in records.columns]  # of records that count
    changes |= {name: f"NOT _is_erased AND {name}" for name in facts}
    changed_records = records.withColumns({name: F.expr(sql) for name, sql in changes.items()})
    return changed_records.drop("_is_erased", "_may_be_erased").localCheckpoint()


def _with_erased_bytes(
    context: TableContext,
    marks: Marks,
    records: DataFrame,
    place: Mapping[str, str],
    is_before_an_end: Callable[[], str] | None,
) -> DataFrame:
    """Return records of which a rejected one is erased, too, if its key is, or an element of its record.

    It may be erased if its key cannot be read, and ``is_before_an_end``: it was read before a key was erased.
    """
    is_rejected = f"{staged.REASON} IS NOT NULL AND NOT {staged.REASON} IN ({', '.join(map(quoted, staged.NO_ROWS))})"
    rejected = records.where(f"{is_rejected} AND NOT _is_erased")
    if rejected.isEmpty():
        return records
    names = [staged.PARTITION, staged.POSITION]
    places = records.where("_is_erased").selectExpr(*names, "true AS _has_erased", "true AS _has_key")
    raw = [staged.TIME, *names, staged.SEQUENCE, *staged.RAW]
    with_bytes = rejected.where(" OR ".join(f"{name} IS NOT NULL" for name in staged.RAW)).select(*raw)
    if context.table.key and (keys := stage_columns(context, with_bytes, context.table.key, "replay")) is not None:
        keys = keys.where(f"{staged.REASON} IS NULL")
        key_hash = marks.hash_of(*(f"`{name}`" for name in context.table.key))
        marked_keys = marks.concerned(keys, key_hash, *place.values())
        places = places.union(marked_keys.selectExpr(*names, "_erased AS _has_erased", "true AS _has_key"))
    facts = (F.expr(f"bool_or({name})").alias(name) for name in ("_has_erased", "_has_key"))
    joined_records = records.join(F.broadcast(places.groupBy(*names).agg(*facts)), names, "left")
    is_erased = f"_is_erased OR ({is_rejected} AND coalesce(_has_erased, false))"
    is_early = is_before_an_end() if is_before_an_end else "false"
    may_be_erased = f"{is_rejected} AND NOT coalesce(_has_key, false) AND {is_early}"
    flags = {"_may_be_erased": F.expr(may_be_erased), "_is_erased": F.expr(is_erased)}
    return joined_records.withColumns(flags).drop("_has_erased", "_has_key")
