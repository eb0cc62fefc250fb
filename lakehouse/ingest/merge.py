"""Rows → the merged table: newest per key, columns kept by themselves, stale rows left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.types import DataType, StructField, StructType

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.decoding import staged
from lakehouse.errors.troubles import ANOTHER_ROW
from lakehouse.ingest.counts import Counts
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.log import open_table
from lakehouse.storage.comparison import comparable_row, struct_of
from lakehouse.storage.layout import DECLARED
from lakehouse.storage.merge_spec import MergeSpec, equal_keys, from_source
from lakehouse.storage.row_order import KEPT, Newer, kept_order, newer_than_stored, same_record, stored_with
from lakehouse.storage.stored_table import Expected, StoredTable


@dataclass(frozen=True)
class Target:
    """Where rows are merged to, and how."""

    table: StreamTable
    merged: StoredTable

    @property
    def same_key(self) -> str:
        """The key of ``s`` equals that of ``t``."""
        return equal_keys(self.table.key)

    @property
    def texts(self) -> set[str]:
        """The columns of texts beside the key."""
        return {name for name in self.table.values if self.table.by_name[name].type == "STRING"}

    def types(self, names: Sequence[str]) -> dict[str, str]:
        """The types of columns; none of what is no column of ours."""
        known = {column.name: column.type for column in self.merged.layout.columns}
        return {name: known.get(name, "") for name in names}

    def others(self, stored: DataFrame) -> list[str]:
        """The columns of ours beside the key, also that of columns that are kept no longer."""
        names = [name for name in self.merged.layout.names if name not in self.table.key]
        return [*names, KEPT] if KEPT in stored.columns and KEPT not in names else names

    def undeclared(self, stored: DataFrame) -> list[str]:
        """The columns that were declared and are not any more: of a newer record they hold nothing."""
        there = open_table(self.merged.layout.uri)
        ever = there.metadata().configuration.get(DECLARED, "").split(",") if there else []
        return [name for name in stored.columns if name in ever and name not in (*self.merged.layout.names, KEPT)]


def merge_rows(target: Target, newest: DataFrame, counts: Counts, commit: Commit) -> Entry:
    """Merge rows, one for each key, into the merged table; rows that are older than the table's are stale.

    Each is compared once, with the row it meets: that gives the row to store, and the commit only puts it there. Where
    a row is no longer the one that was compared, or is there only now, it is not made (``ConflictError``).
    Stale rows take part in no match and no insert, so that a replay writes no data file, but they are counted: what
    Delta says of its source is every row of the batch.
    """

    def compare_few(stored: DataFrame) -> DataFrame:
        compared = _compared(target, stored, newest, counts).drop(staged.MET)
        # those of stale rows are the stored ones, and go nowhere
        untold = {name: F.expr(f"IF({staged.STALE}, NULL, `{name}`)") for name in sorted(target.texts)}
        return compared.withColumns(untold) if untold else compared

    def compare_many(stored: DataFrame) -> tuple[DataFrame, MergeSpec]:
        rows = _compared(target, stored, newest, counts).localCheckpoint()
        return rows.hint(counts.join), _store_spec(target, stored, counts)

    keep = target.table.keep
    # what is kept was not counted
    text = None if target.texts & {*keep} else counts.text_from(commit.source, 1 + len(keep))
    expected = Expected(counts.rows, text, counts.partitions)
    return target.merged.store_compared(compare_few, compare_many, commit, expected)


def _store_spec(target: Target, stored: DataFrame, counts: Counts) -> MergeSpec:
    """How Spark stores rows that were compared."""
    new = f"NOT s.{staged.STALE}"
    return MergeSpec(
        f"{target.same_key} AND {counts.prune} AND {new}",
        _assignments(target, stored),
        {name: _inserted(name) for name in target.merged.layout.names},
        insert_if=new,
    )


def _with_fields_of(stored: DataFrame, newest: DataFrame, table: StreamTable) -> DataFrame:
    """Give ``_kept`` the fields that the table has, in their order: a declaration may have had others before."""
    if not table.keep:
        return newest
    ours = {field.name for field in kept_order(table)}
    type_ = stored.schema[KEPT].dataType

    def order(kept: StructField) -> str:
        read = {f.name: f"{KEPT}.`{kept.name}`.{f.name}" if f.name in ours else "NULL" for f in _fields(kept.dataType)}
        fields = (f"'{name}', {value}" for name, value in read.items())
        return f"named_struct({', '.join(fields)})" if kept.name in table.keep else "NULL"

    orders = ", ".join(f"'{kept.name}', {order(kept)}" for kept in _fields(type_))
    return newest.withColumn(KEPT, F.expr(f"CAST(named_struct({orders}) AS {type_.simpleString()})"))


def _fields(type_: DataType) -> list[StructField]:
    return type_.fields if isinstance(type_, StructType) else []


def _compared(target: Target, stored: DataFrame, newest: DataFrame, counts: Counts) -> DataFrame:
    """The rows as they are to be stored, the one each met (``_met``, NULL: none), and whether it is stale."""
    newer, others = newer_than_stored(target.table), target.others(stored)
    met = f"t.`{target.table.key[0]}` IS NOT NULL"
    flags = {staged.NEWER: newer.row, **{f"{staged.NEWER}_{name}": beats for name, beats in newer.keep.items()}}
    source = _with_fields_of(stored, newest, target.table).alias("s")
    joined = source.join(stored.alias("t"), F.expr(f"{target.same_key} AND {counts.prune}"), "left")
    both = joined.selectExpr(
        "struct(s.*) AS s",
        f"IF({met}, struct({_listed('t', others)}), NULL) AS t",
        *(f"NOT {met} OR {beats} AS `{flag}`" for flag, beats in flags.items()),
    )
    return both.selectExpr(
        *(f"s.`{name}`" for name in target.table.key),
        *(f"{value} AS `{c}`" for c, value in _taken(target, stored, newer).items()),
        f"{comparable_row('t', target.types(others))} AS {staged.MET}",
        f"NOT ({' OR '.join(f'`{flag}`' for flag in flags)}) AS {staged.STALE}",
    )


def _taken(target: Target, stored: DataFrame, newer: Newer) -> dict[str, str]:
    """The columns of the row to store, of ``s`` or of ``t``."""
    others = target.others(stored)
    flags = {name: f"{staged.NEWER}_{name}" for name in newer.keep}
    taken = {c: f"IF(`{flags.get(c, staged.NEWER)}`, s.`{c}`, t.`{c}`)" for c in others if c != KEPT}
    if KEPT in others:
        kept = _fields(stored.schema[KEPT].dataType)
        orders = (f"'{field.name}', {_order_taken(target.table, field)}" for field in kept)
        taken[KEPT] = f"named_struct({', '.join(orders)})"
    return taken


def _inserted(name: str) -> str:
    """Insert the row of the source where it met none; where that row is gone since, fail."""
    return f"IF(s.{staged.MET} IS NULL, s.{RECORD}, raise_error('{ANOTHER_ROW}'))" if name == RECORD else f"s.`{name}`"


def _assignments(target: Target, stored: DataFrame) -> dict[str, str]:
    """Store the row of the source where it meets the row it was compared with; where it does not, fail.

    What was declared once, and is not any more, goes with its record.
    """
    others = target.others(stored)
    met = f"s.{staged.MET} <=> {struct_of('t', target.types(others))}"
    guarded = f"IF({met}, s.{RECORD}, raise_error('{ANOTHER_ROW}'))"
    same = same_record(f"s.{RECORD}", f"t.{RECORD}", "base")
    gone = {c: f"IF({same}, t.`{c}`, NULL)" for c in target.undeclared(stored)}
    return from_source(others) | {RECORD: guarded} | gone


def _listed(side: str, names: Sequence[str]) -> str:
    return ", ".join(f"{side}.`{name}`" for name in names)


def _order_taken(table: StreamTable, kept: StructField) -> str:
    """The order that is stored of a column that is kept, or was: then none, once a value came with its row."""
    stored = f"t.{KEPT}.`{kept.name}`"
    if kept.name not in table.keep:
        return f"IF({staged.NEWER}, NULL, {stored})"
    came_with = stored_with(table, kept.name)
    fields = ", ".join(f"'{f.name}', {came_with.get(f.name, f'{stored}.{f.name}')}" for f in _fields(kept.dataType))
    return f"IF(`{staged.NEWER}_{kept.name}`, s.{KEPT}.`{kept.name}`, named_struct({fields}))"
