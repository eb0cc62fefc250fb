"""The rows of a table and their changes as records: JSON objects, each with a place within its version.

The place depends on the contents alone, so that a position always has the same record: first what is removed, then what
is added; among those, rows by a hash of their text; equal texts are numbered. Added rows of a table of lakehouse are
numbered in the order of their records, if a table with a key reads them: the newest record of the key wins.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.types import StructType
from pyspark.sql.window import Window

from lakehouse.declaration.names import RECORD
from lakehouse.decoding import staged
from lakehouse.ledger.positions import VERSION_PLACES, Range
from lakehouse.sources.tables.versions import ADDED, CHANGES, KIND_FIELD, RECORD_FIELDS, ROWS
from lakehouse.storage.row_changes import read_changes, read_version

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_KIND, _VERSION, _MADE_AT = KIND_FIELD, "_commit_version", "_commit_timestamp"
_TRUNCATE = "truncate"
_KINDS = {
    "insert": "insert",
    "update_postimage": "update",
    "delete": "delete",
    "update_preimage": "former",
    _TRUNCATE: _TRUNCATE,
}
_PART = "_lakehouse_partition"  # ROWS or CHANGES
_TEXT, _SHORT_TEXT, _HASH = "_lakehouse_text", "_lakehouse_short_text", "_lakehouse_hash"
_PLACE, _ORDER, _NUMBER = "_lakehouse_place", "_lakehouse_order", "_lakehouse_number"
_IS_ADDED, _NEAR = "_lakehouse_is_added", "_lakehouse_near"
_ADDED_KINDS = ("insert", "update")
_EQUAL = 2**24  # rows with the same hash
_HASHES = 2**11
_NEAR_SQL = (
    f"struct({_ORDER}.sequence div 1000000 AS sequence,"
    f" IF({_ORDER}.sequence IS NULL, unix_micros({_ORDER}.time) div 60000000, NULL) AS minute)"
)
"""Rows with records of the same minute, or with near positions in the order of their source."""
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


class Kinds(NamedTuple):
    """Which records are read besides inserts, updates and deletes.

    ``former_rows`` are the rows before updates. With ``truncates``, a truncate precedes the rows as of a version.
    ``are_ordered``: records of one version have the order of the records that their rows came from, if they have any.
    ``versions_before`` are those of former tables, which come before.
    """

    former_rows: bool = False
    truncates: bool = False
    are_ordered: bool = False
    versions_before: int = 0


def read_table_rows(
    spark: "SparkSession", uri: str, ranges: Iterable[Range], times: Mapping[int, int], kinds: Kinds
) -> "DataFrame":
    """Return the records in some ranges: one row for each, with the columns of ``staged.PLACE`` and ``staged.RAW``.

    The columns of the table do not change within a range. ``times`` are those of the versions, in microseconds since
    1970. If a version can no longer be read, the action that reads the DataFrame fails.
    """
    pairs = [F.lit(number) for pair in sorted(times.items()) for number in pair]
    time = F.create_map(*pairs)[F.col(_VERSION)]
    kind_names = [kind for kind in _KINDS if kinds.former_rows or kind != "update_preimage"]
    frames = [_read_range(spark, uri, part, kinds).where(F.col(_KIND).isin(kind_names)) for part in ranges if part.span]
    # each version has the columns of its own, so that a replay reads the same records
    return reduce(DataFrame.unionByName, [_to_records(rows, time, kinds) for rows in frames])


def _read_range(spark: "SparkSession", uri: str, part: Range, kinds: Kinds) -> "DataFrame":
    """Read the rows as of a version, or the changes of versions, with the columns of Delta's change data."""
    first = part.start // VERSION_PLACES
    if part.partition == ROWS:
        place = {_VERSION: F.lit(first).cast("bigint"), _PART: F.lit(ROWS)}
        rows = read_version(spark, uri, first).withColumns({_KIND: F.lit("insert"), **place})
        truncate = spark.range(1).select(F.lit(_TRUNCATE).alias(_KIND)).withColumns(place)
        return rows.unionByName(truncate, allowMissingColumns=True) if kinds.truncates else rows
    last = part.end // VERSION_PLACES - 1
    return read_changes(spark, uri, first, last).drop(_MADE_AT).withColumn(_PART, F.lit(CHANGES))


