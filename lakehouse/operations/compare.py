"""Compare a table with the table of the database that it follows, row by row and value by value.

Both are divided into buckets by the hash of the key. Only buckets whose hashes differ are read row by row. A database
changes while it is compared, and its changes arrive later. So a difference counts only if it lasts.
"""

import logging
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import ceil
from typing import NamedTuple, TypeVar

from deltalake import DeltaTable

from lakehouse.declaration import StreamTable
from lakehouse.errors import TableError
from lakehouse.ledger.audit import Finding, finding
from lakehouse.ledger.log import open_rows
from lakehouse.ledger.versions import count_rows, scan_rows
from lakehouse.operations.source_database import (
    BUCKETS,
    ComparedColumns,
    Texts,
    bucket_of,
    canonical_text,
    open_source,
    row_hash,
)
from lakehouse.settings import Settings

_ROWS_PER_REPORT = 10_000
Row = TypeVar("Row")

_MAX_SUM = 2**64 - 1
_log = logging.getLogger(__name__)
_MAX_BUCKETS = 64  # that are read row by row
_MAX_PASSES = 3  # further looks at all hashes while more buckets differ
_LASTING_SECONDS = 60.0
_PAUSE = 1.0  # seconds between two looks at rows that differ


class Progress(NamedTuple):
    """The rows of one table that a pass has read so far.

    ``expected_rows`` is an estimate, ``None`` if there is none. ``number`` is the number of the pass, from 1, and
    ``max_number`` how many passes of its kind there are at most.
    """

    table: str
    rows: int
    expected_rows: int | None
    number: int
    max_number: int


Report = Callable[[Progress], None]


class Pass(NamedTuple):
    """One pass over both tables, and what it calls with its progress."""

    number: int
    max_number: int
    report: Report

    def follow(self, rows: Iterable[Row], table: str, expected_rows: int | None) -> Iterator[Row]:
        """Yield the rows of a table as they are read; report their number at the start, every 10,000 and at the end."""
        number = 0
        self._report(table, number, expected_rows)
        for number, row in enumerate(rows, 1):
            yield row
            if number % _ROWS_PER_REPORT == 0:
                self._report(table, number, expected_rows)
        self._report(table, number, expected_rows)

    def _report(self, table: str, rows: int, expected_rows: int | None) -> None:
        self.report(Progress(table, rows, expected_rows, self.number, self.max_number))


@dataclass(frozen=True)
class Source:
    """Where the database is: its URL, and its table as ``SCHEMA.TABLE``."""

    url: str
    name: str


@dataclass(frozen=True)
class Difference:
    """Two rows of a key that differ; ``database`` and ``table`` are the texts of their values.

    One of them is ``None`` if the other table has more rows of the key: usually one and none. ``database_rows`` and
    ``table_rows`` are how many rows of the key each table has.
    """

    key: Texts
    database: Texts | None
    table: Texts | None
    database_rows: int = 1
    table_rows: int = 1

    def columns(self, names: tuple[str, ...]) -> list[tuple[str, str | None, str | None]]:
        """Return the columns that differ: name, value in the database, value in the table; none if a row is missing."""
        if self.database is None or self.table is None:
            return []
        pairs = zip(names, self.database, self.table, strict=True)
        return [(name, database, table) for name, database, table in pairs if database != table]


Differences = Mapping[tuple[Texts, Texts | None, int], Difference]
"""What differs, by key and row of the table, and the number of the difference among those of an equal row."""
_RowsByKey = Mapping[Texts, Counter[Texts]]


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
            database_rows = _count_rows(map(tuple, found_rows), key_size)
        numbers = frozenset(buckets)
        # the newest version of the table after that moment of the database
        rows = current_pass.follow(self._read_rows(columns), self.table.name, count_rows(self.uri))
        table_rows = _count_rows((row for row in rows if bucket_of(row[:key_size]) in numbers), key_size)
        return _find_differences(database_rows, table_rows)

    def _read_rows(self, columns: ComparedColumns) -> Iterator[Texts]:
        """Yield the texts of the rows of the newest version."""
        for batch in scan_rows(self._open(), columns.names).to_batches():
            texts = [[canonical_text(value) for value in column.to_pylist()] for column in batch.columns]
            yield from zip(*texts, strict=True)

    def _stored_names(self) -> list[str]:
        return [field.name for field in self._open().schema().fields]

    def _open(self) -> DeltaTable:
        table = open_rows(self.uri)
        if table is None:
            name = self.uri.rstrip("/").rpartition("/")[2]
            raise TableError(
                "The table does not exist yet", where=self.uri, action=f"First run: lakehouse merge {name}"
            )
        return table


def _count_rows(rows: Iterable[Texts], key_size: int) -> _RowsByKey:
    """Return how often each row occurs, by key: a table may have several rows of a key, and equal ones."""
    rows_by_key: defaultdict[Texts, Counter[Texts]] = defaultdict(Counter)
    for row in rows:
        rows_by_key[row[:key_size]][row] += 1
    return rows_by_key


def _find_differences(database: _RowsByKey, table: _RowsByKey) -> Differences:
    """Pair the rows of each key that only one table has, or has more often."""
    differences: dict[tuple[Texts, Texts | None, int], Difference] = {}
    for key in database.keys() | table.keys():
        rows, other_rows = database.get(key, Counter()), table.get(key, Counter())
        surplus, other_surplus = (sorted(part.elements(), key=str) for part in (rows - other_rows, other_rows - rows))
        for number, (row, other_row) in enumerate(zip_longest(surplus, other_surplus)):
            difference = Difference(key, row, other_row, rows.total(), other_rows.total())
            differences[key, other_row, number] = difference
    return differences


