"""One attempt to write the files of a version of an export, from a fixed version of its table."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from lakehouse.declaration import Export
from lakehouse.errors import TableError
from lakehouse.exports.files import FilePlan, sync_names, write_files
from lakehouse.exports.leftovers import SPILL
from lakehouse.exports.manifests import STATE, ExportedFile, Manifest
from lakehouse.exports.rows import Selection, choose_columns, open_rows
from lakehouse.ledger.commit_infos import committed_at
from lakehouse.ledger.consumption import version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_version, read_commit
from lakehouse.ledger.versions import TableVersion
from lakehouse.query.connections import missing_files, refusal
from lakehouse.settings import Settings
from lakehouse.storage.row_changes import ChangesGoneError, read_change_batches


@dataclass(frozen=True)
class Attempt:
    """What one run is about to publish: every row of the table, or what changed after version ``since``.

    ``newest`` is the newest manifest; ``id`` is unique to the run, and part of the names of its files.
    """

    settings: Settings
    export: Export
    folder: Path
    ledger: Ledger
    newest: Manifest | None
    since: int | None
    id: str

    @property
    def version(self) -> int:
        """The version of the export that it publishes."""
        return (self.newest.version if self.newest else 0) + 1

    def write(self, run: str) -> Manifest:
        """Write the files; return the manifest that publishes them. Raises ``TableError`` if rows cannot be read."""
        failures: list[ChangesGoneError] = []
        spill = self.folder / STATE / f"{SPILL}{self.id}"
        form, sync = self.export.format, self.settings.sync
        plan = FilePlan(self.folder, self.export.name, self.version, self.id, form, sync)
        try:
            with open_rows(self.settings, self._select(failures), spill) as batches:
                files = list(write_files(batches, plan))
        except (duckdb.Error, ChangesGoneError) as error:
            reason = next(iter(failures), error)
            if isinstance(reason, ChangesGoneError):
                raise stop_error(self.export, self.folder, reason.what) from None
            raise self._explain(error) from None
        if sync:
            sync_names(self.folder, files)
        return self._manifest(files, run)

    def _select(self, failures: list[ChangesGoneError]) -> Selection:
        ledger = self.ledger
        table = open_version(ledger.uri, ledger.version)
        info = read_commit(ledger.uri, ledger.rows_version)
        version = TableVersion(self.export.of, ledger.uri, ledger.version, committed_at(info) if info else None)
        columns = choose_columns(self.export, table, ledger.uri)
        selection = Selection(self.export, version, ledger.rows_version, columns)
        if self.since is None:
            return selection
        return selection.of_changes(self._read_changes(self.since, table, selection.read_columns, failures))

    def _read_changes(
        self, since: int, table: DeltaTable, names: tuple[str, ...], failures: list[ChangesGoneError]
    ) -> pa.RecordBatchReader:
        """Read what changed; a failure while DuckDB reads the rows is kept, because DuckDB reports it as its own."""
        schema, batches = read_change_batches(table, self.ledger.uri, since, self.ledger.rows_version, names)

        def kept_failures() -> Iterator[pa.RecordBatch]:
            try:
                yield from batches
            except ChangesGoneError as error:
                failures.append(error)
                raise

        return pa.RecordBatchReader.from_batches(schema, kept_failures())

    def _manifest(self, files: list[ExportedFile], run: str) -> Manifest:
        is_whole = self.since is None or self.newest is None
        return Manifest(
            export=self.export.name,
            version=self.version,
            first=self.version if is_whole or self.newest is None else self.newest.first,
            kind="whole" if is_whole else "changes",
            attempt=self.id,
            table=self.export.of,
            consumed=version_to_consume(self.ledger),
            since_version=self.since,
            format=self.export.format,
            declaration=self.export.fingerprint,
            committed_at=datetime.now(UTC),
            run=run,
            rows=sum(file.rows for file in files),
            files=tuple(files),
        )

    def _explain(self, error: Exception) -> TableError:
        """Return an error of DuckDB as one that names the export."""
        query_error = duckdb.Error(str(error))
        version = TableVersion(self.export.of, self.ledger.uri, self.ledger.version, None)
        missing_error = missing_files(query_error, [version])
        problem = f"Export {self.export.name} cannot read {self.export.of}"
        message = missing_error.what if missing_error else refusal(query_error, "", problem).what
        return TableError(message, where=str(self.folder), action="Nothing was published. Run it again.")


def stop_error(export: Export, folder: Path, reason: str) -> TableError:
    """Return the error of an export whose changes cannot be continued."""
    action = f"Start again with all rows: lakehouse export {export.name} --whole"
    return TableError(f"Export {export.name} cannot continue: {reason}", where=str(folder), action=action)
