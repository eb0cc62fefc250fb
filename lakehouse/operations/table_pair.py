"""The two tables of a comparison: the hashes of their rows by bucket, and the rows of some buckets that differ now."""

import logging
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from deltalake import DeltaTable

from lakehouse.declaration import StreamTable
from lakehouse.errors import TableError
from lakehouse.ledger.active_files import count_rows
from lakehouse.ledger.log import open_table
from lakehouse.operations.canonical_rows import BUCKETS, Texts, bucket_of, canonical_text, row_hash
from lakehouse.operations.comparison_passes import Pass
from lakehouse.operations.source_database import ComparedColumns, open_source

_ROWS_PER_BATCH = 16_384
_MAX_SUM = 2**64 - 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """Where the database is: its URL, and its table as ``SCHEMA.TABLE``."""

    url: str
    name: str


@dataclass(frozen=True)
class Difference:
    """A key whose rows differ; ``database`` and ``table`` are the texts of its values, ``None`` if there is no row."""

    key: Texts
    database: Texts | None
    table: Texts | None

    def columns(self, names: tuple[str, ...]) -> list[tuple[str, str | None, str | None]]:
        """Return the columns that differ: name, value in the database, value in the table; none if a row is missing."""
        if self.database is None or self.table is None:
            return []
        pairs = zip(names, self.database, self.table, strict=True)
        return [(name, database, table) for name, database, table in pairs if database != table]


Differences = Mapping[tuple[Texts, Texts | None], Difference]
"""What differs, by key and row of the table."""


class BucketSums:
    """The number of rows in each bucket of one table, and the sum of their hashes; takes 16 MB for any table."""

    def __init__(self, hashes: Iterable[tuple[int, int]]) -> None:
        self.counts, self.sums = array("Q", bytes(8 * BUCKETS)), array("Q", bytes(8 * BUCKETS))
        for bucket, hash_of_row in hashes:
            self.counts[bucket] += 1
            self.sums[bucket] = (self.sums[bucket] + hash_of_row) & _MAX_SUM

    @property
    def rows(self) -> int:
        """The number of rows in all buckets."""
        return sum(self.counts)


class Hashes(NamedTuple):
    """The hashes of both tables by bucket, and the columns that they cover."""

    database: BucketSums
    table: BucketSums
    columns: ComparedColumns

    @property
    def different_buckets(self) -> list[int]:
        """The buckets whose rows differ."""
        parts = (self.database.counts, self.table.counts, self.database.sums, self.table.sums)
        return [
            bucket
            for bucket, (count, other_count, total, other_total) in enumerate(zip(*parts, strict=True))
            if count != other_count or total != other_total
        ]


@dataclass(frozen=True)
class TablePair:
    """A table at ``uri``, and the table of a database that it follows."""

    uri: str
    table: StreamTable
    source: Source

    def hash_rows(self, current_pass: Pass) -> Hashes:
        """Read both tables as a whole, the database first."""
        _log.info("Hashing the rows of %s in the database", self.source.name)
        with open_source(self.source.url, self.table, self.source.name, self._stored_names()) as database:
            columns = database.columns
            hashes = current_pass.follow(database.hashes(), self.source.name, database.estimate_rows())
            database_sums = BucketSums(hashes)
        _log.info("Hashing the rows of %s", self.table.name)
        rows = current_pass.follow(self._read_rows(columns), self.table.name, count_rows(self.uri))
        key_size = len(columns.key)
        return Hashes(database_sums, BucketSums((bucket_of(row[:key_size]), row_hash(row)) for row in rows), columns)

    def find_differences(self, buckets: Collection[int], expected_rows: int, current_pass: Pass) -> Differences:
        """Return what differs in some buckets now; nothing without buckets.

        ``expected_rows`` is about how many rows the buckets have in the database.
        """
        if not buckets:
            return {}
        with open_source(self.source.url, self.table, self.source.name, self._stored_names()) as database:
            columns, key_size = database.columns, len(database.columns.key)
            found_rows = current_pass.follow(database.rows(list(buckets)), self.source.name, expected_rows)
            database_rows = {row[:key_size]: tuple(row) for row in found_rows}
        numbers = frozenset(buckets)
        # the newest version of the table after that moment of the database
        rows = current_pass.follow(self._read_rows(columns), self.table.name, count_rows(self.uri))
        table_rows = {row[:key_size]: row for row in rows if bucket_of(row[:key_size]) in numbers}
        differences = (
            Difference(key, database_rows.get(key), table_rows.get(key))
            for key in database_rows.keys() | table_rows.keys()
            if database_rows.get(key) != table_rows.get(key)
        )
        return {(item.key, item.table): item for item in differences}

    def _read_rows(self, columns: ComparedColumns) -> Iterator[Texts]:
        """Yield the texts of the rows of the newest version."""
        dataset = self._open().to_pyarrow_dataset()
        for batch in dataset.to_batches(columns=list(columns.names), batch_size=_ROWS_PER_BATCH):
            texts = [[canonical_text(value) for value in column.to_pylist()] for column in batch.columns]
            yield from zip(*texts, strict=True)

    def _stored_names(self) -> list[str]:
        """Return the names of the columns of the newest version."""
        return [field.name for field in self._open().schema().fields]

    def _open(self) -> DeltaTable:
        table = open_table(self.uri)
        if table is None:
            name = self.uri.rstrip("/").rpartition("/")[2]
            raise TableError(
                "The table does not exist yet", where=self.uri, action=f"First run: lakehouse merge {name}"
            )
        return table
