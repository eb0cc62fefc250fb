"""Rows → the merged table: newest per key, columns kept by themselves, stale rows left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.types import DataType, StructField, StructType

from lakehouse.declaration import StreamTable
from lakehouse.delta.commits import Commit, Entry
from lakehouse.delta.layout import Layout, TableColumn
from lakehouse.delta.order import KEPT, ORDER, RECORD, Newer, kept_order, newer_than_stored, order_of, stored_with
from lakehouse.delta.write import commit_merge, read_table
from lakehouse.errors.troubles import ANOTHER_ROW

_FEW_ROWS = 50_000  # of a source that Spark may send to every executor


def newest_per_key(rows: DataFrame, table: StreamTable, *, alone: bool = False) -> DataFrame:
    """Reduce rows to one for each key: the newest row, and of each kept column its newest value.

    In: declared columns, partition column and order (``_time``, ``_partition``, ``_offset``, ``_base``). Out: as
    the merged table stores them; the order of a kept column is NULL where no row of the key has a value. Where each
    row is ``alone`` for its key, as was counted, it is the newest, and nothing is compared.
    """
    apart = {*table.key, *table.keep}
    partition = [table.partition_by.name] if table.partition_by else []
    own = [c for c in [*(c.name for c in table.columns), *partition] if c not in apart]
    columns = ", ".join(f"`{c}`" for c in [*own, *(f"_{c.name}" for c in ORDER)])
    came_with = ", ".join(_read_as(kept_order(table), table).values())
    parts = {"_newest": (f"struct({columns})", "true")}
    parts |= {f"_newest_{name}": (f"struct(`{name}`, {came_with})", f"`{name}` IS NOT NULL") for name in table.keep}
    if alone:
        taken = (F.expr(f"IF({there}, {part}, NULL)").alias(name) for name, (part, there) in parts.items())
        reduced = rows.select(*table.key, *taken)
    else:
        newest = f"max_by({{}}, {order_of(table)}) FILTER (WHERE {{}})"
        taken = (F.expr(newest.format(*part)).alias(name) for name, part in parts.items())
        reduced = rows.groupBy(*table.key).agg(*taken)
    values = [F.col(f"_newest_{name}.{name}") for name in table.keep]
    orders = [F.expr(_named("_newest", ORDER, table)).alias(RECORD)]
    if table.keep:
        kept = ", ".join(f"'{name}', {_named(f'_newest_{name}', kept_order(table), table)}" for name in table.keep)
        orders.append(F.expr(f"named_struct({kept})").alias(KEPT))
    return reduced.select(*table.key, *(F.col(f"_newest.{c}") for c in own), *values, *orders)


def _named(newest: str, fields: Sequence[TableColumn], table: StreamTable) -> str:
    """An order as it is stored; its fields are NULL where there is no newest row."""
    read = (f"'{name}', {newest}.{column}" for name, column in _read_as(fields, table).items())
    return f"named_struct({', '.join(read)})"


def _read_as(fields: Sequence[TableColumn], table: StreamTable) -> dict[str, str]:
    """The columns of a record that was read, by the fields of an order as it is stored."""
    return {field.name: f"`{table.version}`" if field.name == "version" else f"_{field.name}" for field in fields}


@dataclass(frozen=True)
class Target:
    """Where rows are merged to, and how."""

    table: StreamTable
    layout: Layout

    @property
    def same_key(self) -> str:
        """The key of ``s`` equals that of ``t``."""
        return " AND ".join(f"s.`{name}` = t.`{name}`" for name in self.table.key)

    def others(self, stored: DataFrame) -> list[str]:
        """The columns of ours beside the key, also that of columns that are kept no longer."""
        names = [name for name in self.layout.names if name not in self.table.key]
        return [*names, KEPT] if KEPT in stored.columns and KEPT not in names else names


def merge_rows(spark: SparkSession, target: Target, newest: DataFrame, prune: str, commit: Commit) -> Entry:
    """Merge rows, one for each key, into the merged table; rows that are older than the table's are stale.

    Each is compared once, with the row it meets: that gives the row to store, and the MERGE only puts it there. Where
    it meets another row than the one compared, or none any more, it fails (``ConflictError``) and writes nothing.
    Stale rows take part in no match and no insert, so that a replay writes no data file, but the MERGE counts them:
    what Delta says of its source is every row of the batch.
    """
    stored = read_table(spark, target.layout)
    names = target.layout.names
    rows = _compared(stored, target, _with_fields_of(stored, newest, target.table), prune).localCheckpoint()
    clauses = (
        f"ON {target.same_key} AND {prune} AND NOT s._stale"
        f" WHEN MATCHED THEN UPDATE SET {_assignments(target.others(stored))}"
        f" WHEN NOT MATCHED AND NOT s._stale THEN INSERT ({', '.join(f'`{c}`' for c in names)})"
        f" VALUES ({', '.join(_inserted(name) for name in names)})"
    )
    return commit_merge(spark, target.layout, rows.hint(_join(commit)), clauses, commit)


def _join(commit: Commit) -> str:
    """The hint that keeps Spark from broadcasting the target where Delta counts the source.

    Where such a target is empty, Spark without generated code never reads the source, and Delta counts no row.
    """
    return "broadcast" if commit.read - commit.rejected - commit.duplicate <= _FEW_ROWS else "merge"


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


def _compared(stored: DataFrame, target: Target, newest: DataFrame, prune: str) -> DataFrame:
    """The rows as they are to be stored, the one each met (``_met``, NULL: none), and whether it is ``_stale``."""
    newer, others = newer_than_stored(target.table), target.others(stored)
    met = f"t.`{target.table.key[0]}` IS NOT NULL"
    flags = {"_newer": newer.row, **{f"_newer_{name}": beats for name, beats in newer.keep.items()}}
    joined = newest.alias("s").join(stored.alias("t"), F.expr(f"{target.same_key} AND {prune}"), "left")
    both = joined.selectExpr(
        "struct(s.*) AS s",
        f"IF({met}, struct({_listed('t', others)}), NULL) AS t",
        *(f"NOT {met} OR {beats} AS `{flag}`" for flag, beats in flags.items()),
    )
    return both.selectExpr(
        *(f"s.`{name}`" for name in target.table.key),
        *(f"{value} AS `{c}`" for c, value in _taken(target, stored, newer).items()),
        "t AS _met",
        f"NOT ({' OR '.join(f'`{flag}`' for flag in flags)}) AS _stale",
    )


def _taken(target: Target, stored: DataFrame, newer: Newer) -> dict[str, str]:
    """The columns of the row to store, of ``s`` or of ``t``."""
    others = target.others(stored)
    taken = {c: f"IF(`_newer{f'_{c}' if c in newer.keep else ''}`, s.`{c}`, t.`{c}`)" for c in others if c != KEPT}
    if KEPT in others:
        kept = _fields(stored.schema[KEPT].dataType)
        orders = (f"'{field.name}', {_order_taken(target.table, field)}" for field in kept)
        taken[KEPT] = f"named_struct({', '.join(orders)})"
    return taken


def _inserted(name: str) -> str:
    """Insert the row of the source where it met none; where that row is gone since, fail."""
    return f"IF(s._met IS NULL, s.{RECORD}, raise_error('{ANOTHER_ROW}'))" if name == RECORD else f"s.`{name}`"


def _assignments(others: Sequence[str]) -> str:
    """Store the row of the source where it meets the row it was compared with; where it does not, fail."""
    same = f"s._met <=> struct({_listed('t', others)})"
    guarded = f"IF({same}, s.{RECORD}, raise_error('{ANOTHER_ROW}'))"
    return ", ".join(f"t.`{c}` = {guarded if c == RECORD else f's.`{c}`'}" for c in others)


def _listed(side: str, names: Sequence[str]) -> str:
    return ", ".join(f"{side}.`{name}`" for name in names)


def _order_taken(table: StreamTable, kept: StructField) -> str:
    """The order that is stored of a column that is kept, or was: then none, once a value came with its row."""
    stored = f"t.{KEPT}.`{kept.name}`"
    if kept.name not in table.keep:
        return f"IF(_newer, NULL, {stored})"
    came_with = stored_with(table, kept.name)
    fields = ", ".join(f"'{f.name}', {came_with.get(f.name, f'{stored}.{f.name}')}" for f in _fields(kept.dataType))
    return f"IF(`_newer_{kept.name}`, s.{KEPT}.`{kept.name}`, named_struct({fields}))"
