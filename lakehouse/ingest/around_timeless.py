"""Records that Spark's client cannot read, since their time is beyond any timestamp: held beside the others, rejected.

Each keeps its bytes, and its time only in the detail of its rejection. No decoding makes it enter.
"""

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.decoding import staged
from lakehouse.decoding.fields import TIMELESS
from lakehouse.ingest.staging import hold
from lakehouse.kafka import (
    CutPlan,
    Record,
    TimelessRecordError,
    cut_around,
    is_timeless,
    read_failures,
    read_records,
    told_time,
)
from lakehouse.ledger.commits import Kind
from lakehouse.ledger.positions import Plan
from lakehouse.storage.table_context import TableContext

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORD_SCHEMA = pa.schema(
    [
        (staged.TIME, pa.timestamp("us", "UTC")),
        (staged.PARTITION, pa.int32()),
        (staged.POSITION, pa.int64()),
        (staged.SEQUENCE, pa.int64()),
        (staged.KEY, pa.binary()),
        (staged.VALUE, pa.binary()),
        (staged.HEADERS, _HEADERS),
    ]
)
"""Records as they are read, in Arrow's types."""


def hold_around(context: TableContext, plan: Plan, kind: Kind, failure: TimelessRecordError) -> tuple[Plan, DataFrame]:
    """Hold the records of a plan, as ``hold`` does, and the timeless ones among them, rejected.

    Returns what was read: the plan, or its beginning where it holds too many of them. Raises what ``cut_around`` and
    ``read_failures`` raise; but Spark's own error where none of the records that it read is timeless: it has another
    cause then, and no record is to be deleted for it.
    """
    cut = cut_around(context.settings, plan, failure.command)
    if not cut.timeless:
        raise failure.__cause__ or failure
    try:
        with read_failures(cut.plan, failure.command):
            return cut.plan, _hold_all(context, cut, kind)
    except TimelessRecordError as other:
        mistaken = other
    raise mistaken.__cause__ or mistaken


def _hold_all(context: TableContext, cut: CutPlan, kind: Kind) -> DataFrame:
    spark, settings = context.spark, context.settings
    frames = [read_records(spark, settings, part) for part in cut.parts]
    if cut.between or not frames:
        frames.append(spark.createDataFrame(_table(cut.between)))
    held = hold(context, reduce(DataFrame.unionByName, frames), kind)
    rejected = _table(cut.timeless)
    said = {
        staged.REASON: pa.array([TIMELESS] * len(rejected), pa.string()),
        staged.DETAIL: pa.array([told_time(each.milliseconds) for each in cut.timeless], pa.string()),
        staged.LATE: pa.array([False] * len(rejected)),
    }
    for name, told in said.items():
        rejected = rejected.append_column(name, told)
    return held.unionByName(spark.createDataFrame(rejected), allowMissingColumns=True)


def _table(records: Sequence[Record]) -> pa.Table:
    """The columns of ``read_records``; a time that is beyond any timestamp is NULL."""
    columns = [
        [None if is_timeless(each.milliseconds) else each.milliseconds * 1000 for each in records],
        [each.partition for each in records],
        [each.offset for each in records],
        [None] * len(records),
        [each.key for each in records],
        [each.value for each in records],
        [[{"key": name, "value": told} for name, told in each.headers] or None for each in records],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, RECORD_SCHEMA, strict=True)], RECORD_SCHEMA
    )
