"""The rows of a table and their changes as records: JSON objects, each with a place within its version.

The place depends on the contents alone, so that a position always has the same record: first what is removed, then what
is added; among those, rows by a hash of their text; equal texts are numbered.
"""

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.window import Window

from lakehouse.decoding import staged
from lakehouse.ledger.positions import VERSION_PLACES, Plan, Range
from lakehouse.sources.tables.look import CHANGES, ROWS
from lakehouse.storage.other_tables import read_changes_between, read_version

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_KIND, _VERSION, _MADE_AT = "_change_type", "_commit_version", "_commit_timestamp"
_KINDS = {"insert": "insert", "update_postimage": "update", "delete": "delete", "update_preimage": "former"}
_PART = "_lakehouse_partition"  # ROWS or CHANGES
_TEXT, _SHORT_TEXT, _HASH = "_lakehouse_text", "_lakehouse_short_text", "_lakehouse_hash"
_ADDED = 2**35  # places of added rows begin here
_EQUAL = 2**24  # rows with the same hash
_HASHES = 2**11
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def read_table_rows(
    spark: "SparkSession", uri: str, plan: Plan, times: Mapping[int, int], *, former_rows: bool
) -> "DataFrame":
    """Return the records of a plan: one row for each, with the columns of ``staged.PLACE`` and ``staged.RAW``.

    ``times`` are those of the versions, in microseconds since 1970. If a version can no longer be read, the action that
    reads the DataFrame fails.
    """
    frames = [_read_range(spark, uri, part) for part in plan.ranges if part.span]
    rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)
    rows = rows.where(F.col(_KIND).isin([kind for kind in _KINDS if former_rows or kind != "update_preimage"]))
    pairs = [F.lit(number) for pair in sorted(times.items()) for number in pair]
    return _to_records(rows, F.create_map(*pairs)[F.col(_VERSION)])


def _read_range(spark: "SparkSession", uri: str, part: Range) -> "DataFrame":
    """Read the rows as of a version, or the changes of versions, with the columns of Delta's change data."""
    first = part.start // VERSION_PLACES
    if part.partition == ROWS:
        rows = read_version(spark, uri, first)
        return rows.withColumns({_KIND: F.lit("insert"), _VERSION: F.lit(first).cast("bigint"), _PART: F.lit(ROWS)})
    last = part.end // VERSION_PLACES - 1
    return read_changes_between(spark, uri, first, last).drop(_MADE_AT).withColumn(_PART, F.lit(CHANGES))


def _to_records(rows: "DataFrame", time: "Column") -> "DataFrame":
    kinds = F.create_map(*(F.lit(text) for pair in _KINDS.items() for text in pair))
    numbered = rows.withColumn(_KIND, kinds[F.col(_KIND)])
    fields = [F.col(f"`{name.replace('`', '``')}`") for name in numbered.columns if name != _PART]
    row = F.struct(*fields)
    # without NULLs, a column that is added later does not change the places of older versions
    texts = {_TEXT: F.to_json(row, _JSON), _SHORT_TEXT: F.to_json(row, _JSON | {"ignoreNullFields": "true"})}
    numbered = numbered.withColumns(texts)
    is_added = F.col(_KIND).isin("insert", "update")
    numbered = numbered.withColumn(_HASH, F.pmod(F.xxhash64(_SHORT_TEXT), F.lit(_HASHES)))
    group = Window.partitionBy(_VERSION, is_added, _HASH).orderBy(_SHORT_TEXT)
    number = F.row_number().over(group) - 1
    too_many = F.raise_error(F.lit(f"More than {_EQUAL:,} rows of one version are equal"))
    number = F.when(number < _EQUAL, number).otherwise(too_many.cast("int"))
    place = F.when(is_added, F.lit(_ADDED)).otherwise(0) + F.col(_HASH) * _EQUAL + number
    columns = {
        staged.TIME: F.timestamp_micros(time),
        staged.PARTITION: F.col(_PART),
        staged.POSITION: F.col(_VERSION) * VERSION_PLACES + place,
        staged.SEQUENCE: F.lit(None).cast("bigint"),
        staged.KEY: F.lit(None).cast("binary"),
        staged.VALUE: F.col(_TEXT).cast("binary"),
        staged.HEADERS: F.lit(None).cast("array<struct<key:string,value:binary>>"),
    }
    return numbered.select(*(column.alias(name) for name, column in columns.items()))
