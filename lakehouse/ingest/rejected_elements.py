"""Rejected elements of records that have many rows: find the bytes of their record, and decode only them again.

The bytes of a record are stored with its first rejected element, not with each: a record may have very many of them.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.decoding import staged
from lakehouse.ledger.positions import SourceId

_PLACE = ("position.source", "position.partition", "position.position", "time")
# a tombstone has no value; it is rejected as a whole
_HAS_BYTES = "(value IS NOT NULL OR position.index IS NULL)"


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
    columns = ", ".join(["position", "time", "key", "value", "headers"])
    return rows.groupBy(*_PLACE).agg(F.expr(f"min_by(struct({columns}), {first})").alias("_first")).select("_first.*")


def keep_unresolved(records: DataFrame, unresolved_rows: DataFrame, source: SourceId) -> tuple[DataFrame, int]:
    """Keep the staged rows of records that are unresolved elements, or whose record was rejected as a whole.

    Other elements were judged before: they are in the table, or belong to no row of it. Also returns the number of
    records that are left. The raw parts are dropped: they are stored already.
    """
    o = "_open.position"
    is_same_record = (
        f"{o}.partition = {staged.PARTITION} AND {o}.position = {staged.POSITION} AND _open.time <=> {staged.TIME}"
    )
    is_same_element = f"({o}.index IS NULL OR {o}.index <=> {staged.INDEX})"
    open_rows = unresolved_rows.where(F.col("position.source") == source.text).alias("_open")
    rows = records.join(open_rows, F.expr(f"{is_same_record} AND {is_same_element}"), "left_semi")
    no_bytes = {name: F.expr(f"IF(false, {name}, NULL)") for name in staged.RAW}
    staged_rows = rows.withColumns(no_bytes).localCheckpoint()
    return staged_rows, staged_rows.select(staged.PARTITION, staged.POSITION, staged.TIME).distinct().count()
