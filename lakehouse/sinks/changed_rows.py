"""The rows that a sink brings to its target: all of a version, or for each identity what changed last."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from lakehouse.declaration.export import CHANGE_COLUMNS
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.sink import RowIdentity, Sink
from lakehouse.errors import TableError
from lakehouse.exports.attempts import SOURCE, explain_failure, read_changes, select_rows
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_version
from lakehouse.ledger.versions import TableVersion
from lakehouse.query.connections import quoted_name, scan_sql
from lakehouse.settings import Settings
from lakehouse.storage.row_changes import ChangesGoneError

GONE = "_gone"
"""The last column of each row: whether the table no longer has a row of this identity."""
UNFIT = "_unfit"
"""The column of the stage with the name of a column whose value cannot be held; NULL in other rows."""
VERSION = "_version"
"""The column with the version of the table that made a change."""
_CHANGE_TYPE, _CHANGE_VERSION, _ = CHANGE_COLUMNS
_RECORD_FIELDS = ("source", "partition", "position", "index", "time")


@dataclass(frozen=True)
class SourceRows:
    """The table of a sink, as of one version; ``identity`` are the columns that identify a row there."""

    settings: Settings
    sink: Sink
    identity: RowIdentity
    ledger: Ledger

    @cached_property
    def _table(self) -> DeltaTable:
        return open_version(self.ledger.uri, self.ledger.version)

    @cached_property
    def _types(self) -> Mapping[str, pa.DataType]:
        return {field.name: field.type for field in pa.schema(self._table.schema().to_arrow())}

    @cached_property
    def columns(self) -> Mapping[str, pa.DataType]:
        """The columns of the target and their types. ``TableError`` if the table does not have a declared one."""
        declared_names = self.sink.columns or [name for name in self._types if not name.startswith("_")]
        names = dict.fromkeys((*self.identity.columns, *declared_names))
        if missing_names := [name for name in names if name not in self._types]:
            message = f"Sink {self.sink.name}: {self.sink.of} has no column {missing_names[0]}"
            columns = ", ".join(name for name in self._types if not name.startswith("_"))
            raise TableError(message, where=self.ledger.uri, action=f"Its columns are {columns}.")
        return {name: pa.string() if name == RECORD else self._types[name] for name in names}

    @contextmanager
    def open(self, since: int | None, *, each_version: bool = False) -> Iterator[Iterator[pa.RecordBatch]]:
        """Open every row, or with ``since`` the last change of each identity after that version of the table.

        With ``each_version``, it is the last change in each version, without changes that leave the row as it was. They
        are in the order of versions and identities, and the column ``VERSION`` comes last. Every row is in the order of
        identities then, so each read of a version has the same order.

        Raises ``ChangesGoneError``, also while they are read, if the changes can no longer be read, and ``TableError``
        if the rows cannot be.
        """
        failures: list[ChangesGoneError] = []
        try:
            if since is None:
                source, sql = self._all_rows(f" ORDER BY {self._key_names}" if each_version else "")
            else:
                source, sql = self._changes(since, failures), self._version_sql if each_version else self._newest_sql
            with select_rows(self.settings, source, sql) as (_, batches):
                yield batches
        except duckdb.Error as error:
            if failures:
                raise failures[0] from None
            raise explain_failure(f"Sink {self.sink.name}", self.sink.of, self.ledger, error) from None

    def _all_rows(self, order: str) -> tuple[str | pa.RecordBatchReader, str]:
        version = TableVersion(self.sink.of, self.ledger.uri, self.ledger.version, None)
        return scan_sql(version), f"SELECT {self._selected}, false AS {GONE} FROM {SOURCE}{order}"

    def _changes(self, since: int, failures: list[ChangesGoneError]) -> pa.RecordBatchReader:
        return read_changes(self._table, self.ledger, since, [*self.columns], failures)

    @property
    def _newest_sql(self) -> str:
        # within a version, a removed file and an added one may have the same row
        order = f"{_CHANGE_VERSION} DESC, {GONE}"
        newest = f"{self._with_gone} QUALIFY row_number() OVER (PARTITION BY {self._key_sql} ORDER BY {order}) = 1"
        return f"SELECT {self._without_gone_values}, {GONE} FROM ({newest})"

    @property
    def _version_sql(self) -> str:
        row = f"row({', '.join(map(self._expression, self.columns))})"
        window = f"PARTITION BY {self._key_sql}, {_CHANGE_VERSION}"
        texts = (row, f"CAST({row} AS VARCHAR)")  # 0.0 and -0.0 are equal, but have other texts
        equal = (f"min({text}) OVER ({window}) = max({text}) OVER ({window})" for text in texts)
        is_equal = " AND ".join([f"count(*) OVER ({window}) > 1", *equal])
        last = f"row_number() OVER ({window} ORDER BY {GONE}) = 1"
        changes = f"{self._with_gone} QUALIFY {last} AND NOT ({is_equal})"
        columns = f"{self._without_gone_values}, {GONE}, {VERSION}"
        return f"SELECT {columns} FROM ({changes}) ORDER BY {VERSION}, {self._key_names}"

    @property
    def _with_gone(self) -> str:
        is_gone = f"{_CHANGE_TYPE} IN ('delete', 'update_preimage') AS {GONE}"
        return f"SELECT {self._selected}, {is_gone}, {_CHANGE_VERSION} AS {VERSION} FROM {SOURCE}"

    @property
    def _key_sql(self) -> str:
        return ", ".join(map(self._expression, self.identity.columns))

    @property
    def _key_names(self) -> str:
        return ", ".join(map(quoted_name, self.identity.columns))

    @property
    def _without_gone_values(self) -> str:
        names = {name: quoted_name(name) for name in self.columns}
        values = (
            name if column in self.identity.columns else f"CASE WHEN NOT {GONE} THEN {name} END AS {name}"
            for column, name in names.items()
        )
        return ", ".join(values)

    @property
    def _selected(self) -> str:
        return ", ".join(f"{self._expression(name)} AS {quoted_name(name)}" for name in self.columns)

    def _expression(self, name: str) -> str:
        """Return a column of the target in SQL; the record of a row as one text, with its parts after another."""
        if name != RECORD:
            return quoted_name(name)
        fields = {field.name for field in self._types[RECORD]}
        parts = (f"coalesce(CAST({RECORD}.{part} AS VARCHAR), '')" for part in _RECORD_FIELDS if part in fields)
        return " || '/' || ".join(parts)
