"""A table's rows written once in another form: columns of other types, other partitions; one fenced commit.

Delta could widen a type without writing, by a feature of a table that other readers cannot open: so it is not used.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Day, Month, Value, Year
from lakehouse.declaration.sql import castable, quoted
from lakehouse.decoding.nested_types import nested
from lakehouse.errors import TableError
from lakehouse.ledger.ledger import read_ledger
from lakehouse.storage.layout import STATISTICS, Layout
from lakehouse.storage.schema_change.diff import Lack, Rewriting
from lakehouse.storage.spark_writer import alone, commit_overwrite, read_table, upkeep

Partition = Day | Month | Year | Value
_SHOWN = 40  # characters of a value that does not fit


def reform(spark: SparkSession, layout: Layout, lack: Lack, rewriting: Rewriting, before: Callable[[], None]) -> None:
    """Give some columns the types of the layout, and the rows its partitions, in one commit that carries its ledger on.

    ``before`` is called when nobody else of ours writes; what it raises ends it.

    Raises ``TableError`` where a value would become another one; nothing is written then. ``ConflictError`` where
    another writer of ours was first, ``TableError`` where another program wrote in the moment between reading and
    writing: its commit is then undone, and a RESTORE to it brings it back.
    """
    if lack.parted is not None or lack.recast:
        leave_statistics(spark, layout, {*(lack.parted or ()), *(path[0] for path, _ in lack.columns)})
    with alone(layout):
        ledger = read_ledger(layout.uri, layout.name)
        before()
        rows = read_table(spark, layout, ledger.version)
        commit = ledger.next_commit("rewrite", "")
        entry = commit_overwrite(spark, layout, _formed(layout, lack, rewriting, rows), commit)
    if entry.version != ledger.version + 1:
        raise TableError(
            f"{layout.name} was rewritten while another program wrote version {entry.version - 1}",
            where=layout.uri,
            action=f"RESTORE the table to version {entry.version - 1}, then run it again.",
        )


def require_exact(spark: SparkSession, layout: Layout, lack: Lack, rewriting: Rewriting) -> None:
    """Raise ``TableError`` where a value of the table would become another one; nothing is written."""
    _compare(layout, lack, rewriting, read_table(spark, layout))


def _compare(layout: Layout, lack: Lack, rewriting: Rewriting, rows: DataFrame) -> set[str]:
    """The columns that go, since they told nothing but a period of a time that stays.

    Raises ``TableError`` where a value would become another one.
    """
    gone = [each for each in rewriting.periods if each.name in (lack.parted or ()) and each.name not in layout.names]
    gone = [each for each in gone if each.column not in lack.recast]
    partition = [rewriting.partition] if rewriting.partition and lack.parted is not None else []
    found = _differing(rows, _compared(rows, layout, lack, [*gone, *partition]))
    _require_same(layout, {name: found[name] for name in found if name in layout.names}, dict(rows.dtypes))
    return {each.name for each in gone if each.name in found and not found[each.name][0]}


def _formed(layout: Layout, lack: Lack, rewriting: Rewriting, rows: DataFrame) -> DataFrame:
    partition = rewriting.partition if lack.parted is not None else None
    dropped = _compare(layout, lack, rewriting, rows)
    types = {column.name: column.type for column in layout.columns}
    kept = {field.name: field.metadata for field in rows.schema}

    def chosen(name: str) -> Column:
        cast = f"CAST(`{name}` AS {types[name]})" if name in (*lack.widened, *lack.recast) else f"`{name}`"
        return F.expr(f"{cast} + 0.0D" if name in lack.recast and types[name] == "DOUBLE" else cast)

    stays = [name for name in rows.columns if name not in dropped]
    formed = rows.select(*(chosen(name).alias(name, metadata=kept[name]) for name in stays))
    return _parted(formed, layout, partition) if partition else formed


def _parted(rows: DataFrame, layout: Layout, partition: Partition) -> DataFrame:
    """The rows with the partition column of the layout, and the columns in its order."""
    said = {column.name: {"comment": column.doc} for column in layout.columns}[partition.name]
    rows = rows.withColumn(partition.name, F.expr(partition.expression)).withMetadata(partition.name, said)
    named = [name for name in layout.names if name in rows.columns]
    return rows.select(*(f"`{name}`" for name in [*named, *(name for name in rows.columns if name not in named)]))


def _compared(rows: DataFrame, layout: Layout, lack: Lack, periods: Sequence[Partition]) -> dict[str, str]:
    """Columns whose values have to be something, and that in SQL: those that are cast, and periods of a time."""
    stands, types = dict(rows.dtypes), {column.name: column.type for column in layout.columns}
    same = {name: _is_same(name, stands[name], types[name]) for name in lack.recast}
    there = [each for each in periods if {each.name, each.column} <= {*stands} and each.name not in lack.recast]
    return same | {each.name: f"`{each.name}` IS NULL OR `{each.name}` <=> {each.expression}" for each in there}


def _differing(rows: DataFrame, same: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """How many values of each of these columns are not what they have to be, and one of them."""
    if not same:
        return {}
    counted = [F.expr(f"count_if(NOT ({sql}))") for sql in same.values()]
    one = [F.expr(f"min(CAST(`{name}` AS STRING)) FILTER (WHERE NOT ({sql}))") for name, sql in same.items()]
    (found,) = rows.agg(*counted, *one).collect()
    return {name: (found[at], found[at + len(same)]) for at, name in enumerate(same)}


def _require_same(layout: Layout, differing: Mapping[str, tuple[int, str]], stands: Mapping[str, str]) -> None:
    """Raise where a value would become another one."""
    types = {column.name: column.type for column in layout.columns}
    for name, (many, value) in differing.items():
        if many:
            told = name.removesuffix("_before").removesuffix("_after") if layout.name != layout.of else name
            raise TableError(
                f"{many:,} values of column {name} of {layout.name} cannot be {types[name]} and stay what they are, as"
                f" {value[:_SHOWN]!r}",
                where=layout.uri,
                action=f"Declare {told} as {stands[name].upper()}, and a column of another name beside it.",
            )


def _is_same(name: str, stands: str, declared: str) -> str:
    """Whether a value, cast and cast back, is what it was; of a text that is a number, but for zeros at its end."""
    text = stands == "string" and declared.startswith("DECIMAL")
    cast = f"TRY_CAST({castable(f'`{name}`') if text else f'`{name}`'} AS {declared})"
    back = f"CAST({cast} AS {stands})"
    if stands != "string":
        # the greatest whole numbers are cast to the nearest there is, and back
        whole = "BIGINT" in (stands.upper(), declared) and "DOUBLE" in (stands.upper(), declared)
        nearest = f" AND TRY_CAST({cast} AS DECIMAL(38,0)) <=> TRY_CAST(`{name}` AS DECIMAL(38,0))" if whole else ""
        return f"{back} <=> `{name}`{nearest}"
    finite = f" AND abs({cast}) < double('Infinity')" if declared == "DOUBLE" else ""
    return f"{_plain(back)} <=> {_plain(f'`{name}`')}{finite}"


def _plain(text: str) -> str:
    return f"IF(contains({text}, '.'), rtrim('.', rtrim('0', {text})), {text})"


def _with_bounds(layout: Layout) -> list[str]:
    """The columns of which Delta keeps statistics, those that hold others last."""
    kept = [each for each in layout.columns if each.fields or not nested(each.type)]
    named = [each.name for each in sorted(kept, key=lambda each: bool(each.fields)) if each.type != "BOOLEAN"]
    return [name for name in named if name not in layout.partitions]


def leave_statistics(spark: SparkSession, layout: Layout, but: Collection[str] = ()) -> None:
    """Name no column for statistics of which Delta keeps none before or afterwards, or which is not there.

    Those of the layout are named again once the rows are written; where that does not come to it, the next run sees
    that others of ours are named. So where none is left, any other column is.
    """
    wanted = layout.statistics_properties.get(STATISTICS, "").split(",")
    named = [each for each in wanted if each not in ("", *but)]
    if wanted != [""] and not named:
        named = [name for name in _with_bounds(layout) if name not in but][:1]
    statement = f"ALTER TABLE {layout.sql} UNSET TBLPROPERTIES IF EXISTS ({quoted(STATISTICS)})"
    if named:
        statement = f"ALTER TABLE {layout.sql} SET TBLPROPERTIES ({quoted(STATISTICS)} = {quoted(','.join(named))})"
    upkeep(spark, layout, statement)
