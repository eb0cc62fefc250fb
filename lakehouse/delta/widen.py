"""Columns of a table given wider types: the same rows, written once, in one fenced commit.

Delta could widen a type without writing, by a feature of a table that other readers cannot open: so it is not used.
"""

from collections.abc import Callable, Collection

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.delta.layout import Layout
from lakehouse.delta.migrate import rewrite


def widen(spark: SparkSession, layout: Layout, names: Collection[str], before: Callable[[], None]) -> None:
    """Give some columns the types of the layout. What the table's ledger tells is carried on.

    Raises what ``rewrite`` and ``before`` raise, which is called once nobody else writes.
    """
    types = {column.name: column.type for column in layout.columns}

    def widened(rows: DataFrame) -> DataFrame:
        kept = {field.name: field.metadata for field in rows.schema}
        chosen = [F.expr(f"CAST(`{n}` AS {types[n]})" if n in names else f"`{n}`") for n in rows.columns]
        return rows.select(*(each.alias(n, metadata=kept[n]) for each, n in zip(chosen, rows.columns, strict=True)))

    rewrite(spark, layout, widened, before)
