"""Deletes: the newest delete of each key, in a table of its own, so that no older record brings a deleted row back.

Each commit of the merged table names the version of the table of deletes that counts. A batch first stores its deletes
in a new version, then merges its rows in a commit that names this version. If it crashes in between, or if the merged
table is restored, the newest deletes do not count: before anything else, the next batch restores the version that does.
"""

from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from lakehouse.declaration import StreamTable, Upkeep
from lakehouse.declaration.names import RECORD
from lakehouse.declaration.table_parts import TableParts
from lakehouse.decoding import staged
from lakehouse.errors import ConflictError, LedgerError
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.consumption import has_consumed_version, version_to_consume
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table, read_commit
from lakehouse.ledger.restores import named_version
from lakehouse.ledger.versions import holds_files
from lakehouse.settings import Settings
from lakehouse.storage.layout import NO_VERSION, Layout
from lakehouse.storage.row_order import merged_layout, order_columns, version_fields
from lakehouse.storage.stored_table import ExpectedRows, StoredTable
from lakehouse.storage.table_context import TableContext


@dataclass(frozen=True)
class Deletes:
    """The table of deletes at the version that counts."""

    stored_table: StoredTable
    ledger: Ledger
    counted_version: Consumed

    @property
    def rows(self) -> DataFrame | None:
        """The deletes that count, one row for each key; ``None`` if there are none."""
        uri, version = self.stored_table.layout.uri, self.ledger.version
        table = open_table(uri)
        if table is not None and table.version() == version and not holds_files(uri):
            return None
        # compaction does not change the rows, but VACUUM deletes the files of the version that counts
        return self.stored_table.rows_covering(version, None)


def deletes_layout(table: StreamTable, settings: Settings) -> Layout:
    """Return the layout of the deletes: one row for each key that a record ever deleted, with its newest delete."""
    doc = f"Deletes of {table.name}: the newest delete of each key. A row of {table.name} with its key is newer."
    layout = merged_layout(_as_table(table), settings)
    version = table.version_text or NO_VERSION
    return replace(
        layout,
        doc=doc,
        declaration_name=table.name,
        change_data=False,
        declaration_facts="",
        kept_version_column=version,
    )


def _as_table(table: StreamTable) -> TableParts:
    """Return the declaration of the table of deletes: a merged table whose only values are its order."""
    columns = [column for column in table.columns if column.name in (*table.key, *table.version_columns)]
    return _DeletesParts(
        table.deletes_name,
        table.topic,
        "",
        columns,
        table.key,
        source=table.source,
        version=table.version,
        upkeep=Upkeep(retention=table.upkeep.retention),
        format=table.format,
        rows_from=table.rows_from,
    )


class _DeletesParts(TableParts):
    """The declaration of a table of deletes, none of whose own rows is ever deleted."""

    @property
    def delete_rule(self) -> None:
        """No record deletes a row."""
        return


def settle_deletes(context: TableContext, ledger: Ledger) -> Deletes:
    """Return the deletes that count for the merged table of this ledger; the table declares some.

    If newer deletes are stored, restores the version that counts, once. Raises ``LedgerError`` if it no longer exists,
    and ``ConflictError`` if another writer stored deletes at the same moment.
    """
    stored_table = context.stored_table(deletes_layout)
    deletes_ledger = stored_table.ledger()
    if _counted_version(ledger, deletes_ledger) < deletes_ledger.rows_version:
        deletes_ledger = _restore_counted(stored_table, ledger)
    return Deletes(stored_table, deletes_ledger, version_to_consume(deletes_ledger))


def _restore_counted(stored_table: StoredTable, ledger: Ledger) -> Ledger:
    """Restore the deletes to the version that counts, if deletes were stored or restored since; return their ledger."""
    deletes_ledger = stored_table.ledger(whole=True)
    counted_version = _counted_version(ledger, deletes_ledger)
    last_version = deletes_ledger.next_change(counted_version) - 1
    if not _has_other_deletes(deletes_ledger, counted_version, last_version):
        return deletes_ledger
    try:
        stored_table.restore(last_version)
    except PySparkException as error:
        raise _missing_error(deletes_ledger, last_version) from error
    stored_table.ensure()  # a restore takes back columns that were added since
    restored_ledger = stored_table.ledger()
    if _has_other_deletes(restored_ledger, counted_version, last_version):
        raise conflict_error(stored_table.layout.name)
    return restored_ledger


def _has_other_deletes(ledger: Ledger, counted_version: int, last_version: int) -> bool:
    """Whether the newest rows are not those of the version that counts, apart from what other programs changed.

    They are if the newest change is a RESTORE of that version, or if only other programs committed since: a person may
    erase deletes.
    """
    newest_info = read_commit(ledger.uri, ledger.rows_version)
    if newest_info and str(newest_info.get("operation")) == "RESTORE" and named_version(newest_info) == last_version:
        return False
    is_stored = any(entry.version > counted_version and entry.commit.kind == "deletes" for entry in ledger.entries)
    return is_stored or any(part.version > counted_version and part.operation == "RESTORE" for part in ledger.foreign)


def _missing_error(ledger: Ledger, version: int) -> LedgerError:
    return LedgerError(
        f"The merged table needs the deletes of version {version}, which are missing",
        where=ledger.uri,
        action="Restore both tables from the same backup, or delete the folders of both and merge the topic again."
        " Without their deletes, deleted rows could come back.",
    )


def conflict_error(name: str) -> ConflictError:
    """Return the error of a table that another writer changed during a batch."""
    message = f"Another writer changed {name} at the same moment"
    return ConflictError(message, where=name, action="Nothing was merged. Run it again.")


def _counted_version(ledger: Ledger, deletes_ledger: Ledger) -> int:
    """Return the version of the deletes that the newest commit of the merged table names.

    Without such a commit, or if it names none, there were no deletes: it was made before they were declared. That is
    version 0.
    """
    named_deletes = ledger.newest.commit.deletes_table if ledger.newest else None
    if named_deletes is None:
        return 0
    if not has_consumed_version(deletes_ledger, named_deletes):
        raise _missing_error(deletes_ledger, named_deletes.version)
    return named_deletes.version


def as_stored_deletes(table: TableParts, rows: DataFrame) -> DataFrame:
    """Return the delete (``_delete``) of each of these rows, which is the newest of its key, as it is stored."""
    record = ", ".join(f"{staged.DELETE}.{field.name}" for field in order_columns(table))
    versions = (f"{staged.DELETE}.{field} AS `{name}`" for field, name in version_fields(table).items())
    rows = rows.selectExpr(*(f"`{name}`" for name in table.key), *versions, f"struct({record}) AS {RECORD}")
    return rows.withColumn(staged.REMOVES, F.lit(False))


def store_deletes(deletes: Deletes, rows: DataFrame, expected: ExpectedRows, commit: Commit) -> Consumed:
    """Store deletes, one for each key, or remove those with a true ``_removes``; return the new version.

    Raises ``ConflictError`` if another writer was first: its deletes do not count.
    """
    stored_table = deletes.stored_table
    deletes_commit = deletes.ledger.next_commit("deletes", commit.run).with_fields(source=commit.source)
    entry = stored_table.upsert(rows, stored_table.layout.key, staged.REMOVES, deletes_commit, expected)
    ledger = stored_table.ledger()
    if entry.version != deletes_commit.table_version + 1 or ledger.next_change(entry.version) <= ledger.version:
        raise conflict_error(stored_table.layout.name)
    return version_to_consume(ledger)
