"""A table of PostgreSQL as the target of a sink: rows and progress change in one transaction.

A lock of the transaction allows one run at a time: the next one reads the progress that the first one committed. Rows
come through COPY into a temporary table, and from there into the target, so that its indexes, views and grants stay.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.declaration.sink import Sink
from lakehouse.errors import TableError
from lakehouse.ledger.audit import Finding
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.query.connections import quoted_name
from lakehouse.sinks.changed_rows import SourceRows
from lakehouse.sinks.copied_rows import Copied, column_type, copy_rows
from lakehouse.sinks.delivery import Delivery, Differences, SinkUpdate, TargetState, Written, as_of
from lakehouse.sinks.postgres_sql import STAGE, TargetSql
from lakehouse.sinks.progress import TargetProgress, open_connection, own_table, read_progress, table_of

if TYPE_CHECKING:
    from psycopg import Connection

_log = logging.getLogger(__name__)
_COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
    " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
)
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
            former_target = replace(target, source=as_of(target.source, consumption.version))
            with former_target.source.open(None) as batches:
                return self._finding(consumption.version, former_target.find_differences(batches))

    def statements(self) -> list[str]:
        """The statements of a first run and of each later one, without connecting."""
        return sql_of(self.source()).statements

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
    """A target in an open transaction; ``source`` are the rows of the table."""

    connection: "Connection[Any]"
    sink: Sink
    source: SourceRows

    @cached_property
    def sql(self) -> TargetSql:
        """The statements of the target."""
        return sql_of(self.source)

    @cached_property
    def _stored_types(self) -> Mapping[str, str]:
        """The columns that the target has now; none if it does not exist."""
        return dict(self._rows(_COLUMNS, self.sql.name))

    @cached_property
    def progress(self) -> TargetProgress | None:
        """What the target has; ``None`` if it does not exist yet. ``TableError`` if it belongs to something else."""
        return read_progress(self.connection, self.sink)

    @property
    def _is_new(self) -> bool:
        """Whether the target has to be created, first or because other columns identify its rows."""
        return self.progress is None or tuple(self.progress.identity) != self.sql.identity

    @cached_property
    def preparation(self) -> list[str]:
        """The statements that create the target, or change its columns to those of the sink; none if it has them.

        Raises ``TableError`` if somebody added a column of the same name.
        """
        if self._is_new or self.progress is None:
            return [*([f"DROP TABLE {self.sql.name}"] if self._stored_types else []), self.sql.create]
        foreign_names = self.sql.types.keys() & self._stored_types.keys() - {*self.progress.columns}
        if foreign_names:
            name = min(foreign_names)
            message = f"Sink {self.sink.name}: {self.sink.to.place} has a column {name} that no sink made"
            raise TableError(message, action="Rename that column, or leave it out with columns= of the sink.")
        own_names = [name for name in self.progress.columns if name in self._stored_types]
        former_names = [name for name in own_names if name not in self.sql.types]
        return self.sql.change_columns(self._stored_types, former_names)

    def replace_rows(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Bring the target from any state to these rows; one that is equal is not written.

        What blocks its readers comes last: changes of columns.
        """
        if not self._stored_types and not self.sql.unfit:
            self._run(self.sql.create)
            copied = self._copy(batches, self.sql.name)
            self._run(self.sql.add_identity)
            return Written(copied.rows, 0)
        self._stage(batches)
        for statement in (*self.preparation, *([self.sql.add_identity] if self._is_new else [])):
            self._run(statement)
        deleted = self._run(self.sql.delete_missing)
        rows = self._run(self.sql.upsert)
        self._note_unfit(is_whole=True)
        return Written(rows, deleted)

    def apply_changes(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write rows that changed, and delete those that are gone."""
        copied = self._stage(batches)
        deleted = self._run(self.sql.delete_gone) if copied.gone_rows else 0
        written = Written(self._run(self.sql.upsert) if copied.rows > copied.gone_rows else 0, deleted)
        self._note_unfit(is_whole=False)
        return written

    def _note_unfit(self, *, is_whole: bool) -> None:
        values = {"target": table_of(self.sink).full_name, "version": self.source.ledger.rows_version}
        count = 0
        for statement in self.sql.note_unfit(is_whole=is_whole) if self.sql.unfit else ():
            count = self.connection.execute(statement.encode(), values).rowcount
        if count > 0:
            _log.warning("Sink %s left out %s rows that PostgreSQL cannot hold", self.sink.name, f"{count:,}")

    def record_progress(self, consumed: Consumed, run: str) -> None:
        """Record that the target has a version of the table."""
        if self.progress is None:
            self._run(self.sql.create_progress)
        target, version = table_of(self.sink).full_name, (consumed.table_id, consumed.version, consumed.commit)
        values = (target, self.sink.name, *version, [*self.sql.types], [*self.sql.identity], run)
        self.connection.execute(self.sql.record_progress.encode(), values)

    def find_differences(self, batches: Iterable[pa.RecordBatch]) -> Differences:
        """Compare the target with these rows, in every value."""
        self._stage(batches)
        return Differences(*self._rows(self.sql.count_differences)[0])

    def _stage(self, batches: Iterable[pa.RecordBatch]) -> Copied:
        self._run(self.sql.create_stage)
        copied = self._copy(batches, STAGE, *self.sql.stage_columns)
        if copied.rows > _MANY_ROWS:
            self._run(f"ANALYZE {STAGE}")
        return copied

    def _copy(self, batches: Iterable[pa.RecordBatch], name: str, *more_columns: str) -> Copied:
        statement = self.sql.copy(name, *more_columns)
        with self.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            return copy_rows(batches, [*self.sql.types, *more_columns], self.sql.identity, copy.write)

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode(), values or None).fetchall()

    def _run(self, statement: str) -> int:
        """Run a statement; return the number of rows that it wrote or deleted."""
        return self.connection.execute(statement.encode()).rowcount


def sql_of(source: SourceRows) -> TargetSql:
    """Return the statements of the target of a sink, as its table is now."""
    table = table_of(source.sink)
    types = {name: column_type(type_) for name, type_ in source.columns.items()}
    name = ".".join(map(quoted_name, table.full_name.split(".")))
    unfit = own_table(table, "lakehouse_unfit") if source.sink.unfit == "leave_out" else ""
    return TargetSql(name, own_table(table), types, *source.identity, unfit)
