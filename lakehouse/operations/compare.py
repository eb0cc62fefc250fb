"""Compare a table with the table of the database that it follows, row by row and value by value.

Both are divided into buckets by the hash of the key. Only buckets whose hashes differ are read row by row. A database
changes while it is compared, and its changes arrive later. So a difference counts only if it lasts.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from deltalake import DeltaTable

from lakehouse.declaration import StreamTable
from lakehouse.errors import TableError
from lakehouse.ledger.audit import Finding, finding
from lakehouse.ledger.log import open_table
from lakehouse.operations.canonical_rows import Texts, bucket_of, canonical_text, row_hash
from lakehouse.operations.source_database import Bucket, ComparedColumns, open_source
from lakehouse.settings import Settings

_MAX_BUCKETS = 64  # that are read row by row
_MAX_PASSES = 3  # further looks at all hashes while more buckets differ
_LASTING_SECONDS = 60.0
_PAUSE = 1.0  # seconds between two looks at rows that differ
_ROWS_PER_BATCH = 16_384
_log = logging.getLogger(__name__)


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


@dataclass(frozen=True)
class Comparison:
    """The result: the rows of both tables at the start, what differs, and what was not compared.

    ``buckets`` is the number of buckets that differ; if they are more than were read, ``differences`` is a part.
    """

    database_rows: int
    table_rows: int
    differences: tuple[Difference, ...]
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


@dataclass(frozen=True)
class Source:
    """Where the database is: its URL, and its table as ``SCHEMA.TABLE``."""

    url: str
    name: str


def compare(settings: Settings, table: StreamTable, source: Source, wait: float) -> Comparison:
    """Compare a table with its database; a difference counts if the row of the table stays wrong for ``wait`` seconds.

    Reads both tables as a whole, and then rows that differ. If very many rows differ, as with a table that lags, waits
    and reads both again, up to three times. Writes nothing and locks no row. Raises ``TableError`` if the table does
    not exist yet, and what ``open_source`` raises.
    """
    uri = settings.table_uri(table.name)
    hashes = _hash_both(uri, table, source)
    buckets = hashes.different_buckets
    for _ in range(_MAX_PASSES):
        if len(buckets) <= _MAX_BUCKETS:
            break
        time.sleep(wait)
        hashes = _hash_both(uri, table, source)
        buckets = sorted({*buckets} & {*hashes.different_buckets})  # what differs for long differs in each
    _log.info("Comparing the rows of %s buckets that differ", f"{len(buckets):,}")
    differences = _lasting_differences(uri, table, source, buckets[:_MAX_BUCKETS], wait)
    return Comparison(
        sum(bucket.rows for bucket in hashes.database.values()),
        sum(bucket.rows for bucket in hashes.table.values()),
        tuple(differences),
        hashes.columns.names,
        hashes.columns.other_names,
        len(buckets),
    )


class _Hashes(NamedTuple):
    """The hashes of both tables by bucket, and the columns that they cover."""

    database: dict[int, Bucket]
    table: dict[int, Bucket]
    columns: ComparedColumns

    @property
    def different_buckets(self) -> list[int]:
        """The buckets whose rows differ."""
        return sorted(n for n in {*self.database, *self.table} if self.database.get(n) != self.table.get(n))


def _hash_both(uri: str, table: StreamTable, source: Source) -> _Hashes:
    _log.info("Hashing the rows of %s in the database", source.name)
    with open_source(source.url, table, source.name, _stored_names(uri)) as database:
        database_buckets, columns = database.buckets(), database.columns
    _log.info("Hashing the rows of %s", table.name)
    return _Hashes(database_buckets, _hash_rows(uri, columns), columns)


def equals_database(settings: Settings, table: StreamTable) -> Finding:
    """Check a table against the database of the settings; a difference counts if it lasts for a minute."""
    url = settings.database_url.get_secret_value() if settings.database_url else ""
    comparison = compare(settings, table, Source(url, source_name(table)), _LASTING_SECONDS)
    problems = [f"{comparison.buckets:,} parts of the rows differ, and only {_MAX_BUCKETS} were compared."]
    problems = problems if comparison.is_part else []
    problems += [
        f"The key {', '.join(map(str, item.key))} {_describe(item, comparison)}." for item in comparison.differences
    ]
    omitted_text = f", except in {', '.join(comparison.other_names)}" if comparison.other_names else ""
    fact = f"{comparison.table_rows:,} rows equal the {comparison.database_rows:,} rows of the database{omitted_text}"
    return finding("equals_database", problems, fact, f"Each value: lakehouse compare {table.name}")


def _describe(difference: Difference, comparison: Comparison) -> str:
    if difference.database is None or difference.table is None:
        return f"is only in the {'table' if difference.database is None else 'database'}"
    return f"differs in {', '.join(name for name, *_ in difference.columns(comparison.names))}"


def source_name(table: StreamTable) -> str:
    """Return the name of the table in its database, by the name of its topic: the last two parts."""
    return ".".join(table.topic.split(".")[-2:])


def _lasting_differences(
    uri: str, table: StreamTable, source: Source, buckets: Collection[int], wait: float
) -> list[Difference]:
    """Return the differences in some buckets in which the row of the table stays the same for ``wait`` seconds."""
    lasting_differences = _find_differences(uri, table, source, buckets)
    deadline = time.monotonic() + wait
    is_last = False
    while lasting_differences and not is_last:
        is_last = time.monotonic() + _PAUSE >= deadline
        time.sleep(min(_PAUSE, max(deadline - time.monotonic(), 0.0)))
        # the row of the database may change meanwhile; a row of the table that stays wrong does not follow it
        found_differences = _find_differences(uri, table, source, buckets)
        lasting_differences = {
            key: found_differences[key] for key in lasting_differences.keys() & found_differences.keys()
        }
    return sorted(lasting_differences.values(), key=lambda difference: tuple(map(str, difference.key)))


def _find_differences(
    uri: str, table: StreamTable, source: Source, buckets: Collection[int]
) -> dict[tuple[Texts, Texts | None], Difference]:
    """Return what differs in some buckets now, by key and row of the table; nothing without buckets."""
    if not buckets:
        return {}
    with open_source(source.url, table, source.name, _stored_names(uri)) as database:
        columns, key_size = database.columns, len(database.columns.key)
        database_rows = {row[:key_size]: tuple(row) for row in database.rows(list(buckets))}
    numbers = frozenset(buckets)
    # the newest version of the table after that moment of the database
    table_rows = {row[:key_size]: row for row in _read_rows(uri, columns) if bucket_of(row[:key_size]) in numbers}
    differences = (
        Difference(key, database_rows.get(key), table_rows.get(key))
        for key in database_rows.keys() | table_rows.keys()
        if database_rows.get(key) != table_rows.get(key)
    )
    return {(item.key, item.table): item for item in differences}


def _hash_rows(uri: str, columns: ComparedColumns) -> dict[int, Bucket]:
    counts, hashes = defaultdict[int, int](int), defaultdict[int, int](int)
    for row in _read_rows(uri, columns):
        bucket = bucket_of(row[: len(columns.key)])
        counts[bucket] += 1
        hashes[bucket] += row_hash(row)
    return {bucket: Bucket(count, hashes[bucket]) for bucket, count in counts.items()}


def _read_rows(uri: str, columns: ComparedColumns) -> Iterator[Texts]:
    """Yield the texts of the rows of the newest version."""
    dataset = _open(uri).to_pyarrow_dataset()
    for batch in dataset.to_batches(columns=list(columns.names), batch_size=_ROWS_PER_BATCH):
        texts = [[canonical_text(value) for value in column.to_pylist()] for column in batch.columns]
        yield from zip(*texts, strict=True)


def _stored_names(uri: str) -> list[str]:
    """Return the names of the columns of the newest version."""
    return [field.name for field in _open(uri).schema().fields]


def _open(uri: str) -> DeltaTable:
    table = open_table(uri)
    if table is None:
        name = uri.rstrip("/").rpartition("/")[2]
        raise TableError("The table does not exist yet", where=uri, action=f"First run: lakehouse merge {name}")
    return table
