"""What Spark says of the SQL of a declaration, before anything is read: whether it knows it, and its types fit."""

from collections.abc import Iterator, Mapping, Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.delta.order import merged_layout
from lakehouse.errors import DeclarationError
from lakehouse.errors.troubles import error_text
from lakehouse.settings import Settings

_NOWHERE = Settings.model_construct()  # columns do not depend on where a table is
_PASSED = set[object]()  # of this process: what was asked once is not asked again by its other batches
_CONDITIONS = ("boolean", "void")


def require_types(spark: SparkSession, table: StreamTable) -> None:
    """Raise ``DeclarationError`` where a computed column, a check or a measure is none that Spark can compute.

    Nothing is read. A second time in the same process costs nothing.
    """
    columns = merged_layout(table, _NOWHERE).columns
    values = ", ".join(f"CAST(NULL AS {column.type}) AS `{column.name}`" for column in columns)
    rollups = tuple(rollup.fingerprint for rollup in table.rollups)
    asked = (table.name, values, rollups, tuple(check.sql for check in table.checks))
    computed = table.computed
    if (asked, *computed.values()) in _PASSED or not table.has_sql:
        return
    rows = spark.sql(f"SELECT {values}")
    for part, said in [*_wrong_columns(rows, computed), *_wrong_checks(rows, table), *_wrong_rollups(rows, table)]:
        raise DeclarationError(f"Table {table.name!r}: {part}: {said}", action="Correct it in the declaration.")
    _PASSED.add((asked, *computed.values()))


def _wrong_columns(rows: DataFrame, computed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, sql in computed.items():
        try:
            _ = rows.selectExpr(sql).schema
        except (AnalysisException, ParseException) as error:
            yield f"column {name}", _told(error)


def _wrong_checks(rows: DataFrame, table: StreamTable) -> Iterator[tuple[str, str]]:
    for check in table.checks:
        try:
            type_ = rows.selectExpr(f"({check.sql}\n)").schema[0].dataType.simpleString()
        except (AnalysisException, ParseException) as error:
            yield f"check {check.name}", _told(error)
        else:
            if type_ not in _CONDITIONS:
                yield f"check {check.name}", f"{check.sql!r} gives {type_}, and a condition is true or false"


def _wrong_rollups(rows: DataFrame, table: StreamTable) -> Iterator[tuple[str, str]]:
    """What is wrong with measures: those of a rollup are asked about at once, and one by one where something is."""
    for rollup in table.rollups:
        figures = {name: F.expr(each.sql).cast(each.type.lower()) for name, each in rollup.measures.items()}
        if not _said_of(rows, rollup.by, [*figures.values()]):
            continue
        for name, figure in figures.items():
            said = _said_of(rows, rollup.by, [figure])
            if said:
                yield f"rollup {rollup.name}: measure {name}", said


def _said_of(rows: DataFrame, by: Sequence[str], figures: Sequence[Column]) -> str:
    """What Spark says against figures of groups; nothing where it can compute them."""
    try:
        _ = rows.groupBy(*by).agg(*figures).schema
    except (AnalysisException, ParseException) as error:
        return _told(error)
    return ""


def _told(error: Exception) -> str:
    """The sentence of an error, without the plan behind it."""
    return error_text(error).splitlines()[0].split(" SQLSTATE")[0]
