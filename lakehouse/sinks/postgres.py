"""A table of PostgreSQL as the target of a sink: rows and progress change in one transaction.

A lock of the transaction allows one run at a time: the next one reads the progress that the first one committed. Rows
come through COPY into a temporary table, and from there into the target, so that its indexes, views and grants stay.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.declaration.sink import Sink
from lakehouse.errors import TableError
from lakehouse.ledger.audit import Finding
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.query.connections import quoted_name
from lakehouse.sinks.changed_rows import GONE, SourceRows
from lakehouse.sinks.copied_rows import Copied, column_type, copy_rows
from lakehouse.sinks.delivery import Delivery, Differences, SinkUpdate, TargetState, Written, as_of
from lakehouse.sinks.progress import TargetProgress, open_connection, read_progress, table_of, table_of_progress

if TYPE_CHECKING:
    from psycopg import Connection

_COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
    " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
)
_STAGE = "lakehouse_stage"
_MANY_ROWS = 10_000  # with fewer, a plan without statistics is as quick


class PostgresDelivery(Delivery):
    """A sink whose target is a table of PostgreSQL."""

    def look(self) -> TargetState:
        """Look how far the target is."""
        with self._open(locked=False) as target:
            return self._state_of(target)

    def deliver(self, run: str, reason: str | None) -> SinkUpdate:
        """Bring the target to the newest version in one transaction."""
        with self._open(locked=True) as target:
            state = self._state_of(target)
            state = state._replace(reason=reason or state.reason)
            consumed = state.consumption.consumed
            if consumed and not state.reason and state.consumption.is_current:
                return self._describe(consumed, None, Written(0, 0))
            self.announce(state)
            with target.source.open(None if state.reason else state.consumption.version) as batches:
                written = target.replace_rows(batches) if state.reason else target.apply_changes(batches)
            consumed = version_to_consume(target.source.ledger)
            target.record_progress(consumed, run)
        return self._describe(consumed, "whole" if state.reason else "changes", written)

    def equals_table(self) -> Finding:
        """Compare every value of the target with the version of the table that it has."""
        with self._open(locked=False) as target:
            consumption = self._state_of(target).consumption
            if consumption.version is None or not consumption.has_source:
                return self._finding(None)
            with as_of(target.source, consumption.version).open(None) as batches:
                return self._finding(consumption.version, target.find_differences(batches))

    def _state_of(self, target: "PostgresTarget") -> TargetState:
        consumed = target.progress.consumed if target.progress else None
        has_other_columns = consumed is not None and bool(target.preparation)
        return self._state(target.source.ledger, consumed, has_other_columns=has_other_columns)

    @contextmanager
    def _open(self, *, locked: bool) -> "Iterator[PostgresTarget]":
        """Open the target, and then read the ledger: with the lock, the target has no later version."""
        with open_connection(self.settings, self.sink, locked=locked) as connection:
            yield PostgresTarget(connection, self.sink, self.source())


@dataclass(frozen=True)
class PostgresTarget:
    """An open transaction that holds the lock of the target; ``source`` are the rows of the table."""

    connection: "Connection[Any]"
    sink: Sink
    source: SourceRows

    @property
    def _name(self) -> str:
        return ".".join(map(quoted_name, table_of(self.sink).full_name.split(".")))

    @cached_property
    def _stored_types(self) -> Mapping[str, str]:
        """The columns that the target has now; none if it does not exist."""
        return dict(self._rows(_COLUMNS, self._name))

    @cached_property
    def _types(self) -> Mapping[str, str]:
        return {name: column_type(type_) for name, type_ in self.source.columns.items()}

    @cached_property
    def progress(self) -> TargetProgress | None:
        """What the target has; ``None`` if it does not exist yet. ``TableError`` if it belongs to something else."""
        return read_progress(self.connection, self.sink, exists=bool(self._stored_types))

    @property
    def _is_new(self) -> bool:
        """Whether the target has to be created, first or because other columns identify its rows."""
        return self.progress is None or tuple(self.progress.identity) != self.source.target_identity

    @cached_property
    def preparation(self) -> list[str]:
        """The statements that create the target, or change its columns to those of the sink; none if it has them.

        Raises ``TableError`` if somebody added a column of the same name.
        """
        stored_types = self._stored_types
        if self._is_new or self.progress is None:
            drop = [f"DROP TABLE {self._name}"] if stored_types else []
            return [*drop, f"CREATE TABLE {self._name} ({_definitions(self._types)})"]
        foreign_names = [name for name in self._types if name in stored_types and name not in self.progress.columns]
        if foreign_names:
            message = f"Sink {self.sink.name}: {self.sink.to.place} has a column {foreign_names[0]} that no sink made"
            raise TableError(message, action="Rename that column, or leave it out with columns= of the sink.")
        former_names = [name for name in self.progress.columns if name in stored_types and name not in self._types]
        actions = [f"DROP COLUMN {quoted_name(name)}" for name in former_names]
        for name, type_ in self._types.items():
            if name not in stored_types:
                actions.append(f"ADD COLUMN {_definitions({name: type_})}")
            elif stored_types[name] != type_:
                actions.append(self._change_type(name, type_))
        return [f"ALTER TABLE {self._name} {', '.join(actions)}"] if actions else []

    def _change_type(self, name: str, type_: str) -> str:
        """Return the action that changes the type of a column; values are written afterwards, except those of a key."""
        value = quoted_name(name) if name in self.source.target_identity else "NULL"
        return f"ALTER COLUMN {quoted_name(name)} TYPE {type_} USING {value}::{type_}"

    def replace_rows(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Bring the target from any state to these rows; one that is equal is not written.

        What blocks its readers comes last: changes of columns.
        """
        if not self._stored_types:
            self._run(self.preparation[0])
            copied = self._copy(batches, self._name)
            self._run(self._identity_statement)
            return Written(copied.rows, 0)
        self._stage(batches)
        for statement in (*self.preparation, *([self._identity_statement] if self._is_new else [])):
            self._run(statement)
        missing = f"NOT EXISTS (SELECT FROM {_STAGE} s WHERE {self._same_identity})"
        deleted = self._run(f"DELETE FROM {self._name} t WHERE {missing}")
        return Written(self._run(self._upsert), deleted)

    def apply_changes(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write rows that changed, and delete those that are gone."""
        copied, deleted = self._stage(batches), 0
        if copied.gone_rows:
            condition = f"s.{GONE} AND {self._same_identity}"
            deleted = self._run(f"DELETE FROM {self._name} t USING {_STAGE} s WHERE {condition}")
        return Written(self._run(self._upsert) if copied.rows > copied.gone_rows else 0, deleted)

    def record_progress(self, consumed: Consumed, run: str) -> None:
        """Record that the target has a version of the table."""
        name = table_of_progress(table_of(self.sink))
        if self.progress is None:
            self._run(
                f"CREATE TABLE IF NOT EXISTS {name} (target text PRIMARY KEY, sink text NOT NULL,"
                " table_id text NOT NULL, version bigint NOT NULL, commit_id text, columns text[] NOT NULL,"
                " identity text[] NOT NULL, run text NOT NULL, updated_at timestamptz NOT NULL)"
            )
        names = ("sink", "table_id", "version", "commit_id", "columns", "identity", "run", "updated_at")
        values = (self.sink.name, consumed.table_id, consumed.version, consumed.commit)
        lists = ([*self.source.columns], [*self.source.target_identity])
        self.connection.execute(
            f"INSERT INTO {name} (target, {', '.join(names)})"
            f" VALUES (%s, %s, %s, %s, %s, %s, %s, %s, now()) ON CONFLICT (target) DO UPDATE SET"
            f" {', '.join(f'{name} = excluded.{name}' for name in names)}".encode(),
            (table_of(self.sink).full_name, *values, *lists, run),
        )

    def find_differences(self, batches: Iterable[pa.RecordBatch]) -> Differences:
        """Compare the target with these rows, in every value."""
        self._stage(batches)
        both = f"t.ctid IS NOT NULL AND s.ctid IS NOT NULL AND {self._differs_from('s')}"
        conditions = ("t.ctid IS NULL", "s.ctid IS NULL", both)
        counts = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in conditions)
        joined = f"{_STAGE} s FULL JOIN {self._name} t ON {self._same_identity}"
        return Differences(*self._rows(f"SELECT {counts} FROM {joined}")[0])

    @property
    def _identity_statement(self) -> str:
        """The statement that makes the identity unique; groups of a rollup may have NULL, all others have none."""
        names = ", ".join(map(quoted_name, self.source.target_identity))
        if self.source.identity.can_be_null:
            return f"CREATE UNIQUE INDEX ON {self._name} ({names}) NULLS NOT DISTINCT"
        return f"ALTER TABLE {self._name} ADD PRIMARY KEY ({names})"

    @property
    def _same_identity(self) -> str:
        """The condition that a row of the target and one of the stage have the same identity."""
        names = [*map(quoted_name, self.source.target_identity)]
        if self.source.identity.can_be_null:  # as text, NULL equals NULL, and many rows can be joined at once
            return f"{_row('t', names)}::text = {_row('s', names)}::text"
        return " AND ".join(f"t.{name} = s.{name}" for name in names)

    def _differs_from(self, row: str) -> str:
        """The condition that a value of the target differs from that of another ``row``; 0.0 and -0.0 differ too."""
        names = [*map(quoted_name, self.source.columns)]
        return f"{_row('t', names)}::text IS DISTINCT FROM {_row(row, names)}::text"

    @property
    def _upsert(self) -> str:
        names = [*map(quoted_name, self.source.columns)]
        identity = [*map(quoted_name, self.source.target_identity)]
        changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in identity)
        update = f"UPDATE SET {changes} WHERE {self._differs_from('excluded')}" if changes else "NOTHING"
        rows = f"SELECT {', '.join(names)} FROM {_STAGE} s WHERE NOT s.{GONE}"
        conflict = f"ON CONFLICT ({', '.join(identity)}) DO {update}"
        return f"INSERT INTO {self._name} AS t ({', '.join(names)}) {rows} {conflict}"

    def _stage(self, batches: Iterable[pa.RecordBatch]) -> Copied:
        definitions = _definitions({**self._types, GONE: "boolean"})
        self._run(f"CREATE TEMPORARY TABLE {_STAGE} ({definitions}) ON COMMIT DROP")
        copied = self._copy(batches, _STAGE, (GONE,))
        if copied.rows > _MANY_ROWS:
            self._run(f"ANALYZE {_STAGE}")
        return copied

    def _copy(self, batches: Iterable[pa.RecordBatch], name: str, more_columns: Sequence[str] = ()) -> Copied:
        columns = [*self.source.columns, *more_columns]
        statement = f"COPY {name} ({', '.join(map(quoted_name, columns))}) FROM STDIN (FORMAT csv)"
        with self.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            return copy_rows(batches, columns, self.source.target_identity, copy.write)

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode(), values or None).fetchall()

    def _run(self, statement: str) -> int:
        """Run a statement; return the number of rows that it wrote or deleted."""
        return self.connection.execute(statement.encode()).rowcount


def _row(table: str, names: Iterable[str]) -> str:
    return f"ROW({', '.join(f'{table}.{name}' for name in names)})"


def _definitions(types: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted_name(name)} {type_}" for name, type_ in types.items())
