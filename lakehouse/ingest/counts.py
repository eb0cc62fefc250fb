"""The counts of a batch: its records by outcome, its unmapped fields, and a condition that prunes files of a MERGE."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import Column as DeclaredColumn
from lakehouse.declaration import Computed, StreamTable
from lakehouse.decoding import staged
from lakehouse.errors import AccountingError
from lakehouse.ingest.newest_per_key import with_equal_versions
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.positions import SourceId
from lakehouse.storage.key_packs import Hashes
from lakehouse.storage.layout import TEXT_BOUND, TEXT_TYPES, literal, text_literal

_TEXT_SIZE = "_text_size"
PRUNE_ALL = "false"  # prunes every file: for a batch without rows
_TO_EVERYBODY, _BROADCAST_TEXT_BYTES = 50_000, 64 * 1024 * 1024  # limits of a broadcast: rows, and bytes of their text
MAX_UNMAPPED_FIELDS = 100
"""Maximum number of unmapped fields that are listed for one batch."""
_COMMITTED = (
    *("read", "empty", "rows_read", "filtered", "rejected", "superseded"),
    *("late", "rounded", "equal_versions", "erased"),
)
"""The counts that the commit of a batch repeats."""
_MOST_PARTITIONS = 500  # literals in one statement; with more, the range of the key prunes well enough


class Touched(NamedTuple):
    """What the rows of a batch can touch in the table.

    ``partitions`` are those to which the rows belong, if the key determines them. ``prune`` is a condition on the table
    (as ``t``), made of literals, that prunes the files that can contain no row of the batch; ``key_ranges`` is the part
    of it about the key, with ``{side}`` for the alias of the table, and ``bounds`` are the least and the greatest value
    of columns of the key, as texts. ``text`` is the size of the texts and bytes of the valid records. ``key_hashes``
    are those of the keys of all rows, ``None`` if they were not collected.
    """

    partitions: tuple[str, ...] | None = None
    prune: str = PRUNE_ALL
    key_ranges: str = "true"
    text: int = 0
    bounds: Mapping[str, tuple[str, str]] = {}
    key_hashes: Hashes | None = None


class ChangeCounts(NamedTuple):
    """What a batch of a change stream holds.

    ``snapshot_position`` is the greatest position of a snapshot, ``None`` if it has none; ``snapshot_ends`` counts the
    records that end one; ``moved_keys`` counts the keys in several partitions. ``min_origin`` and ``max_origin`` are
    those of its changes, and ``origin_position`` their greatest position.
    """

    snapshot_position: int | None = None
    snapshot_ends: int = 0
    moved_keys: int = 0
    min_origin: int | None = None
    max_origin: int | None = None
    origin_position: int | None = None


@dataclass(frozen=True)
class Counts:
    """The records of a batch by outcome; ``late`` records are part of ``read`` and also have another outcome.

    ``rounded`` ones are also part of ``read``: a DECIMAL of them lost digits. So are ``equal_versions``: an earlier
    record of the batch has their key and version, and other values. ``filtered`` records do not meet ``where``. If the
    elements of an array are rows, ``read`` counts records, ``empty`` those without an element, and all other counts are
    about rows: ``rows_read`` is the number of elements, and of records that are judged as a whole; else it is ``None``.
    ``erased`` records have an erased key. ``deleted_keys`` is the number of keys with a delete, ``truncates`` that of
    truncates, and ``beyond_horizon`` that of rows which a purged delete may have deleted. ``unmapped_fields`` has the
    number of records with each unmapped field.
    """

    read: int
    rejected: int
    superseded: int
    late: int
    filtered: int = 0
    empty: int = 0
    rows_read: int | None = None
    rounded: int = 0
    equal_versions: int = 0
    erased: int = 0
    deleted_keys: int = 0
    truncates: int = 0
    beyond_horizon: int = 0
    unmapped_fields: Mapping[str, int] = field(default_factory=dict)
    touched: Touched = field(default_factory=Touched)
    changes: ChangeCounts = field(default_factory=ChangeCounts)

    @property
    def join(self) -> str:
        """The join hint for the source; it keeps Spark from broadcasting the target while Delta counts the source.

        If such a target is empty, Spark without generated code never reads the source, and Delta counts no row.
        """
        return "broadcast" if self.rows <= _TO_EVERYBODY and self.touched.text <= _BROADCAST_TEXT_BYTES else "merge"

    @property
    def rows(self) -> int:
        """The number of rows to merge: one for each key; in a log table, one for each record."""
        judged = self.read if self.rows_read is None else self.rows_read
        return judged - self.filtered - self.erased - self.rejected - self.superseded

    @property
    def are_all_rejected(self) -> bool:
        """Whether nothing passes, and nothing turns out to be no row of the table."""
        return not self.rows + self.superseded + self.filtered + self.erased + self.empty

    def prune_by_key(self, side: str) -> str:
        """Return the part of ``prune`` about the key, for a table with another alias or other partitions."""
        return self.touched.key_ranges.format(side=side)

    def text_from(self, source: SourceId | None, orders: int = 1) -> int:
        """Return the bytes of text in the rows, if each row contains the id of its source ``orders`` times."""
        return self.touched.text + self.rows * orders * len(source.text if source else "")


def count_batch(
    records: DataFrame, table: StreamTable, is_beyond_horizon: str = "", equal_order: str = "", key_hash: str = ""
) -> Counts:
    """Count a batch in one aggregate over its staged records (with ``_reason``, NULL if a record is valid).

    ``is_beyond_horizon`` is the condition of that name, and ``equal_order`` what that function returns. ``key_hash`` is
    the SQL of the hash of a key, if hashes are wanted. Raises ``AccountingError`` if Spark returns no counts.
    """
    flags = {"rounded": staged.ROUNDED} if any("DECIMAL" in column.type for column in table.record_columns) else {}
    flags |= {"equal_versions": staged.EQUAL_VERSION} if equal_order else {}
    flags |= {"beyond_horizon": is_beyond_horizon} if is_beyond_horizon else {}
    records = with_equal_versions(records, table, equal_order) if equal_order else records
    row = _aggregate(records, table, _sums(table, flags), key_hash)
    if row is None or row["keys"] is None:
        raise AccountingError("Spark returned no counts for the batch", where=table.name, action="Run it again.")
    filtered, empty = int(row["filtered"]) if table.filters else 0, int(row["empty"]) if table.has_elements else 0
    judged = int(row["read"]) - empty
    erased = int(row["erased"])
    rejected = int(row["rejected"]) - filtered - empty - erased  # records without a row also have a reason
    keys, late = int(row["keys"]), int(row["late"])
    partitions = tuple(sorted(row["partitions"])) if _partition_follows_key(table) else None
    key_conditions = _key_conditions(row, table) if keys else [PRUNE_ALL]
    prune = _all_of([*_partition_conditions(row, table), *(part.format(side="t") for part in key_conditions)])
    unmapped_fields = _count_unmapped_fields(records) if row["others"] else {}
    return Counts(
        int(row["records"]) if table.has_elements else judged,
        rejected,
        judged - filtered - erased - rejected - keys,
        late,
        filtered=filtered,
        erased=erased,
        empty=empty,
        rows_read=judged if table.has_elements else None,
        deleted_keys=int(row["deleted_keys"]) if table.delete_rule else 0,
        truncates=int(row["truncates"]) if table.has_truncates else 0,
        unmapped_fields=unmapped_fields,
        touched=Touched(
            partitions,
            prune,
            _all_of(key_conditions),
            int(row["text"]),
            _key_bounds(row, table),
            row["key_hashes"] if key_hash else None,
        ),
        changes=ChangeCounts(*(row[name] for name in ChangeCounts._fields)) if table.has_changes else ChangeCounts(),
        **{name: int(row[name]) for name in flags},
    )


def _count_unmapped_fields(records: DataFrame) -> dict[str, int]:
    """Count the records with each unmapped field, the most common first; each Arrow batch has counted its own."""
    totals = Counter[str]()
    for (counts,) in records.where(f"{staged.UNMAPPED_FIELDS} IS NOT NULL").select(staged.UNMAPPED_FIELDS).collect():
        totals.update(json.loads(counts))
    return dict(totals.most_common(MAX_UNMAPPED_FIELDS))


def _sums(table: StreamTable, flags: Mapping[str, str]) -> dict[str, str]:
    """Return what is counted of the records of a key, in SQL by name; the counts of a batch are the sums of these.

    ``flags`` are conditions on records that are counted with any outcome.
    """
    sums = {"read": "count(*)", "rejected": f"count({staged.REASON})", "late": f"count_if({staged.LATE})"}
    sums |= {name: f"count_if({condition})" for name, condition in flags.items()}
    sums |= {"text": f"sum({_TEXT_SIZE})", "others": f"count({staged.UNMAPPED_FIELDS})"}
    sums["erased"] = f"count_if({staged.REASON} = '{staged.ERASED}')"
    if table.filters:
        sums["filtered"] = f"count_if({staged.REASON} = '{staged.FILTERED}')"
    if table.has_elements:
        sums["records"] = f"count_if(coalesce({staged.INDEX}, 0) = 0)"
        sums["empty"] = f"count_if({staged.REASON} = '{staged.EMPTY}')"
    if table.has_truncates:
        is_truncate = f"{staged.ROWLESS} AND {staged.SEQUENCE} IS NOT NULL" if table.has_changes else staged.ROWLESS
        sums |= {"rowless": f"count_if({staged.ROWLESS})", "truncates": f"count_if({is_truncate})"}
    if table.has_changes:
        sums["snapshot_ends"] = f"count_if({staged.SNAPSHOT} = '{staged.LAST}')"
    return sums


def _aggregate(records: DataFrame, table: StreamTable, sums: Mapping[str, str], key_hash: str) -> Row | None:
    """Count records for each key, then over the keys; rejected records have the key NULL, and those without a row.

    Only simple sums, so that Spark uses a hash aggregate. For a log table, one total: each of its records is a row.
    """
    of_key = {f"_{name}": sql for name, sql in sums.items()}
    totals = {name: f"coalesce(sum(_{name}), 0)" for name in sums}
    without_row = "_rejected + _rowless" if table.has_truncates else "_rejected"
    totals["keys"] = f"count_if(_read > {without_row})" if table.key else "coalesce(sum(_read - _rejected), 0)"
    if table.has_changes:
        partition = f"IF({staged.ROWLESS} OR {staged.REASON} IS NOT NULL, NULL, {staged.PARTITION})"
        of_key |= {f"_{name}_partition": f"{name}({partition})" for name in ("min", "max")}
        of_key["_snapshot_position"] = f"max(IF({staged.SNAPSHOT} IS NOT NULL, {staged.SEQUENCE}, NULL))"
        of_key |= {f"_{name}_origin": f"{name}({staged.ORIGIN})" for name in ("min", "max")}
        of_key["_origin_position"] = f"max(IF({staged.ORIGIN} IS NOT NULL, {staged.SEQUENCE}, NULL))"
        totals |= {name: f"max(_{name})" for name in ("snapshot_position", "max_origin", "origin_position")}
        totals |= {"min_origin": "min(_min_origin)", "moved_keys": "count_if(_min_partition < _max_partition)"}
    if table.delete_rule:
        of_key["_deletes"], totals["deleted_keys"] = f"count_if({staged.DELETED})", "count_if(_deletes > 0)"
    if table.partition_by and _partition_follows_key(table):
        of_key["_table_partition"] = f"max(`{table.partition_by.name}`)"
        totals["partitions"] = "CAST(collect_set(_table_partition) AS ARRAY<STRING>)"
    for name in _ranged_keys(table):
        totals |= {f"{bound}_key_{name}": f"CAST({bound}(`{name}`) AS STRING)" for bound in ("min", "max")}
    if key_hash:
        totals["key_hashes"] = f"collect_list(IF(_read > {without_row}, {key_hash}, NULL))"
    by_key = records.withColumn(_TEXT_SIZE, _text_size(table)).groupBy(*table.key)
    keys, totals_of_batch = ([F.expr(sql).alias(name) for name, sql in part.items()] for part in (of_key, totals))
    counts = by_key.agg(*keys).agg(*totals_of_batch)
    if not key_hash:
        return counts.first()
    columns = counts.toArrow()  # quicker than a row with so many numbers
    key_hashes = columns["key_hashes"].combine_chunks().flatten().to_numpy().view(np.uint64)
    return Row(**columns.drop_columns(["key_hashes"]).to_pylist()[0], key_hashes=key_hashes)


def _text_size(table: StreamTable) -> Column:
    """The bytes of the texts and other long values of a record."""
    sizes = " + ".join(_size_sql(column) for column in table.columns if column.type in TEXT_TYPES or column.is_nested)
    return F.expr(sizes or "0")


def _size_sql(column: DeclaredColumn | Computed) -> str:
    """Return SQL of the bytes of a value; bytes that are cast to a STRING would be copied."""
    value = f"`{column.name}`" if column.type == "BINARY" else f"CAST(`{column.name}` AS STRING)"
    return f"coalesce(octet_length({value}), 0)"


def _partition_follows_key(table: StreamTable) -> bool:
    return table.partition_by is not None and table.partition_by.column in table.key


def _ranged_keys(table: StreamTable) -> list[str]:
    """Return the key columns for which the statistics of a file have exact minimum and maximum values."""
    return [name for name in table.key if table.by_name[name].type not in ("BOOLEAN", "DOUBLE")]


def _partition_conditions(row: Row, table: StreamTable) -> list[str]:
    """Return conditions on the partition (of ``t``) that hold for every row that a batch can change."""
    partitions = sorted(row["partitions"]) if _partition_follows_key(table) else []
    if table.partition_by is None or not 0 < len(partitions) <= _MOST_PARTITIONS:
        return []
    type_ = {column.name: column.type for column in table.stored_columns}[table.partition_by.name]
    literals = ", ".join(literal(partition, type_) for partition in partitions)
    return [f"t.`{table.partition_by.name}` IN ({literals})"]


def _key_conditions(row: Row, table: StreamTable) -> list[str]:
    """Return conditions on the key of a table ``{side}`` that hold for every row that a batch can change.

    Texts of records are written as character codes, so they contain no braces.
    """
    conditions = []
    for name, (minimum, maximum) in _key_bounds(row, table).items():
        conditions += _range_conditions(f"{{side}}.`{name}`", minimum, maximum, table.by_name[name].type)
    return conditions


def _key_bounds(row: Row, table: StreamTable) -> dict[str, tuple[str, str]]:
    bounds = {name: (row[f"min_key_{name}"], row[f"max_key_{name}"]) for name in _ranged_keys(table)}
    return {name: values for name, values in bounds.items() if None not in values}


def _all_of(conditions: Iterable[str]) -> str:
    return " AND ".join(conditions) or "true"


def _range_conditions(column: str, minimum: str, maximum: str, type_: str) -> list[str]:
    """Return conditions that hold if a column is in a range; of a long text, only the beginning counts."""
    if type_ != "STRING":
        return [f"{column} BETWEEN {literal(minimum, type_)} AND {literal(maximum, type_)}"]
    upper_conditions = [f"{column} <= {text_literal(maximum)}"] if len(maximum) <= TEXT_BOUND else []
    return [f"{column} >= {text_literal(minimum[:TEXT_BOUND])}", *upper_conditions]


def with_counts(commit: Commit, counts: Counts, table: StreamTable) -> Commit:
    """Return the commit with the counts of its batch, and the declaration that decided them."""
    snapshot_positions = [p for p in (commit.snapshot_position, counts.changes.snapshot_position) if p is not None]
    fields = {"declaration": table.fingerprint, "snapshot_position": max(snapshot_positions, default=None)}
    return commit.with_fields(**{name: getattr(counts, name) for name in _COMMITTED}, **fields)
