"""Checks the SQL of a declaration with Spark before any data is read: that it is valid and has the right types."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sql import EXACT, find_addends, is_inexact
from lakehouse.errors import DeclarationError
from lakehouse.errors.causes import error_text
from lakehouse.settings import Settings
from lakehouse.storage.row_order import merged_layout

_ANY_SETTINGS = Settings.model_construct()  # columns do not depend on the location of a table
_PASSED_CHECKS = set[object]()  # of this process: its later batches do not check the same SQL again
_CONDITION_TYPES = ("boolean", "void")


class _Problem(NamedTuple):
    """A part of a declaration that Spark cannot compute, with the message and the type that it must have.

    ``action`` is the advice, unless it is to return another type.
    """

    part: str
    message: str
    sql: str
    type: str
    action: str = ""


def require_types(spark: SparkSession, table: StreamTable) -> None:
    """Raise ``DeclarationError`` if Spark cannot compute a computed column, a rule, a check or a measure.

    Reads no data. A second call in the same process costs nothing.
    """
    columns = merged_layout(table, _ANY_SETTINGS).columns
    values = ", ".join(f"CAST(NULL AS {column.type}) AS `{column.name}`" for column in columns)
    rollups = tuple(rollup.fingerprint for rollup in table.rollups)
    rules = tuple(rule.when for rule in table.rejects)
    checked_parts = (table.name, values, rollups, tuple(check.sql for check in table.checks), rules)
    computed_columns = table.computed
    if (checked_parts, *computed_columns.values()) in _PASSED_CHECKS or not table.has_sql:
        return
    rows = spark.sql(f"SELECT {values}")
    for problem in [*_check_columns(rows, table), *_check_checks(rows, table), *_check_rollups(rows, table)]:
        raise DeclarationError(
            f"Table {table.name!r}: {problem.part}: {problem.message}",
            action=problem.action or _type_advice(problem, rows),
        )
    _PASSED_CHECKS.add((checked_parts, *computed_columns.values()))


def _type_advice(problem: _Problem, rows: DataFrame) -> str:
    """Name the required type, and a cast to it from a column in the SQL if one can be cast."""
    action = f"It must return {problem.type}: correct its SQL in the declaration"
    columns = dict.fromkeys(word for word in re.findall(r"\w+", problem.sql) if word in rows.columns)
    casts = [f"try_cast({column} AS {problem.type})" for column in columns]  # an invalid value must not end a batch
    valid_cast = next((cast for cast in casts if _is_computable(rows, cast)), None)
    return f"{action}; write a cast as {valid_cast}." if valid_cast else f"{action}."


def _is_computable(rows: DataFrame, sql: str) -> bool:
    with suppress(AnalysisException, ParseException):
        return bool(rows.selectExpr(sql).schema)
    return False


def _check_columns(rows: DataFrame, table: StreamTable) -> Iterator[_Problem]:
    for column in table.computed_columns:
        try:
            _ = rows.selectExpr(table.computed[column.name]).schema
        except (AnalysisException, ParseException) as error:
            yield _Problem(f"column {column.name}", _first_sentence(error), column.sql, column.type)
    for rule in table.rejects:
        try:
            _ = rows.selectExpr(table.condition_of(rule) or "true").schema
        except (AnalysisException, ParseException) as error:
            yield _Problem(f"reject {rule.reason}", _first_sentence(error), rule.when or "", "BOOLEAN")


def _check_checks(rows: DataFrame, table: StreamTable) -> Iterator[_Problem]:
    for check in table.checks:
        try:
            type_ = rows.selectExpr(f"({check.sql}\n)").schema[0].dataType.simpleString()
        except (AnalysisException, ParseException) as error:
            yield _Problem(f"check {check.name}", _first_sentence(error), check.sql, "BOOLEAN")
        else:
            if type_ not in _CONDITION_TYPES:
                message = f"{check.sql!r} has type {type_}, but a condition must be true or false"
                yield _Problem(f"check {check.name}", message, check.sql, "BOOLEAN")


def _check_rollups(rows: DataFrame, table: StreamTable) -> Iterator[_Problem]:
    """Check the measures of each rollup together; check them one by one only if there is a problem."""
    for rollup in table.rollups:
        aggregates = {name: F.expr(measure.sql).cast(measure.type.lower()) for name, measure in rollup.measures.items()}
        inexact = {
            name: message
            for name, measure in rollup.measures.items()
            if (message := _find_inexact_sum(rows, measure.sql))
        }
        if not inexact and not _analyse_aggregates(rows, rollup.by, [*aggregates.values()]):
            continue
        for name, aggregate in aggregates.items():
            spark_message, measure = _analyse_aggregates(rows, rollup.by, [aggregate]), rollup.measures[name]
            if spark_message or name in inexact:
                part, action = f"rollup {rollup.name}: measure {name}", "" if spark_message else EXACT
                yield _Problem(part, spark_message or inexact[name], measure.sql, measure.type, action)


def _find_inexact_sum(rows: DataFrame, sql: str) -> str:
    """Describe a sum of doubles in a measure, which depends on the order of the rows; empty if there is none."""
    for is_mean, summand in find_addends(sql):
        with suppress(AnalysisException, ParseException):  # reported for the whole measure
            type_ = rows.selectExpr(f"({summand}\n)").schema[0].dataType.simpleString()
            if is_inexact(type_, mean=is_mean):
                return f"a sum or mean of {summand}, a {type_.upper()}, depends on the order of its rows"
    return ""


def _analyse_aggregates(rows: DataFrame, by: Sequence[str], aggregates: Sequence[Column]) -> str:
    """Return Spark's message about aggregates; empty if it can compute them."""
    try:
        _ = rows.groupBy(*by).agg(*aggregates).schema
    except (AnalysisException, ParseException) as error:
        return _first_sentence(error)
    return ""


def _first_sentence(error: Exception) -> str:
    """Return the first sentence of an error, without the plan that follows."""
    return error_text(error).splitlines()[0].split(" SQLSTATE")[0]
