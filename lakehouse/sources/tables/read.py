"""The rows of a table and their changes as records: JSON objects, each with a place within its version.

The place depends on the contents alone, so that a position always has the same record: first what is removed, then what
is added; among those, rows by a hash of their text; equal texts are numbered.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.window import Window

from lakehouse.decoding import staged
from lakehouse.ledger.positions import VERSION_PLACES, Range
from lakehouse.sources.tables.look import CHANGES, KIND_FIELD, ROWS
from lakehouse.storage.other_tables import read_changes_between, read_version

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
_ADDED = 2**35  # places of added rows begin here
_EQUAL = 2**24  # rows with the same hash
_HASHES = 2**11
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


class Kinds(NamedTuple):
    """Which records are read besides inserts, updates and deletes.

    ``former_rows`` are the rows before updates. With ``truncates``, a truncate precedes the rows as of a version.
    """

    former_rows: bool = False
    truncates: bool = False


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
    return reduce(DataFrame.unionByName, [_to_records(rows, time) for rows in frames])


def _read_range(spark: "SparkSession", uri: str, part: Range, kinds: Kinds) -> "DataFrame":
    """Read the rows as of a version, or the changes of versions, with the columns of Delta's change data."""
    first = part.start // VERSION_PLACES
    if part.partition == ROWS:
        place = {_VERSION: F.lit(first).cast("bigint"), _PART: F.lit(ROWS)}
        rows = read_version(spark, uri, first).withColumns({_KIND: F.lit("insert"), **place})
        truncate = spark.range(1).select(F.lit(_TRUNCATE).alias(_KIND)).withColumns(place)
        return rows.unionByName(truncate, allowMissingColumns=True) if kinds.truncates else rows
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
