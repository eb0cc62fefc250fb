"""Rejected elements of records that have many rows: find the bytes of their record, and decode only them again.

The bytes of a record are stored with its first rejected element, not with each: a record may have very many of them.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration.sql import quoted
from lakehouse.decoding import staged
from lakehouse.ledger.positions import SourceId

_PLACE = ("position.source", "position.partition", "position.position", "time")
# a tombstone has no value; it is rejected as a whole
_HAS_BYTES = "(value IS NOT NULL OR position.index IS NULL)"

_STORED_PLACE = ("position.partition AS _p", "position.position AS _o", "time AS _t", "position.index AS _i")
_IS_SAME_RECORD = f"{staged.PARTITION} = _p AND {staged.POSITION} = _o AND {staged.TIME} <=> _t"
"""Whether a staged row belongs to the record of a stored one, of which ``_STORED_PLACE`` was selected."""
HAS_NO_ROWS = f"({staged.REASON} IN ({', '.join(map(quoted, staged.NO_ROWS))}))"
"""Whether a staged row says that its record has no row of the table."""


def records_with_bytes(stored_rows: DataFrame, rejected_rows: DataFrame) -> DataFrame:
    """Return the record of each of these rejected rows once, like a rejected record, with its bytes.

    They are with any of its stored rows, resolved or not. Leaves out a record whose bytes somebody deleted.
    """
    names = [name.rpartition(".")[2] for name in _PLACE]
    places = rejected_rows.select(*(F.col(path).alias(f"_{name}") for path, name in zip(_PLACE, names, strict=True)))
    rows = stored_rows.where(_HAS_BYTES)
    is_same = " AND ".join(f"{path} <=> _{name}" for path, name in zip(_PLACE, names, strict=True))
    rows = rows.join(places.distinct(), F.expr(is_same), "left_semi")
    first = "struct(value IS NULL, position.index)"
    columns = ", ".join(["position", "time", "order_time", "key", "value", "headers"])
    return rows.groupBy(*_PLACE).agg(F.expr(f"min_by(struct({columns}), {first})").alias("_first")).select("_first.*")


class Unresolved(NamedTuple):
    """The staged rows that are unresolved, and the number of their records.

    ``opened_count`` records were rejected as a whole, and have elements now, each with a verdict of its own.
    """

    rows: DataFrame
    record_count: int
    opened_count: int


def keep_unresolved(records: DataFrame, unresolved_rows: DataFrame, source: SourceId) -> Unresolved:
    """Keep the staged rows of records that are unresolved elements, or whose record was rejected as a whole.

    Other elements were judged before: they are in the table, or belong to no row of it. A record that has no rows now
    is kept for any of its unresolved elements. The raw parts are dropped: they are stored already.
    """
    open_rows = unresolved_rows.where(F.col("position.source") == source.text).selectExpr(*_STORED_PLACE)
    marked = records
    # several joins, because a record can have very many elements: each compares a row with one stored row
    for name, kind, element in (
        ("_whole", "_i IS NULL", ""),
        ("_alone", "_i IS NOT NULL", f" AND {staged.INDEX} = _i"),
        ("_any", "_i IS NOT NULL", ""),
    ):
        rows = open_rows.where(kind)
        rows = (rows if element else rows.drop("_i")).distinct().withColumn(name, F.lit(True))
        marked = marked.join(rows, F.expr(_IS_SAME_RECORD + element), "left").drop("_p", "_o", "_t", "_i")
    no_bytes = {name: F.expr(f"IF(false, {name}, NULL)") for name in staged.RAW}
    is_kept = f"_whole OR _alone OR (_any AND {HAS_NO_ROWS})"
    open_records = marked.where(is_kept).drop("_alone", "_any").withColumns(no_bytes).localCheckpoint()
    has_opened = F.count_if(F.expr(f"_whole AND {staged.INDEX} = 0"))
    record = F.struct(staged.PARTITION, staged.POSITION, staged.TIME)
    ((record_count, opened_count),) = open_records.agg(F.count_distinct(record), has_opened).collect()
    return Unresolved(open_records.drop("_whole"), record_count, opened_count)


def for_each_element(records: DataFrame, stored_rows: DataFrame) -> DataFrame:
    """Return records without rows once for each of their stored elements, which they resolve."""
    elements = stored_rows.where("position.index IS NOT NULL").selectExpr(*_STORED_PLACE)
    rows = records.where(HAS_NO_ROWS).join(elements, F.expr(_IS_SAME_RECORD))
    return rows.withColumn(staged.INDEX, F.col("_i")).drop("_p", "_o", "_t", "_i")
