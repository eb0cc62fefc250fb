"""A table as its layout says: created where it is missing, brought into today's form, given columns it lacks."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.declaration.nested import as_spark_says
from lakehouse.declaration.sql import quoted
from lakehouse.declaration.widening import is_widened
from lakehouse.delta.failures import table_failures
from lakehouse.delta.layout import KEY, Former, Layout, TableColumn, listed, paths
from lakehouse.delta.ledger import read_ledger
from lakehouse.delta.lock import table_lock
from lakehouse.delta.log import open_table
from lakehouse.delta.migrate import is_former, migrate
from lakehouse.delta.statement import run_statement
from lakehouse.delta.widen import widen
from lakehouse.delta.write import conflicts, partitioned, read_table, upkeep
from lakehouse.errors import TableError


def ask_nothing() -> None:
    """What is asked before columns are widened, where nothing is."""


Types = dict[tuple[str, ...], str]
"""The type of every column of a table, and of every field of a struct, by the names that lead to it."""


def ensure_table(spark: SparkSession, layout: Layout, before: Callable[[], None] | None = ask_nothing) -> bool:
    """Create the table where it is missing, add columns it lacks, widen some, correct how long its files are kept.

    Columns are widened after ``before`` was called, which may raise; where it is ``None``, they stay as they are.
    Returns whether it committed anything; a second call does not.

    Raises ``TableError`` where the table does not fit: a column of another type, one that somebody dropped,
    other partitions; and where it cannot be read or made. Raises ``ConflictError`` where another writer
    created it in the same moment.
    """
    with table_failures(layout.uri), conflicts(layout.name):
        there = open_table(layout.uri)
        table = there or _create(spark, layout)
        lack = lacking(layout, table)
    missing = lack.columns
    widened = lack.widened if before else []
    if before and widened:
        widen(spark, layout, widened, before)
    if lack.form and layout.former:
        migrate(spark, layout, layout.former)
        missing = _missing(layout, _types(read_table(spark, layout).schema))
    if missing:
        added = ["".join(f"`{name}`." for name in path[:-1]) + column.definition for path, column in missing]
        upkeep(spark, layout, f"ALTER TABLE {layout.sql} ADD COLUMNS ({', '.join(added)})")
    if lack.properties:
        upkeep(spark, layout, f"ALTER TABLE {layout.sql} SET TBLPROPERTIES ({listed(lack.properties)})")
    return there is None or lack.form or any((widened, missing, lack.properties))


@dataclass(frozen=True)
class Lack:
    """What a table lacks of its layout: today's form, columns and fields of structs by their names, properties.

    ``widened`` are the columns that have a narrower type.
    """

    form: bool
    columns: Sequence[tuple[tuple[str, ...], TableColumn]]
    properties: Mapping[str, str]
    widened: Sequence[str]


def lacking(layout: Layout, table: DeltaTable) -> Lack:
    """What an opened table lacks; nothing is written. Raises ``TableError`` where it does not fit."""
    stands, found = table.metadata(), _types(StructType.fromJson(json.loads(table.schema().to_json())))
    _require_key(layout, stands.configuration)
    widened = _widened(layout, found)
    _require_partition(layout, stands.partition_columns)
    names = [path[0] for path in found if len(path) == 1]
    former = layout.former if is_former(layout, names) else None
    if former:
        found = _in_todays_form(former, names, found)
    return Lack(former is not None, _missing(layout, found), layout.corrections(stands.configuration), widened)


def _in_todays_form(former: Former, names: Sequence[str], found: Types) -> Types:
    """The columns that a table in an earlier form has once it is migrated."""
    gone = former.owned(names)
    stays = {path: type_ for path, type_ in found.items() if not path or path[0] not in gone}
    return stays | {path: column.type for path, column in paths(made.column for made in former.made(names))}


def _missing(layout: Layout, found: Mapping[tuple[str, ...], str]) -> list[tuple[tuple[str, ...], TableColumn]]:
    """The columns that a table with these lacks; ``TableError`` where one of them may not be added."""
    missing = [(path, column) for path, column in paths(layout.columns) if path[:-1] in found and path not in found]
    if missing:
        _require_same_rows(layout, [path for path, _ in missing])
        _require_new(layout, [path[0] for path, _ in missing if len(path) == 1])
    return missing


def _types(schema: StructType, above: tuple[str, ...] = ()) -> Types:
    found = {above: schema.simpleString()}
    for each in schema:
        path = (*above, each.name)
        found[path] = each.dataType.simpleString()
        if isinstance(each.dataType, StructType):
            found |= _types(each.dataType, path)
    return found


def _create(spark: SparkSession, layout: Layout) -> DeltaTable:
    with table_lock(layout.uri, layout.name):
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


def _require_key(layout: Layout, stands: Mapping[str, str]) -> None:
    """Raise where the rows were merged by another key: a key of the new one may stand in several of them."""
    named = stands.get(KEY, "")
    if named and layout.key and named != layout.lasting[KEY]:
        raise TableError(
            f"The key of {layout.name} is {named} in the table and {layout.lasting[KEY]} in its declaration",
            where=layout.uri,
            action="Declare the key the table has, or a table of another name.",
        )


def _widened(layout: Layout, found: Mapping[tuple[str, ...], str]) -> list[str]:
    """The columns of a narrower type that are to be widened; ``TableError`` where one is of any other type."""
    widened = []
    for path, column in paths(layout.columns):
        declared = as_spark_says(column.type)
        stands = found.get(path, declared)
        if stands == declared or column.fields:
            continue
        can = len(path) == 1 and is_widened(stands, declared)
        if not (can and column.widens):
            or_widen = f", or say widened_from={stands.upper()!r} to have it widened" if can else ""
            raise TableError(
                f"Column {'.'.join(path)} is {stands} in the table and {declared} in its declaration",
                where=layout.uri,
                action=f"Declare the type the table has, or write to a new table{or_widen}.",
            )
        widened.append(column.name)
    return widened


def _require_partition(layout: Layout, stands: Sequence[str]) -> None:
    declared = [layout.partition_by] if layout.partition_by else []
    if list(stands) != declared:
        raise TableError(
            f"The table is partitioned by {', '.join(stands) or 'nothing'} and"
            f" its declaration by {', '.join(declared) or 'nothing'}",
            where=layout.uri,
            action="Declare the partitions the table has, or write to a new table.",
        )


def _require_same_rows(layout: Layout, missing: Sequence[tuple[str, ...]]) -> None:
    """Raise where a struct lacks a field without which a row means nothing: rows of a log table are others."""
    for path in missing:
        if len(path) > 1 and path[0] in layout.anchors:
            raise TableError(
                f"The rows of {layout.name} have no {'.'.join(path)}: they were written with a key where there is none"
                " now, or without one where there is one now",
                where=layout.uri,
                action="Declare the key as it was, or a table of another name.",
            )


def _require_new(layout: Layout, missing: Sequence[str]) -> None:
    """Raise where a column that is missing was there: to add it again would hide that its values are gone."""
    newest = read_ledger(layout.uri, layout.name).newest
    same = newest is not None and newest.commit.declaration == layout.declaration != ""
    gone = [name for name in missing if same or name in layout.anchors]
    if gone:
        raise TableError(
            f"Column {gone[0]} is in the declaration of {layout.name} and no longer in the table",
            where=layout.uri,
            action="Somebody dropped or renamed it: RESTORE the table to the version before, then run it again.",
        )
