"""Compare a table with the table of the database that it follows, row by row and value by value.

Both are divided into buckets by the hash of the key. Only buckets whose hashes differ are read row by row. A database
changes while it is compared, and its changes arrive later. So a difference counts only if it lasts.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from lakehouse.declaration import StreamTable
from lakehouse.ledger.audit import Finding, finding
from lakehouse.operations.table_pair import (
    Difference,
    Differences,
    Hashes,
    Pass,
    Report,
    Source,
    TablePair,
    report_nothing,
)
from lakehouse.settings import Settings

_MAX_BUCKETS = 64  # that are read row by row
_MAX_PASSES = 3  # further looks at all hashes while more buckets differ
_LASTING_SECONDS = 60.0
_PAUSE = 1.0  # seconds between two looks at rows that differ
_log = logging.getLogger(__name__)


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
    settings: Settings, table: StreamTable, source: Source, wait: float, report: Report = report_nothing
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


__all__ = ["Comparison", "Difference", "Source", "compare", "equals_database", "source_name"]