def _to_records(rows: "DataFrame", time: "Column", record_kinds: Kinds) -> "DataFrame":
    kinds = F.create_map(*(F.lit(text) for pair in _KINDS.items() for text in pair))
    numbered = rows.withColumn(_KIND, kinds[F.col(_KIND)])
    fields = [F.col(f"`{name.replace('`', '``')}`") for name in numbered.columns if name != _PART]
    row = F.struct(*fields)
    # without NULLs, a column that is added later does not change the places of older versions
    texts = {_TEXT: F.to_json(row, _JSON), _SHORT_TEXT: F.to_json(row, _JSON | {"ignoreNullFields": "true"})}
    numbered = numbered.withColumns(texts)
    numbered = numbered.withColumn(_HASH, F.pmod(F.xxhash64(_SHORT_TEXT), F.lit(_HASHES)))
    numbered = numbered.withColumn(_PLACE, _place_by_hash())
    order = _order_of_records(rows) if record_kinds.are_ordered else None
    if order is not None:
        numbered = _with_ordered_places(numbered, order)
    columns = {
        staged.TIME: F.timestamp_micros(time),
        staged.PARTITION: F.col(_PART),
        staged.POSITION: F.col(_VERSION) * VERSION_PLACES + F.col(_PLACE),
        staged.SEQUENCE: F.col(_VERSION) + record_kinds.versions_before,
        staged.KEY: F.lit(None).cast("binary"),
        staged.VALUE: F.col(_TEXT).cast("binary"),
        staged.HEADERS: F.lit(None).cast("array<struct<key:string,value:binary>>"),
    }
    return numbered.select(*(column.alias(name) for name, column in columns.items()))


def _place_by_hash() -> "Column":
    """Return the place of a row in its version: removed rows first, by a hash of their text; equal ones numbered."""
    is_added = F.col(_KIND).isin(*_ADDED_KINDS)
    group = Window.partitionBy(_VERSION, is_added, _HASH).orderBy(_SHORT_TEXT)
    number = F.row_number().over(group) - 1
    too_many = F.raise_error(F.lit(f"More than {_EQUAL:,} rows of one version are equal"))
    number = F.when(number < _EQUAL, number).otherwise(too_many.cast("int"))
    return F.when(is_added, F.lit(ADDED)).otherwise(0) + F.col(_HASH) * _EQUAL + number


def _order_of_records(rows: "DataFrame") -> "Column | None":
    """Return the order of the records that rows of a table of lakehouse came from; ``None`` for another table.

    NULL is smallest: base rows, of which only the number of their commit is known, are older than any record.
    """
    type_ = rows.schema[RECORD].dataType if RECORD in rows.columns else None
    names = type_.names if isinstance(type_, StructType) else []
    if not {*names} >= RECORD_FIELDS:
        return None
    times = [f"{RECORD}.{name}" for name in ("order_time", "time") if name in names]
    other_fields = [
        f"{RECORD}.{name}" for name in ("source", "partition", "position", "index", "base") if name in names
    ]
    return F.struct(F.col(f"{RECORD}.sequence"), F.coalesce(*times).alias("time"), *other_fields)


def _with_ordered_places(records: "DataFrame", order: "Column") -> "DataFrame":
    """Give the added rows of each version places in their order.

    A version may have very many rows, so each group of near ones is numbered by itself, after those before it.
    """
    version = [F.col(_VERSION), F.col(_KIND).isin(*_ADDED_KINDS).alias(_IS_ADDED)]
    ordered_records = records.withColumn(_ORDER, order).withColumn(_NEAR, F.expr(_NEAR_SQL))
    sizes = ordered_records.groupBy(*version, _NEAR).agg(F.count("*").alias(_NUMBER))
    before = Window.partitionBy(_VERSION, _IS_ADDED).orderBy(_NEAR).rowsBetween(Window.unboundedPreceding, -1)
    firsts = sizes.withColumn(_NUMBER, F.coalesce(F.sum(_NUMBER).over(before), F.lit(0)))
    is_same = " AND ".join(f"r.{name} <=> f.{name}" for name in (_VERSION, _IS_ADDED, _NEAR))
    numbered_records = (
        ordered_records.withColumn(_IS_ADDED, version[1]).alias("r").join(firsts.alias("f"), F.expr(is_same))
    )
    within = Window.partitionBy(*(f"r.{name}" for name in (_VERSION, _IS_ADDED, _NEAR))).orderBy(_ORDER, _SHORT_TEXT)
    place = F.lit(ADDED) + F.col(f"f.{_NUMBER}") + F.row_number().over(within) - 1
    return numbered_records.select("r.*", place.alias(_NUMBER)).withColumn(
        _PLACE, F.expr(f"IF({_IS_ADDED}, {_NUMBER}, {_PLACE})")
    )
