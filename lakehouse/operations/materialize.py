"""Stores the rows of materialized views: DuckDB computes them from fixed versions of their tables, without a JVM."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from lakehouse.declaration import View
from lakehouse.declaration.view import ViewInputs, find_inputs, fingerprint_view
from lakehouse.errors import LakehouseError, TableError
from lakehouse.ledger.commits import Commit, Entry
from lakehouse.ledger.consumption import Consumption, version_to_consume
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.operations.readers import find_news, require_local_tables, view_consumptions
from lakehouse.query.connections import quoted_name, view_refusal
from lakehouse.query.queries import open_versions
from lakehouse.settings import Settings
from lakehouse.storage.delta_rs_writer import create_with_rows, replace_all
from lakehouse.storage.layout import Layout
from lakehouse.storage.table_context import retry_on_conflict

_BATCH_ROWS = 20_000  # rows that DuckDB hands over at a time


@dataclass(frozen=True)
class ViewUpdate:
    """The result of one update of a materialized view.

    ``versions`` are those of its tables that its rows correspond to. ``rows`` is the number of rows that were written;
    ``None`` if there was no news, so that nothing was written.
    """

    name: str
    version: int
    versions: dict[str, int]
    rows: int | None


@dataclass(frozen=True)
class Materialization:
    """A materialized view in an environment, with the declared views, of which it may read some."""

    settings: Settings
    view: View
    views: Sequence[View]

    @property
    def inputs(self) -> ViewInputs:
        """What the view is computed from."""
        return find_inputs(self.view, self.views)

    def update(self, run: str = "cli") -> ViewUpdate:
        """Compute every row as of the newest versions of its tables; write nothing if there is no news.

        There is news if a row of one of the tables may have changed, if the query changed, or if another program or a
        RESTORE changed the stored rows. Raises ``TableError`` if one of the tables does not exist yet, if the tables
        are not on a local disk, or if the query fails for a row. Nothing is written then.
        """
        return retry_on_conflict(lambda: self._update(run))

    @property
    def waits_for(self) -> str | None:
        """The first of its tables that does not exist yet, if the view was never stored."""
        if ledger_of(self.settings, self.view.name).exists:
            return None
        return next((name for name in self.inputs.tables if not ledger_of(self.settings, name).exists), None)

    def find_news(self) -> tuple[str, ...]:
        """Return the names of the tables with rows that are not consumed; that of the view if it has to be stored."""
        return find_news(self.view, self.views, *self._read_consumptions())

    def _update(self, run: str) -> ViewUpdate:
        own_ledger, consumptions = self._read_consumptions()
        ledgers = {name: consumption.source for name, consumption in consumptions.items()}
        versions = {name: ledger.rows_version for name, ledger in ledgers.items()}
        if not find_news(self.view, self.views, own_ledger, consumptions):
            return ViewUpdate(self.view.name, own_ledger.version, versions, None)
        failures: list[Exception] = []
        try:
            with open_versions(self.settings, {name: ledger.version for name, ledger in ledgers.items()}) as connection:
                entry = self._store(self._compute(connection, failures), own_ledger, ledgers, run)
        except duckdb.Error as error:
            raise self._explain(error) from error
        except LakehouseError:
            if failures:
                raise self._explain(failures[0]) from failures[0]
            raise
        return ViewUpdate(self.view.name, entry.version, versions, entry.metrics.inserted)

    def _store(self, rows: pa.RecordBatchReader, own_ledger: Ledger, ledgers: Mapping[str, Ledger], run: str) -> Entry:
        name, settings = self.view.name, self.settings
        layout = Layout(name, settings.table_uri(name), self.view.doc, (), declaration_name=name, sync=settings.sync)
        consumed_tables = {table: version_to_consume(ledger) for table, ledger in ledgers.items()}
        fingerprint = fingerprint_view(self.view, self.inputs)

        def plan(ledger: Ledger) -> Commit:
            commit = ledger.next_commit("derived", run)
            return commit.with_fields(consumed_tables=consumed_tables, declaration=fingerprint)

        if not own_ledger.exists:
            return create_with_rows(layout, rows, plan)
        return replace_all(layout, rows, plan(own_ledger))

    def _read_consumptions(self) -> tuple[Ledger, dict[str, Consumption]]:
        """Read the ledger of the view, then those of its tables: a run that ends meanwhile stores newer rows.

        This run is planned on the ledger before them, so it replaces none.
        """
        require_local_tables(self.settings, self.view)
        own_ledger = ledger_of(self.settings, self.view.name)
        return own_ledger, view_consumptions(self.settings, self.view, self.views, own_ledger)

    def _compute(self, connection: duckdb.DuckDBPyConnection, failures: list[Exception]) -> pa.RecordBatchReader:
        """Start the query; a failure while its rows are read is kept, because the writer reports it as its own."""
        for view in self.inputs.views:
            connection.execute(f"CREATE VIEW {quoted_name(view.name)} AS {view.sql}")
        reader = connection.execute(self.view.sql).to_arrow_reader(_BATCH_ROWS)

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from reader
            except (duckdb.Error, OSError, pa.ArrowException) as error:
                failures.append(error)
                raise

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    def _explain(self, error: Exception) -> TableError:
        """Return an error of DuckDB as one that names the view."""
        problem = f"View {self.view.name} cannot be computed"
        query_error = view_refusal(duckdb.Error(str(error)), "Correct sql= of the view, or the rows.", problem)
        return TableError(query_error.what, where=self.settings.table_uri(self.view.name), action=query_error.action)
