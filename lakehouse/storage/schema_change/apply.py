"""A table as its layout says: created where it is missing, given columns it lacks."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from lakehouse.declaration.sql import quoted
from lakehouse.errors import TableError
from lakehouse.ledger.durability import require_whole
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table
from lakehouse.storage.layout import Layout, listed
from lakehouse.storage.schema_change.diff import Lack, Rewriting, lacking
from lakehouse.storage.schema_change.rewrite import reform
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.spark_writer import alone, conflicts, partitioned, upkeep
from lakehouse.storage.statement import run_statement


def ask_nothing() -> None:
    """What is asked before columns are widened, where nothing is."""


def ensure_table(
    spark: SparkSession,
    layout: Layout,
    before: Callable[[], None] | None = ask_nothing,
    rewriting: Rewriting | None = None,
) -> Ledger | None:
    """Create the table where it is missing, add columns it lacks, widen some, correct how long its files are kept.

    Columns are widened after ``before`` was called, which may raise; where it is ``None``, they stay as they are, and
    what is declared is kept by a later call. With ``rewriting``, other types and partitions are given too.
    Returns the ledger that it read if it committed nothing, as a second call does, else ``None``.

    Raises ``TableError`` where the table does not fit: a column of another type, one that somebody dropped,
    other partitions; and where it cannot be read or made, or a power cut left only a part of it. Raises
    ``ConflictError`` where another writer created it in the same moment.
    """
    layout = layout if before else replace(layout, declares="")
    if layout.sync:
        require_whole(layout.uri)
    found = partial(_found, spark, layout, rewriting)
    with spark_failures(layout.uri), conflicts(layout.name):
        created = open_table(layout.uri) is None
        lack = found()
    written, other = before is not None and lack.written, lack.parted is not None or bool(lack.recast)
    if before and written:
        if lack.parted is not None:  # rows may be parted by what they lack
            _add_columns(spark, layout, lack)
        reform(spark, layout, lack, rewriting or Rewriting(), before)
        lack = found()
    _add_columns(spark, layout, lack)
    properties = {**lack.properties, **(layout.statistics_properties if other else {})}
    changed = created or written or bool(lack.columns or properties)
    if properties:
        upkeep(spark, layout, f"ALTER TABLE {layout.sql} SET TBLPROPERTIES ({listed(properties)})")
    return None if changed else lack.ledger


def _add_columns(spark: SparkSession, layout: Layout, lack: Lack) -> None:
    if lack.columns:
        added = ["".join(f"`{name}`." for name in path[:-1]) + column.definition for path, column in lack.columns]
        upkeep(spark, layout, f"ALTER TABLE {layout.sql} ADD COLUMNS ({', '.join(added)})")


def _found(spark: SparkSession, layout: Layout, rewriting: Rewriting | None) -> Lack:
    """What the table lacks now; it is created where it is missing."""
    return lacking(layout, open_table(layout.uri) or _create(spark, layout), rewriting)


def _create(spark: SparkSession, layout: Layout) -> DeltaTable:
    with alone(layout):
        run_statement(spark, layout.uri, lambda: spark.sql(_create_statement(layout)))
        created = open_table(layout.uri)
        if created is None:
            _create_in_place(spark, layout)
            created = open_table(layout.uri)
    if created is None:
        raise TableError(
            f"Table {layout.name} could not be made",
            where=layout.uri,
            action="See what its folder holds, or correct LAKEHOUSE_TABLES.",
        )
    return created


def _create_in_place(spark: SparkSession, layout: Layout) -> None:
    """Create the table in a folder that a cut-off creation left: the statement takes it for a table (seen)."""
    columns = ", ".join(f"CAST(NULL AS {column.type}) AS `{column.name}`" for column in layout.columns)
    nothing = _commented(spark.sql(f"SELECT {columns} WHERE false"), layout)
    writer = nothing.write.format("delta").mode("ignore").options(**layout.properties)
    run_statement(spark, layout.uri, lambda: partitioned(writer, layout).save(layout.uri))


def _commented(rows: DataFrame, layout: Layout) -> DataFrame:
    for column in layout.columns:
        rows = rows.withMetadata(column.name, {"comment": column.doc})
    return rows


def _create_statement(layout: Layout) -> str:
    columns = ", ".join(column.definition for column in layout.columns)
    return (
        f"CREATE TABLE IF NOT EXISTS {layout.sql} ({columns}) USING DELTA"
        + (f" PARTITIONED BY (`{layout.partition_by}`)" if layout.partition_by else "")
        + f" COMMENT {quoted(layout.doc)}"
        + f" TBLPROPERTIES ({listed(layout.properties)})"
    )
