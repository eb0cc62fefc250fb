"""A table of a database as the target of a sink: rows and progress change in one transaction.

A lock of the transaction allows one run at a time: the next one reads the progress that the first one committed. Rows
are copied into a temporary table, and from there into the target, so that its indexes, views and grants stay.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lakehouse.declaration.sink import PostgresTable, Sink
from lakehouse.errors import TableError
from lakehouse.ledger.audit import Finding
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.sinks.changed_rows import SourceRows
from lakehouse.sinks.database_session import DatabaseSession, TargetProgress, table_of
from lakehouse.sinks.delivery import Delivery, Differences, SinkUpdate, TargetState, Written, as_of
from lakehouse.sinks.fit_rows import Copied, RowForm, TargetSql
from lakehouse.sinks.postgres_rows import PostgresRows
from lakehouse.sinks.progress import open_session
from lakehouse.sinks.sql_server_rows import SqlServerRows
from lakehouse.sinks.target_sql import PROGRESS_COLUMNS

_log = logging.getLogger(__name__)


class DatabaseDelivery(Delivery):
    """A sink whose target is a table of a database."""

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
        # in PostgreSQL, a transaction without the lock sees one moment
        with self._open(locked=not isinstance(self.sink.to, PostgresTable)) as target:
            consumption = self._state_of(target).consumption
            if consumption.version is None or not consumption.has_source:
                return self._finding(None)
            former_target = replace(target, source=as_of(target.source, consumption.version))
            with former_target.source.open(None) as batches:
                return self._finding(consumption.version, former_target.find_differences(batches))

    def statements(self) -> list[str]:
        """The statements of a first run and of each later one, without connecting."""
        sql = form_of(self.sink).sql(self.source())
        first = [sql.create, sql.copy(sql.name), sql.add_identity, sql.create_progress, sql.record_progress]
        unfit = sql.note_unfit(is_whole=False) if sql.unfit else []
        later = [sql.create_stage, sql.copy(sql.stage), sql.delete_gone, *sql.upsert, *unfit, sql.record_progress]
        return [*first, *later]

    def _state_of(self, target: "DatabaseTarget") -> TargetState:
        consumed = target.progress.consumed if target.progress else None
        has_other_columns = consumed is not None and bool(target.preparation)
        return self._state(target.source.ledger, consumed, has_other_columns=has_other_columns)

    @contextmanager
    def _open(self, *, locked: bool) -> "Iterator[DatabaseTarget]":
        """Open the target, and then read the ledger: with the lock, the target has no later version."""
        with open_session(self.settings, self.sink, locked=locked) as session:
            yield DatabaseTarget(session, self.sink, self.source())


@dataclass(frozen=True)
class DatabaseTarget:
    """A target in an open transaction; ``source`` are the rows of the table."""

    session: DatabaseSession
    sink: Sink
    source: SourceRows

    @cached_property
    def _form(self) -> RowForm:
        return form_of(self.sink)

    @cached_property
    def sql(self) -> TargetSql:
        """The statements of the target."""
        return self._form.sql(self.source)

    @cached_property
    def _stored_types(self) -> Mapping[str, str]:
        return self.session.stored_types()

    @property
    def progress(self) -> TargetProgress | None:
        """What the target has; ``None`` if it does not exist yet. ``TableError`` if it belongs to something else."""
        return self.session.progress

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
            return [*([f"DROP TABLE {self.sql.name}"] if self.progress else []), self.sql.create]
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
            copied = self._form.copy(self.session, self.sql, self.sql.name, batches)
            self._run(self.sql.add_identity)
            return Written(copied.rows, 0)
        self._stage(batches)
        for statement in (*self.preparation, *([self.sql.add_identity] if self._is_new else [])):
            self._run(statement)
        deleted = self._run(self.sql.delete_missing)
        rows = self._upsert()
        self._note_unfit(is_whole=True)
        return Written(rows, deleted)

    def apply_changes(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write rows that changed, and delete those that are gone."""
        copied = self._stage(batches)
        deleted = self._run(self.sql.delete_gone) if copied.gone_rows else 0
        written = Written(self._upsert() if copied.rows > copied.gone_rows else 0, deleted)
        self._note_unfit(is_whole=False)
        return written

    def _note_unfit(self, *, is_whole: bool) -> None:
        values = {"target": table_of(self.sink).full_name, "version": self.source.ledger.rows_version}
        count = 0
        for statement in self.sql.note_unfit(is_whole=is_whole) if self.sql.unfit else ():
            count = self.session.run(statement, values)
        if count > 0:
            product = table_of(self.sink).product
            _log.warning("Sink %s left out %s rows that %s cannot hold", self.sink.name, f"{count:,}", product)

    def record_progress(self, consumed: Consumed, run: str) -> None:
        """Record that the target has a version of the table."""
        if self.progress is None:
            self._run(self.sql.create_progress)
        target, version = table_of(self.sink).full_name, (consumed.table_id, consumed.version, consumed.commit)
        columns = map(self.session.progress_value, (self.sql.types, self.sql.identity))
        values = zip(("target", *PROGRESS_COLUMNS), (target, self.sink.name, *version, *columns, run), strict=True)
        self.session.run(self.sql.record_progress, dict(values))

    def find_differences(self, batches: Iterable[pa.RecordBatch]) -> Differences:
        """Compare the target with these rows, in every value."""
        self._stage(batches)
        return Differences(*self.session.rows(self.sql.count_differences)[0])

    def _stage(self, batches: Iterable[pa.RecordBatch]) -> Copied:
        self._run(self.sql.create_stage)
        copied = self._form.copy(self.session, self.sql, self.sql.stage, batches)
        if copied.rows > self.sql.many_rows:
            self._run(self.sql.prepare_stage)
        return copied

    def _upsert(self) -> int:
        return sum(map(self._run, self.sql.upsert))

    def _run(self, statement: str) -> int:
        return self.session.run(statement)


def form_of(sink: Sink) -> RowForm:
    """Return how rows are written for the database of a sink."""
    return PostgresRows() if isinstance(sink.to, PostgresTable) else SqlServerRows()
