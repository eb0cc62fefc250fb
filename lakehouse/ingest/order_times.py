"""The times by which the records of a topic are ordered: of a partition, they never go back.

The clock of a broker may go back, and so may those of producers. A record whose time is before that of an earlier
record of its partition is ordered by the greatest time before it, so that the later of two records of a partition is
the newer one. Its own time stays what it is. Each commit names the greatest time of each partition.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.window import Window

from lakehouse.declaration import StreamTable
from lakehouse.decoding import staged
from lakehouse.ledger.commit_values import LastRecord, LastRecords
from lakehouse.spark.few_rows import VERY_FEW_ROWS

_log = logging.getLogger(__name__)
_PLACE = (staged.PARTITION, staged.POSITION)
_BEFORE = Window.unboundedPreceding, -1


class OrderedRecords(NamedTuple):
    """Staged records with their times of order, the last one of each partition, and how many times went back."""

    records: DataFrame
    last_records: LastRecords
    times_back: int = 0


def order_records(records: DataFrame, table: StreamTable, before: LastRecords, span: int) -> OrderedRecords:
    """Give the staged records of a topic their times of order; ``before`` are the last records before them.

    One statement finds the last record of each partition, and whether a time went back: over very few records
    (``span``) in this process. Only if one did, others look for the records that this is about.
    """
    dated_records = records.where(f"{staged.TIME} IS NOT NULL")
    if span <= VERY_FEW_ROWS:
        columns = (*_PLACE, staged.CHECKSUM, f"unix_micros({staged.TIME}) AS time")
        rows = _last_of_few(dated_records.selectExpr(*columns).toArrow().to_pylist())
    else:
        rows = [row.asDict() for row in _last_of_each(dated_records).collect()]
    last_records = {row[staged.PARTITION]: _last_record(row, before) for row in rows}
    partitions = [row[staged.PARTITION] for row in rows if _went_back(row, before)]
    if not partitions or table.has_changes or table.order == "offset":
        return OrderedRecords(records, last_records)
    later_times = _later_times(records, partitions, before).localCheckpoint()
    times_back = later_times.count()
    _log.warning(
        "%s of %s have a time before that of an earlier record of their partition: a clock went back. They are ordered"
        " by the earlier record's time",
        f"{times_back:,} records",
        table.topic,
    )
    return OrderedRecords(with_order_times(records, later_times).localCheckpoint(), last_records, times_back)


def with_order_times(records: DataFrame, later_times: DataFrame) -> DataFrame:
    """Return staged records with the times of ``later_times`` (partition, position and time) as times of order."""
    names = (*_PLACE, staged.ORDER_TIME)
    times = later_times.select(*(F.col(name).alias(f"{name}_of") for name in names))
    is_same = " AND ".join(f"{name} = {name}_of" for name in _PLACE)
    joined_records = records.join(times, F.expr(is_same), "left")
    return joined_records.withColumn(staged.ORDER_TIME, F.col(f"{staged.ORDER_TIME}_of")).drop(*times.columns)


def _last_of_few(places: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what ``_last_of_each`` does, from the place, time and checksum of each record."""
    partitions: dict[int, dict[str, Any]] = {}
    for place in sorted(places, key=lambda place: (place[staged.PARTITION], place[staged.POSITION])):
        time = place["time"]
        first = {"least_time": time, "greatest_time": time, "went_back": False}
        row = partitions.setdefault(place[staged.PARTITION], first)
        row |= {"went_back": row["went_back"] or time < row["greatest_time"]}
        row |= {"least_time": min(row["least_time"], time), "greatest_time": max(row["greatest_time"], time)}
        row |= {"position": place[staged.POSITION], "time": time, "checksum": place[staged.CHECKSUM]}
    return [row | {staged.PARTITION: partition} for partition, row in partitions.items()]


def _last_of_each(dated_records: DataFrame) -> DataFrame:
    """Return a row for each partition: its last record, its least and greatest time, and whether a time went back.

    Most records of a topic share their time with the records around them, so groups of one time are few. If no time
    goes back, these groups do not overlap.
    """
    groups = dated_records.groupBy(staged.PARTITION, staged.TIME)
    bounds = groups.agg(
        F.min(staged.POSITION).alias("first"),
        F.max(staged.POSITION).alias("last"),
        F.max_by(staged.CHECKSUM, staged.POSITION).alias("checksum"),
    )
    window = Window.partitionBy(staged.PARTITION).orderBy("first").rowsBetween(*_BEFORE)
    is_back = F.col(staged.TIME) < F.max(staged.TIME).over(window)
    overlaps = F.col("first") < F.max("last").over(window)
    time = f"unix_micros({staged.TIME})"
    return (
        bounds.withColumn("went_back", is_back | overlaps)
        .groupBy(staged.PARTITION)
        .agg(
            F.max("last").alias("position"),
            F.expr(f"max_by({time}, last)").alias("time"),
            F.max_by("checksum", "last").alias("checksum"),
            F.expr(f"min({time})").alias("least_time"),
            F.expr(f"max({time})").alias("greatest_time"),
            F.expr("coalesce(bool_or(went_back), false)").alias("went_back"),
        )
    )


def _last_record(row: Mapping[str, Any], before: LastRecords) -> LastRecord:
    greatest_time = max(row["greatest_time"], _greatest_time(before, row[staged.PARTITION], row["greatest_time"]))
    names = ("position", "time", "checksum")
    caught_up = before.get(row[staged.PARTITION], LastRecord()).caught_up
    return LastRecord(**{name: row[name] for name in names}, greatest_time=greatest_time, caught_up=caught_up)


def _went_back(row: Mapping[str, Any], before: LastRecords) -> bool:
    least_time: int = row["least_time"]
    return row["went_back"] or least_time < _greatest_time(before, row[staged.PARTITION], least_time)


def _greatest_time(before: LastRecords, partition: int, default: int) -> int:
    time = before[partition].greatest_time if partition in before else None
    return default if time is None else time


def _later_times(records: DataFrame, partitions: Sequence[int], before: LastRecords) -> DataFrame:
    """Return the place of each record of these partitions whose time went back, and the greatest time before it."""
    places = records.where(F.col(staged.PARTITION).isin(list(partitions))).select(*_PLACE, staged.TIME).distinct()
    window = Window.partitionBy(staged.PARTITION).orderBy(staged.POSITION).rowsBetween(*_BEFORE)
    greatest_before = F.greatest(F.max(staged.TIME).over(window), F.expr(_times_sql(before)))
    ordered_places = places.withColumn(staged.ORDER_TIME, greatest_before)
    return ordered_places.where(F.col(staged.TIME) < F.col(staged.ORDER_TIME)).drop(staged.TIME)


def _times_sql(before: Mapping[int, LastRecord]) -> str:
    cases = " ".join(
        f"WHEN {partition} THEN timestamp_micros({last.greatest_time}L)"
        for partition, last in before.items()
        if last.greatest_time is not None
    )
    return f"CASE {staged.PARTITION} {cases} END" if cases else "CAST(NULL AS TIMESTAMP)"
