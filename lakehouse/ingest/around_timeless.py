"""Records that Spark's client cannot read, because their time is out of range: staged with the others, as rejected.

Each keeps its bytes; its time is only in the detail of its rejection. No decoding makes it enter.
"""

from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.decoding import staged
from lakehouse.decoding.changes import read_change
from lakehouse.decoding.fields import TIMELESS, Rejection
from lakehouse.decoding.record_parts import HEADER
from lakehouse.decoding.rules import Rules
from lakehouse.ingest.staging import stage_records
from lakehouse.kafka import (
    CutPlan,
    Record,
    TimelessRecordError,
    cut_around,
    read_failures,
    read_records,
    timeless_detail,
)
from lakehouse.kafka.read import to_arrow
from lakehouse.ledger.commits import Kind
from lakehouse.ledger.positions import Plan
from lakehouse.storage.table_context import TableContext


def stage_around_timeless(
    context: TableContext, plan: Plan, kind: Kind, failure: TimelessRecordError, keep_raw: str = ""
) -> tuple[Plan, DataFrame]:
    """Stage the records of a plan, as ``stage_records`` does, with the timeless ones among them as rejected.

    Returns the plan that was read: all of it, or its beginning if it has too many of them. Raises the same errors as
    ``cut_around`` and ``read_failures``. If none of the records that Spark read is timeless, raises Spark's own error:
    it has another cause then, and no record must be deleted for it.
    """
    cut = _cut_plan(context, plan, failure)
    try:
        with read_failures(cut.plan, failure.command):
            return cut.plan, _stage_cut(context, cut, kind, keep_raw)
    except TimelessRecordError as error:
        wrong_error = error
    raise wrong_error.__cause__ or wrong_error


def read_around_timeless(context: TableContext, plan: Plan, failure: TimelessRecordError) -> tuple[Plan, DataFrame]:
    """Read the records of a plan, as ``read_records`` does, without the timeless ones among them.

    Returns the plan that was read: all of it, or its beginning if it has too many of them. Raises the same errors as
    ``cut_around``; the action that reads the DataFrame may fail as with ``read_records``.
    """
    cut = _cut_plan(context, plan, failure)
    return cut.plan, _read_cut(context, cut)


def _cut_plan(context: TableContext, plan: Plan, failure: TimelessRecordError) -> CutPlan:
    cut = cut_around(context.settings, plan, failure.command)
    if not cut.timeless_records:
        raise failure.__cause__ or failure
    return cut


def _read_cut(context: TableContext, cut: CutPlan) -> DataFrame:
    spark, settings = context.spark, context.settings
    frames = [read_records(spark, settings, plan) for plan in cut.spark_plans]
    if cut.records_between or not frames:
        frames.append(spark.createDataFrame(to_arrow(cut.records_between)))
    return reduce(DataFrame.unionByName, frames)


def _stage_cut(context: TableContext, cut: CutPlan, kind: Kind, keep_raw: str) -> DataFrame:
    spark = context.spark
    staged_records = stage_records(context, _read_cut(context, cut), kind, keep_raw)
    rejected_records = to_arrow(cut.timeless_records)
    rules = context.table.rules()
    rejection_columns = {
        staged.REASON: pa.array([_reason_of(record, rules) for record in cut.timeless_records], pa.string()),
        staged.DETAIL: pa.array([timeless_detail(record.milliseconds) for record in cut.timeless_records], pa.string()),
        staged.LATE: pa.array([False] * len(rejected_records)),
    }
    for name, values in rejection_columns.items():
        rejected_records = rejected_records.append_column(name, values)
    return staged_records.unionByName(spark.createDataFrame(rejected_records), allowMissingColumns=True)


def _reason_of(record: Record, rules: Rules) -> str:
    """Return why a timeless record becomes no row: it is rejected, unless it certainly does not meet ``where``."""
    parts = {f"{HEADER}{name}": value for name, value in record.headers}
    try:
        return TIMELESS if read_change(record.value, rules, parts) else staged.FILTERED
    except Rejection:
        return TIMELESS
