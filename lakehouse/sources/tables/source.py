"""Another Delta table as a source of records: its rows and their changes as JSON objects.

The place of a row depends on the contents alone, so that a position always has the same record: first what is removed,
then what is added; among those, rows by a hash of their text; equal texts are numbered. Added rows of a table of
lakehouse are numbered in the order of their records, if a table with a key reads them: the newest record of the key
wins.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.types import StructType
from pyspark.sql.window import Window

from lakehouse.declaration import StreamTable
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sources import TableRows
from lakehouse.decoding import staged
from lakehouse.errors import SourceError
from lakehouse.ledger.commit_infos import identity_of
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table, read_commit
from lakehouse.ledger.positions import VERSION_PLACES, Plan, Range
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings
from lakehouse.settings.store import Store
from lakehouse.sources.source import Source
from lakehouse.sources.tables.versions import (
    ADDED,
    CHANGE_DATA,
    CHANGES,
    KIND_FIELD,
    MAX_VERSIONS,
    RECORD_FIELDS,
    ROWS,
    TableState,
    changed_rows,
    ends_of,
    first_after,
    has_rows,
    lost_versions,
    plan_failures,
    source_id,
    split_at,
    starts_of,
    versions_in,
)
from lakehouse.storage.row_changes import list_changes, read_changes, read_version

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

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


@dataclass(frozen=True)
class TableSource(Source):
    """The rows of a table as of the version with which its reader began, and each change since."""

    settings: Settings
    table: StreamTable
    rows: TableRows

    @property
    def uri(self) -> str:
        """The path or URI of the table that is read."""
        of = self.rows.of
        return self.settings.table_uri(of) if Store(of).is_relative else of

    @property
    def unordered_group(self) -> str:
        """The rows that one version adds, if no lakehouse wrote them: only those of lakehouse have an order."""
        types = {field.name: field.type for field in self._open().schema().fields}
        fields = getattr(types.get(RECORD), "fields", ())
        has_records = {field.name for field in fields} >= RECORD_FIELDS
        return "" if has_records else f"{staged.POSITION} div {ADDED}"

    def read_state(self, ledger: Ledger | None, limit: float) -> TableState:  # noqa: ARG002 - its log answers or fails
        """Read the log of the table, without a JVM. Raises ``SourceError`` if there is no table, or no change data.

        If the next version can no longer be read, that is a gap. A table with a key continues after it with the rows as
        they are now, a log with the next version that can be read. A later version that cannot be read ends what is
        held: what is before it is read first.
        """
        table = self._open()
        source, newest = source_id(str(table.metadata().id)), table.version()
        progress = ledger.progress if ledger else None
        if progress is None or progress.source != source:
            has_rows(self.uri, newest)  # raises if no later run could read them
            starts = starts_of(newest)
            return TableState(self.rows.of, source, starts, ends_of(newest, newest), starts={} if progress else starts)
        self._require_same_history(ledger)
        first, next_version = (progress.next_position(part) // VERSION_PLACES for part in (ROWS, CHANGES))
        earliest, end = starts_of(first), ends_of(first, newest)
        versions = range(next_version, min(newest + 1, next_version + MAX_VERSIONS))
        changes = list_changes(self.uri, versions.start, versions.stop - 1)
        gone_versions = lost_versions(self.uri, versions, changes)
        has_no_rows = progress.next_position(ROWS) < end[ROWS] and not has_rows(self.uri, first)
        if has_no_rows or (next_version in gone_versions and self.table.key):
            has_rows(self.uri, newest)
            earliest, end = starts_of(newest), ends_of(newest, newest)
        elif gone_versions:
            start = first_after(next_version, gone_versions)
            earliest |= {CHANGES: start * VERSION_PLACES} if start > next_version else {}
            end[CHANGES] = min((v for v in gone_versions if v > start), default=versions.stop) * VERSION_PLACES
        rows = {version.number: changed_rows(version.info) for version in changes}
        return TableState(self.rows.of, source, earliest, end, rows=rows)

    def _require_same_history(self, ledger: Ledger | None) -> None:
        """Raise if another commit made the version that was read last: a copy has taken the place of the table."""
        commit = ledger.last_commit if ledger else None
        consumed = commit.consumed_tables.get(self.rows.of) if commit else None
        info = read_commit(self.uri, consumed.version) if consumed and consumed.commit else None
        if consumed and info and identity_of(info) != consumed.commit:
            raise SourceError(
                f"Version {consumed.version} of the table that {self.table.name} reads is another one than was read",
                where=self.uri,
                action="An older copy of it has taken its place. Declare a table with another name.",
            )

    def consumed(self, plan: Plan) -> dict[str, Consumed]:
        """Return the last version of the plan, and the commit that made it."""
        last = max(part.end - 1 for part in plan.ranges) // VERSION_PLACES
        info, table_id = read_commit(self.uri, last), str(self._open().metadata().id)
        commit = identity_of(info) if info else None
        return {self.rows.of: Consumed(table_id=table_id, version=last, commit=commit)}

    def _open(self) -> DeltaTable:
        store = Store(self.uri)
        if store.kind == "azure" and store.bucket != self.settings.store.bucket:
            raise SourceError(
                f"The table that {self.table.name} reads is in another container of Azure than the tables",
                where=self.uri,
                action="Spark has the secret of one container: declare tables of LAKEHOUSE_TABLES alone.",
            )
        table = open_table(self.uri)
        if table is None:
            raise SourceError(
                f"The table that {self.table.name} reads does not exist",
                where=self.uri,
                action="Create it first, or correct source= in the declaration.",
            )
        with log_failures(self.uri):
            properties = table.metadata().configuration
        if properties.get(CHANGE_DATA) != "true":
            raise SourceError(
                f"The table that {self.table.name} reads keeps no change data",
                where=self.uri,
                action=f"Enable it: ALTER TABLE ... SET TBLPROPERTIES ('{CHANGE_DATA}' = 'true')",
            )
        return table

    def read(self, spark: "SparkSession", plan: Plan, ledger: Ledger | None) -> "DataFrame":
        """Read the rows as of the first version, and the changes of the planned versions."""
        versions = [versions_in(part) for part in plan.ranges if part.span]
        changes = [version for each in versions for version in list_changes(self.uri, each.start, each.stop - 1)]
        rule = self.table.deletes.truncates
        begins_with_truncate = rule is not None and rule.path == (KIND_FIELD,)
        last = ledger.last_commit if ledger else None
        kinds = Kinds(
            self.rows.former_rows,
            truncates=begins_with_truncate,
            are_ordered=bool(self.table.key),
            versions_before=last.versions_before if last else 0,
        )
        changed_columns = {version.number for version in changes if version.properties is not None}
        ranges = [piece for part in plan.ranges for piece in split_at(part, changed_columns)]
        # programs with different clocks write a table, so the version orders the records, as their sequence
        times = {version: 0 for each in versions for version in each} | {v.number: v.microseconds for v in changes}
        return read_table_rows(spark, self.uri, ranges, times, kinds)

    def failures(self, plan: Plan, command: str) -> AbstractContextManager[None]:  # noqa: ARG002 - a replay cannot go on
        """Explain a failure, as ``plan_failures`` does."""
        return plan_failures(self.table.name, self.uri, plan)


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
