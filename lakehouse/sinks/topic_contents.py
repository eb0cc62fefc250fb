"""What a topic holds, by key, compared with the rows of a table: in DuckDB, which needs little memory."""

from collections.abc import Iterable, Iterator
from itertools import count, islice

import pyarrow as pa

from lakehouse.errors import TableError
from lakehouse.exports.attempts import MEMORY
from lakehouse.kafka.transactions import Pairs
from lakehouse.query.connections import connect, quoted_text, run_statement
from lakehouse.settings import Settings
from lakehouse.sinks.delivery import Differences

_PART = 5_000
_SCHEMA = pa.schema([("number", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
_NEWEST = (
    "SELECT key, arg_max(digest, number) AS digest FROM sent GROUP BY key HAVING arg_max(digest, number) <> 'deleted'"
)
_JOIN = f"FROM (SELECT key, value, md5(value) AS digest FROM rows) r FULL JOIN ({_NEWEST}) s USING (key)"
_DIFFERS = "r.digest IS DISTINCT FROM s.digest"


class TopicContents:
    """The newest record of each key, and the rows that should be there; in a database that ``close`` removes."""

    def __init__(self, settings: Settings) -> None:
        self._connection = connect(settings, reads_tables=False)
        self._numbers = count()
        run_statement(self._connection, f"SET memory_limit = {quoted_text(MEMORY)}")
        run_statement(self._connection, "CREATE TABLE sent (number BIGINT, key BLOB, digest VARCHAR)")
        run_statement(self._connection, "CREATE TABLE rows (key BLOB, value BLOB)")

    def add(self, records: Pairs) -> None:
        """Add records of the topic, in the order of each key; one without a value deletes the key.

        Raises ``TableError`` if one has no key: no sink sent it.
        """
        if any(key is None for key, _ in records):
            action = "Delete the topic and its topic of progress, and run it again; or choose another topic."
            raise TableError("The topic of a sink has a record without a key, which no sink sent", action=action)
        self._insert("sent SELECT number, key, coalesce(md5(value), 'deleted')", records)

    def add_digests(self, pairs: Pairs) -> None:
        """Add the digest of each key, where the values themselves are not read."""
        if pairs:
            self._insert("sent SELECT number, key, CAST(value AS VARCHAR)", pairs)

    def add_rows(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Add rows of the table."""
        iterator = iter(rows)
        while part := [*islice(iterator, _PART)]:
            self._insert("rows SELECT key, value", part)

    def differences(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the rows that the topic does not have so, and keys that it has and no row, without a value."""
        run_statement(self._connection, f"SELECT coalesce(r.key, s.key), r.value {_JOIN} WHERE {_DIFFERS}")
        while rows := self._connection.fetchmany(_PART):
            yield from rows

    def count_differences(self) -> Differences:
        """Count the rows that differ."""
        conditions = ("s.key IS NULL", "r.key IS NULL", f"r.key IS NOT NULL AND s.key IS NOT NULL AND {_DIFFERS}")
        counts = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in conditions)
        run_statement(self._connection, f"SELECT {counts} {_JOIN}")
        return Differences(*(self._connection.fetchone() or ()))

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _insert(self, target: str, records: Pairs) -> None:
        keys, values = zip(*records, strict=True)
        numbers = [*islice(self._numbers, len(keys))]
        self._connection.register("part", pa.table([numbers, keys, values], schema=_SCHEMA))
        run_statement(self._connection, f"INSERT INTO {target} FROM part")
        self._connection.unregister("part")
