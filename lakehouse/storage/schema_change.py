"""Creates a table by its layout, or changes an existing one to fit: adds columns, sets properties, rewrites its rows.

Delta could widen a type without a rewrite, but by a table feature that other readers cannot open.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Day, Month, Value, Year
from lakehouse.declaration.sql import castable, quoted
from lakehouse.decoding.nested_types import nested
from lakehouse.errors import ConflictError, TableError, restore_advice
from lakehouse.ledger.durability import require_undamaged
from lakehouse.ledger.ledger import Ledger, read_ledger
from lakehouse.ledger.log import open_table
from lakehouse.storage.layout import STATISTICS, Layout, list_properties
from lakehouse.storage.schema_diff import RewriteScope, SchemaDiff, compare_schema
from lakehouse.storage.spark_failures import spark_failures
from lakehouse.storage.spark_writer import (
    commit_overwrite,
    partitioned,
    raise_conflicts,
    read_table,
    run_upkeep,
    write_alone,
)
from lakehouse.storage.statement import run_statement

Partition = Day | Month | Year | Value
Reader = Callable[[DataFrame], DataFrame]
_EXAMPLE_LENGTH, _SHOWN_TEXTS = 40, 5  # characters shown of a value that does not fit, and values shown


def rewrite_table(
    spark: SparkSession, layout: Layout, diff: SchemaDiff, scope: RewriteScope, before_rewrite: Callable[[], None]
) -> None:
    """Rewrite a table with the column types and partitions of its layout, in one commit that continues its ledger.

    Calls ``before_rewrite`` after it has excluded our other writers; an exception that it raises ends the rewrite.

    Raises ``TableError`` if a value would change; nothing is written then. Raises ``ConflictError`` if another writer
    of lakehouse was first. Raises ``TableError`` if another program changed rows between reading and writing: the
    rewrite undoes that commit, and a RESTORE to it brings it back. Upkeep in between, as in a store, changes no row.
    """
    if diff.stored_partitions is not None or diff.recast_columns:
        restrict_statistics(
            spark, layout, {*(diff.stored_partitions or ()), *(path[0] for path, _ in diff.missing_columns)}
        )
    with write_alone(layout):
        ledger = read_ledger(layout.uri, layout.name)
        before_rewrite()
        rows = read_table(spark, layout, ledger.version)
        commit = ledger.next_commit("rewrite", "")
        entry = commit_overwrite(spark, layout, _convert_rows(layout, diff, scope, rows), commit)
    versions_between = {*range(ledger.version + 1, entry.version)}
    undone_versions = versions_between and versions_between - read_ledger(layout.uri, layout.name).unchanged_versions
    if undone_versions:
        version = max(undone_versions)
        raise TableError(
            f"{layout.name} was rewritten while another program wrote version {version}",
            where=layout.uri,
            action="The rewrite undid what that program wrote. Restore its version, then run the rewrite again."
            f" {restore_advice(layout.uri, version)}",
        )


def require_exact(spark: SparkSession, layout: Layout, diff: SchemaDiff, scope: RewriteScope) -> None:
    """Raise ``TableError`` if a rewrite would change a value of the table; write nothing."""
    _find_dropped_columns(layout, diff, scope, read_table(spark, layout))


def _find_dropped_columns(layout: Layout, diff: SchemaDiff, scope: RewriteScope, rows: DataFrame) -> set[str]:
    """Return the columns to drop: each holds only the period of a time in another column.

    Raises ``TableError`` if a value would change.
    """
    for name, reader in _find_readers(layout, diff, scope, rows).items():
        _require_readable(layout, name, reader(_distinct_texts(rows, name)))
    old_periods = [
        period
        for period in scope.periods
        if period.name in (diff.stored_partitions or ()) and period.name not in layout.names
    ]
    old_periods = [period for period in old_periods if period.column not in diff.recast_columns]
    new_partition = [scope.partition] if scope.partition and diff.stored_partitions is not None else []
    differences = _count_differences(rows, _exact_conditions(rows, layout, diff, scope, [*old_periods, *new_partition]))
    changes = {name: differences[name] for name in differences if name in layout.names}
    _require_unchanged(layout, changes, dict(rows.dtypes))
    return {period.name for period in old_periods if period.name in differences and not differences[period.name][0]}


def _find_readers(layout: Layout, diff: SchemaDiff, scope: RewriteScope, rows: DataFrame) -> dict[str, Reader]:
    """Return the columns whose stored texts are read by the rules of a declared column."""
    stored_types, readers = dict(rows.dtypes), scope.readers
    names = {name: _declared_name(layout, name) for name in diff.recast_columns if stored_types[name] == "string"}
    return {name: readers[declared_name] for name, declared_name in names.items() if declared_name in readers}


def _distinct_texts(rows: DataFrame, name: str) -> DataFrame:
    return rows.select(F.col(f"`{name}`").alias("text")).where("text IS NOT NULL").distinct()


def _require_readable(layout: Layout, name: str, texts: DataFrame) -> None:
    """Raise if a text has no value by the rules of its column."""
    bad_texts = texts.where("detail IS NOT NULL").orderBy("text").limit(_SHOWN_TEXTS + 1).collect()
    if bad_texts:
        shown_texts = [f"{row['text'][:_EXAMPLE_LENGTH]!r} ({row['detail']})" for row in bad_texts[:_SHOWN_TEXTS]]
        more = ", and more" if len(bad_texts) > _SHOWN_TEXTS else ""
        raise TableError(
            f"Texts of column {name} of {layout.name} cannot be read as declared: {', '.join(shown_texts)}{more}",
            where=layout.uri,
            action=f"Correct written= or null_values= of {_declared_name(layout, name)}. Nothing was written.",
        )


def _declared_name(layout: Layout, name: str) -> str:
    """Return the declared column that a column of any table of the declaration belongs to."""
    if "source_version" not in layout.names:  # only the change feed has two columns for one
        return name
    return name.removesuffix("_before").removesuffix("_after")


def _convert_rows(layout: Layout, diff: SchemaDiff, scope: RewriteScope, rows: DataFrame) -> DataFrame:
    partition = scope.partition if diff.stored_partitions is not None else None
    dropped_columns = _find_dropped_columns(layout, diff, scope, rows)
    types = {column.name: column.type for column in layout.columns}
    field_metadata = {field.name: field.metadata for field in rows.schema}
    names = [name for name in rows.columns if name not in dropped_columns]
    for name, reader in _find_readers(layout, diff, scope, rows).items():
        values = reader(_distinct_texts(rows, name)).selectExpr("text AS _text", "value AS _value")
        rows = (
            rows.join(values, F.expr(f"`{name}` = _text"), "left")
            .withColumn(name, F.col("_value"))
            .drop("_text", "_value")
        )

    def convert_column(name: str) -> Column:
        cast = (
            f"CAST(`{name}` AS {types[name]})" if name in (*diff.widened_columns, *diff.recast_columns) else f"`{name}`"
        )
        return F.expr(f"{cast} + 0.0D" if name in diff.recast_columns and types[name] == "DOUBLE" else cast)

    converted_rows = rows.select(*(convert_column(name).alias(name, metadata=field_metadata[name]) for name in names))
    return _add_partition(converted_rows, layout, partition) if partition else converted_rows


def _add_partition(rows: DataFrame, layout: Layout, partition: Partition) -> DataFrame:
    """Return the rows with the partition column of the layout, and with the columns in its order."""
    comment = {column.name: {"comment": column.doc} for column in layout.columns}[partition.name]
    rows = rows.withColumn(partition.name, F.expr(partition.expression)).withMetadata(partition.name, comment)
    ordered_names = [name for name in layout.names if name in rows.columns]
    ordered_names += [name for name in rows.columns if name not in ordered_names]
    return rows.select(*(f"`{name}`" for name in ordered_names))


def _exact_conditions(
    rows: DataFrame, layout: Layout, diff: SchemaDiff, scope: RewriteScope, periods: Sequence[Partition]
) -> dict[str, str]:
    """Return the SQL conditions under which a rewrite keeps values, by column: recast columns and periods of a time."""
    stored_types, types = dict(rows.dtypes), {column.name: column.type for column in layout.columns}
    read_names = _find_readers(layout, diff, scope, rows)
    cast_names = [name for name in diff.recast_columns if name not in read_names]
    conditions = {name: _exact_cast(name, stored_types[name], types[name]) for name in cast_names}
    for period in periods:
        if {period.name, period.column} <= {*stored_types} and period.name not in diff.recast_columns:
            conditions[period.name] = f"`{period.name}` IS NULL OR `{period.name}` <=> {period.expression}"
    return conditions


def _count_differences(rows: DataFrame, conditions: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """Return, for each column, how many values do not meet its condition, and the least of them."""
    if not conditions:
        return {}
    counts = [F.expr(f"count_if(NOT ({sql}))") for sql in conditions.values()]
    examples = [F.expr(f"min(CAST(`{name}` AS STRING)) FILTER (WHERE NOT ({sql}))") for name, sql in conditions.items()]
    (result,) = rows.agg(*counts, *examples).collect()
    return {name: (result[i], result[i + len(conditions)]) for i, name in enumerate(conditions)}


def _require_unchanged(
    layout: Layout, differences: Mapping[str, tuple[int, str]], stored_types: Mapping[str, str]
) -> None:
    """Raise if a value would change."""
    types = {column.name: column.type for column in layout.columns}
    for name, (count, value) in differences.items():
        if count:
            declared_name = _declared_name(layout, name)
            raise TableError(
                f"{count:,} values of column {name} of {layout.name} cannot be stored as {types[name]} without a"
                f" change, for example {value[:_EXAMPLE_LENGTH]!r}",
                where=layout.uri,
                action=f"Declare {declared_name} as {stored_types[name].upper()}, and add a column with another name.",
            )


def _exact_cast(name: str, stored_type: str, declared_type: str) -> str:
    """Return the SQL condition that a value survives a cast and back; a decimal in a text may lose its last zeros."""
    is_decimal_text = stored_type == "string" and declared_type.startswith("DECIMAL")
    cast = f"TRY_CAST({castable(f'`{name}`') if is_decimal_text else f'`{name}`'} AS {declared_type})"
    cast_back = f"CAST({cast} AS {stored_type})"
    if stored_type != "string":
        # the largest whole numbers are cast to the nearest double, and back to the same number
        is_whole = "BIGINT" in (stored_type.upper(), declared_type) and "DOUBLE" in (stored_type.upper(), declared_type)
        is_equal = f" AND TRY_CAST({cast} AS DECIMAL(38,0)) <=> TRY_CAST(`{name}` AS DECIMAL(38,0))" if is_whole else ""
        return f"{cast_back} <=> `{name}`{is_equal}"
    is_finite = f" AND abs({cast}) < double('Infinity')" if declared_type == "DOUBLE" else ""
    return f"{_trim_zeros(cast_back)} <=> {_trim_zeros(f'`{name}`')}{is_finite}"


def _trim_zeros(text: str) -> str:
    return f"IF(contains({text}, '.'), rtrim('.', rtrim('0', {text})), {text})"


def _columns_with_bounds(layout: Layout) -> list[str]:
    """Return the columns of which Delta keeps statistics, structs last."""
    columns = [column for column in layout.columns if column.fields or not nested(column.type)]
    names = [
        column.name for column in sorted(columns, key=lambda column: bool(column.fields)) if column.type != "BOOLEAN"
    ]
    return [name for name in names if name not in layout.partitions]


def restrict_statistics(spark: SparkSession, layout: Layout, excluded_columns: Collection[str] = ()) -> None:
    """Restrict the statistics columns to those that exist and support statistics both before and after a rewrite.

    ``excluded_columns`` are left out. After the rows are written, the columns of the layout are set again. If that does
    not happen, the next run sees that other lakehouse columns are set. So this sets another column if none is left.
    """
    layout_columns = layout.statistics_properties.get(STATISTICS, "").split(",")
    names = [name for name in layout_columns if name not in ("", *excluded_columns)]
    if layout_columns != [""] and not names:
        names = [name for name in _columns_with_bounds(layout) if name not in excluded_columns][:1]
    statement = f"ALTER TABLE {layout.sql} UNSET TBLPROPERTIES IF EXISTS ({quoted(STATISTICS)})"
    if names:
        statement = f"ALTER TABLE {layout.sql} SET TBLPROPERTIES ({quoted(STATISTICS)} = {quoted(','.join(names))})"
    run_upkeep(spark, layout, statement)


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

    def compare() -> SchemaDiff:
        return compare_schema(layout, open_table(layout.uri) or _create(spark, layout), scope)

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
    """Add missing columns; raise ``ConflictError`` if that fails because another writer changed the table meanwhile."""
    if not diff.missing_columns:
        return
    definitions = [
        "".join(f"`{name}`." for name in path[:-1]) + column.definition for path, column in diff.missing_columns
    ]
    try:
        run_upkeep(spark, layout, f"ALTER TABLE {layout.sql} ADD COLUMNS ({', '.join(definitions)})")
    except PySparkException as error:
        if read_ledger(layout.uri, layout.name).version == diff.ledger.version:
            raise
        message = f"Another writer changed {layout.name} at the same moment"
        raise ConflictError(message, where=layout.name, action=layout.conflict_advice) from error


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
    empty_rows = add_comments(spark.sql(f"SELECT {columns} WHERE false"), layout)
    writer = empty_rows.write.format("delta").mode("ignore").options(**layout.properties)
    run_statement(spark, layout.uri, lambda: partitioned(writer, layout).save(layout.uri))


def add_comments(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return the rows whose columns have their comments."""
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
