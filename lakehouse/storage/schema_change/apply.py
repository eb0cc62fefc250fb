"""Creates a table by its layout, or changes an existing one to fit: adds columns, widens them, sets properties."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from lakehouse.declaration.sql import quoted
from lakehouse.errors import TableError
from lakehouse.ledger.durability import require_undamaged
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table
from lakehouse.storage.layout import Layout, list_properties
from lakehouse.storage.schema_change.diff import RewriteScope, SchemaDiff, compare_schema
from lakehouse.storage.schema_change.rewrite import rewrite_table
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.spark_writer import partitioned, raise_conflicts, run_upkeep, write_alone
from lakehouse.storage.statement import run_statement


def require_nothing() -> None:
    """Require nothing before columns are widened."""


def ensure_table(
    spark: SparkSession,
    layout: Layout,
    before_rewrite: Callable[[], None] | None = require_nothing,
    scope: RewriteScope | None = None,
) -> Ledger | None:
    """Create the table if it is missing, add and widen columns, and correct its properties, such as file retention.

    Calls ``before_rewrite``, which may raise, and then widens columns. If it is ``None``, columns are not widened, and
    a later call stores the declaration. With ``scope``, other column types and partitions are changed too.
    Returns the ledger that it read if it committed nothing, as a second call does, else ``None``.

    Raises ``TableError`` if the table does not fit (a column has another type or was dropped, or the partitions
    differ), if it cannot be read or created, or if a power cut left it incomplete. Raises ``ConflictError`` if another
    writer created it at the same moment.
    """
    layout = layout if before_rewrite else replace(layout, declaration_facts="")
    if layout.sync:
        require_undamaged(layout.uri)
    compare = partial(_compare_or_create, spark, layout, scope)
    with spark_failures(layout.uri), raise_conflicts(layout):
        is_created = open_table(layout.uri) is None
        diff = compare()
    is_rewritten = before_rewrite is not None and diff.needs_rewrite
    has_new_form = diff.stored_partitions is not None or bool(diff.recast_columns)
    if before_rewrite and is_rewritten:
        if diff.stored_partitions is not None:  # the new partition column may be one of the missing columns
            _add_columns(spark, layout, diff)
        rewrite_table(spark, layout, diff, scope or RewriteScope(), before_rewrite)
        diff = compare()
    _add_columns(spark, layout, diff)
    properties = {**diff.properties, **(layout.statistics_properties if has_new_form else {})}
    is_changed = is_created or is_rewritten or bool(diff.missing_columns or properties)
    if properties:
        run_upkeep(spark, layout, f"ALTER TABLE {layout.sql} SET TBLPROPERTIES ({list_properties(properties)})")
    return None if is_changed else diff.ledger


def _add_columns(spark: SparkSession, layout: Layout, diff: SchemaDiff) -> None:
    if diff.missing_columns:
        definitions = [
            "".join(f"`{name}`." for name in path[:-1]) + column.definition for path, column in diff.missing_columns
        ]
        run_upkeep(spark, layout, f"ALTER TABLE {layout.sql} ADD COLUMNS ({', '.join(definitions)})")


def _compare_or_create(spark: SparkSession, layout: Layout, scope: RewriteScope | None) -> SchemaDiff:
    """Compare the table with its layout; create it if it is missing."""
    return compare_schema(layout, open_table(layout.uri) or _create(spark, layout), scope)


def _create(spark: SparkSession, layout: Layout) -> DeltaTable:
    with write_alone(layout):
        run_statement(spark, layout.uri, lambda: spark.sql(_create_statement(layout)))
        table = open_table(layout.uri)
        if table is None:
            _create_in_place(spark, layout)
            table = open_table(layout.uri)
    if table is None:
        raise TableError(
            f"Table {layout.name} could not be created",
            where=layout.uri,
            action="Check the contents of its folder, or correct LAKEHOUSE_TABLES.",
        )
    return table


def _create_in_place(spark: SparkSession, layout: Layout) -> None:
    """Create the table in the folder of an interrupted creation: the SQL statement takes it for a table (seen)."""
    columns = ", ".join(f"CAST(NULL AS {column.type}) AS `{column.name}`" for column in layout.columns)
    empty_rows = _add_comments(spark.sql(f"SELECT {columns} WHERE false"), layout)
    writer = empty_rows.write.format("delta").mode("ignore").options(**layout.properties)
    run_statement(spark, layout.uri, lambda: partitioned(writer, layout).save(layout.uri))


def _add_comments(rows: DataFrame, layout: Layout) -> DataFrame:
    for column in layout.columns:
        rows = rows.withMetadata(column.name, {"comment": column.doc})
    return rows


def _create_statement(layout: Layout) -> str:
    columns = ", ".join(column.definition for column in layout.columns)
    return (
        f"CREATE TABLE IF NOT EXISTS {layout.sql} ({columns}) USING DELTA"
        + (f" PARTITIONED BY (`{layout.partition_by}`)" if layout.partition_by else "")
        + f" COMMENT {quoted(layout.doc)}"
        + f" TBLPROPERTIES ({list_properties(layout.properties)})"
    )