@dataclass(frozen=True)
class Comparison:
    """The result: the rows of both tables at the start, what differs, and what was not compared.

    ``buckets`` is the number of buckets that differ; if they are more than were read, ``differences`` is a part.
    """

    database_rows: int
    table_rows: int
    differences: tuple[Difference, ...]
    key: tuple[str, ...]
    names: tuple[str, ...]
    other_names: tuple[str, ...]
    buckets: int

    @property
    def is_part(self) -> bool:
        """Whether more buckets differ than were read."""
        return self.buckets > _MAX_BUCKETS

    @property
    def is_equal(self) -> bool:
        """Whether everything was compared and nothing differs for long."""
        return not self.differences and not self.is_part


def compare(
    settings: Settings, table: StreamTable, source: Source, wait: float, report: Report = lambda _: None
) -> Comparison:
    """Compare a table with its database; a difference counts if the row of the table stays wrong for ``wait`` seconds.

    Reads both tables as a whole, and then rows that differ. If very many rows differ, as with a table that lags, waits
    and reads both again, up to three times. Calls ``report`` every 10,000 rows. Writes nothing and locks no row. Its
    memory does not grow with the tables, except for about one of 16,000 rows. Raises ``TableError`` if the table does
    not exist yet, and what ``open_source`` raises.
    """
    pair = TablePair(settings.table_uri(table.name), table, source)
    passes = [Pass(number, 1 + _MAX_PASSES, report) for number in range(1, 2 + _MAX_PASSES)]
    hashes = pair.hash_rows(passes[0])
    buckets = hashes.different_buckets
    for further_pass in passes[1:]:
        if len(buckets) <= _MAX_BUCKETS:
            break
        time.sleep(wait)
        hashes = pair.hash_rows(further_pass)
        buckets = sorted({*buckets} & {*hashes.different_buckets})  # what differs for long differs in each
    _log.info("Comparing the rows of %s buckets that differ", f"{len(buckets):,}")
    differences = _Looks(pair, hashes, buckets[:_MAX_BUCKETS], report).lasting_differences(wait)
    return Comparison(
        hashes.database.rows,
        hashes.table.rows,
        tuple(differences),
        hashes.columns.key,
        hashes.columns.names,
        hashes.columns.other_names,
        len(buckets),
    )


def equals_database(settings: Settings, table: StreamTable) -> Finding:
    """Check a table against the database of the settings; a difference counts if it lasts for a minute."""
    url = settings.database_url.get_secret_value() if settings.database_url else ""
    comparison = compare(settings, table, Source(url, source_name(table)), _LASTING_SECONDS)
    problems = [f"{comparison.buckets:,} parts of the rows differ, and only {_MAX_BUCKETS} were compared."]
    problems = problems if comparison.is_part else []
    texts = (
        f"The key {', '.join(map(str, item.key))} {_describe(item, comparison)}." for item in comparison.differences
    )
    problems += dict.fromkeys(texts)
    omitted_text = f", except in {', '.join(comparison.other_names)}" if comparison.other_names else ""
    fact = f"{comparison.table_rows:,} rows equal the {comparison.database_rows:,} rows of the database{omitted_text}"
    return finding("equals_database", problems, fact, f"Each value: lakehouse compare {table.name}")


def _describe(difference: Difference, comparison: Comparison) -> str:
    if difference.database_rows != difference.table_rows and difference.database_rows and difference.table_rows:
        return f"is {difference.database_rows:,} times in the database and {difference.table_rows:,} times in the table"
    if difference.database is None or difference.table is None:
        return f"is only in the {'table' if difference.database is None else 'database'}"
    return f"differs in {', '.join(name for name, *_ in difference.columns(comparison.names))}"


def source_name(table: StreamTable) -> str:
    """Return the name of the table in its database, by the name of its topic: the last two parts."""
    return ".".join(table.topic.split(".")[-2:])


@dataclass(frozen=True)
class _Looks:
    """Looks at the rows of some buckets, again and again while any differ."""

    pair: TablePair
    hashes: Hashes
    buckets: Sequence[int]
    report: Report

    def lasting_differences(self, wait: float) -> list[Difference]:
        """Return the differences in which the row of the table stays the same for ``wait`` seconds."""
        max_number = 1 + max(1, ceil(wait / _PAUSE))
        number = 1
        differences = self._look(Pass(number, max_number, self.report))
        deadline = time.monotonic() + wait
        is_last = False
        while differences and not is_last:
            is_last = time.monotonic() + _PAUSE >= deadline
            time.sleep(min(_PAUSE, max(deadline - time.monotonic(), 0.0)))
            number += 1
            # the row of the database may change meanwhile; a row of the table that stays wrong does not follow it
            found_differences = self._look(Pass(number, max_number, self.report))
            differences = {key: found_differences[key] for key in differences.keys() & found_differences.keys()}
        return sorted(differences.values(), key=lambda difference: tuple(map(str, difference.key)))

    def _look(self, current_pass: Pass) -> Differences:
        expected_rows = sum(self.hashes.database.counts[bucket] for bucket in self.buckets)
        return self.pair.find_differences(self.buckets, expected_rows, current_pass)
