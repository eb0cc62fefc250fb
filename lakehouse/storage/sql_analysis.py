"""What Spark says of the SQL of a declaration, before anything is read: whether it knows it, and its types fit."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sql import EXACT, added, is_inexact
from lakehouse.errors import DeclarationError
from lakehouse.errors.causes import error_text
from lakehouse.settings import Settings
from lakehouse.storage.row_order import merged_layout

_NOWHERE = Settings.model_construct()  # columns do not depend on where a table is
_PASSED = set[object]()  # of this process: what was asked once is not asked again by its other batches
_CONDITIONS = ("boolean", "void")


class _Wrong(NamedTuple):
    """A part of a declaration that Spark cannot compute, what is wrong with it, and the type that it is to give.

    ``action`` is what to do, where that is not to give another type.
    """

    part: str
    said: str
    sql: str
    type: str
    action: str = ""


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
    for wrong in [*_wrong_columns(rows, table), *_wrong_checks(rows, table), *_wrong_rollups(rows, table)]:
        raise DeclarationError(
            f"Table {table.name!r}: {wrong.part}: {wrong.said}", action=wrong.action or _advice(wrong, rows)
        )
    _PASSED.add((asked, *computed.values()))


def _advice(wrong: _Wrong, rows: DataFrame) -> str:
    """Which type is expected, and how one is made of another: of a column that the SQL names and that can be cast."""
    action = f"It has to give {wrong.type}: correct its SQL in the declaration"
    named = dict.fromkeys(column for column in re.findall(r"\w+", wrong.sql) if column in rows.columns)
    casts = [f"try_cast({column} AS {wrong.type})" for column in named]  # a value that is none must not end a batch
    cast = next((each for each in casts if _is_computable(rows, each)), None)
    return f"{action}; a cast is written as {cast}." if cast else f"{action}."


def _is_computable(rows: DataFrame, sql: str) -> bool:
    with suppress(AnalysisException, ParseException):
        return bool(rows.selectExpr(sql).schema)
    return False


def _wrong_columns(rows: DataFrame, table: StreamTable) -> Iterator[_Wrong]:
    for name, sql in table.computed.items():
        try:
            _ = rows.selectExpr(sql).schema
        except (AnalysisException, ParseException) as error:
            column = table.by_name[name]
            yield _Wrong(f"column {name}", _told(error), column.sql or "", column.type)


def _wrong_checks(rows: DataFrame, table: StreamTable) -> Iterator[_Wrong]:
    for check in table.checks:
        try:
            type_ = rows.selectExpr(f"({check.sql}\n)").schema[0].dataType.simpleString()
        except (AnalysisException, ParseException) as error:
            yield _Wrong(f"check {check.name}", _told(error), check.sql, "BOOLEAN")
        else:
            if type_ not in _CONDITIONS:
                said = f"{check.sql!r} gives {type_}, and a condition is true or false"
                yield _Wrong(f"check {check.name}", said, check.sql, "BOOLEAN")


def _wrong_rollups(rows: DataFrame, table: StreamTable) -> Iterator[_Wrong]:
    """What is wrong with measures: those of a rollup are asked about at once, and one by one where something is."""
    for rollup in table.rollups:
        figures = {name: F.expr(each.sql).cast(each.type.lower()) for name, each in rollup.measures.items()}
        inexact = {name: said for name, each in rollup.measures.items() if (said := _inexact(rows, each.sql))}
        if not inexact and not _said_of(rows, rollup.by, [*figures.values()]):
            continue
        for name, figure in figures.items():
            said, measure = _said_of(rows, rollup.by, [figure]), rollup.measures[name]
            if said or name in inexact:
                part, action = f"rollup {rollup.name}: measure {name}", "" if said else EXACT
                yield _Wrong(part, said or inexact[name], measure.sql, measure.type, action)


def _inexact(rows: DataFrame, sql: str) -> str:
    """What a measure adds up as doubles, whose sum depends on the order of the rows; nothing where it adds none."""
    for mean, what in added(sql):
        with suppress(AnalysisException, ParseException):  # said of the measure as a whole
            type_ = rows.selectExpr(f"({what}\n)").schema[0].dataType.simpleString()
            if is_inexact(type_, mean=mean):
                return f"a sum or mean of {what}, a {type_.upper()}, depends on the order of its rows"
    return ""


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
