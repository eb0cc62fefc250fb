"""A table that an older lakehouse wrote, brought into today's form: the same rows, in one fenced commit.

Only columns of ours change. Declared columns stay as they are, so do those that are somebody else's; what a declaration
asks for beyond them is added afterwards, as to any table.
"""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration.sql import quoted
from lakehouse.delta.layout import Former, Layout, Made
from lakehouse.delta.ledger import read_ledger
from lakehouse.delta.write import alone, commit_overwrite, read_table, upkeep
from lakehouse.errors import TableError


def is_former(layout: Layout, names: Sequence[str]) -> bool:
    """Whether a table with these columns is in the form of an older lakehouse."""
    return layout.former is not None and layout.former.known_by in names and not all(a in names for a in layout.anchors)


def migrate(spark: SparkSession, layout: Layout, former: Former) -> None:
    """Bring a table into today's form. What its ledger tells is carried on; statistics are left to Delta.

    Raises what ``rewrite`` raises.
    """
    named = ", ".join(quoted(name) for name in layout.statistics_properties)  # they name columns that go
    upkeep(spark, layout, f"ALTER TABLE {layout.sql} UNSET TBLPROPERTIES IF EXISTS ({named})")
    rewrite(spark, layout, lambda rows: _today(rows, layout, former))


def rewrite(
    spark: SparkSession,
    layout: Layout,
    form: Callable[[DataFrame], DataFrame],
    before: Callable[[], None] = lambda: None,
) -> None:
    """Write the rows of a table in another form, in one fenced commit that carries its ledger on.

    ``before`` is called when nobody else of ours writes; what it raises ends it.

    Raises ``ConflictError`` where another writer of ours was first, ``TableError`` where another program wrote in the
    moment between reading and writing: its commit is then undone, and a RESTORE to it brings it back.
    """
    with alone(layout):
        ledger = read_ledger(layout.uri, layout.name)
        before()
        rows = read_table(spark, layout, ledger.version)
        commit = ledger.next_commit("migration", "")
        entry = commit_overwrite(spark, layout, form(rows), commit)
    if entry.version != ledger.version + 1:
        raise TableError(
            f"{layout.name} was brought into its present form while another program wrote version {entry.version - 1}",
            where=layout.uri,
            action=f"RESTORE the table to version {entry.version - 1}, then run it again.",
        )


def in_todays_form(rows: DataFrame, layout: Layout) -> DataFrame:
    """The rows of a table in either form with the columns of ours that today's form has; nothing is written."""
    if layout.former is None or not is_former(layout, rows.columns):
        return rows
    return _today(rows, layout, layout.former)


def _today(rows: DataFrame, layout: Layout, former: Former) -> DataFrame:
    """Columns of ours made from those of the former form, which go; all others as they are, and what they mean."""
    made: Mapping[str, Made] = {one.column.name: one for one in former.made(rows.columns)}
    stays = [name for name in rows.columns if name not in former.owned(rows.columns) and name not in made]
    named = [name for name in layout.names if name in stays or name in made]
    order = [*named, *(name for name in stays if name not in named)]
    kept = {field.name: field.metadata for field in rows.schema}
    chosen = [
        F.expr(f"CAST({made[n].sql} AS {made[n].column.type})").alias(n, metadata={"comment": made[n].column.doc})
        if n in made
        else F.col(f"`{n}`").alias(n, metadata=kept[n])
        for n in order
    ]
    return rows.select(*chosen)
