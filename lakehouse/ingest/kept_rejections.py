"""Whether the rejected records that the merged table was committed with are still stored.

Each batch names the version of their table that its commit was made with. If that version is gone, or a RESTORE undid
it, their records are in no table: the progress is behind them, so no batch reads them again.
"""

from lakehouse.declaration import StreamTable
from lakehouse.errors import LedgerError
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.consumption import has_consumed_version, version_to_consume
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.log import read_commit
from lakehouse.ledger.positions import source_words
from lakehouse.ledger.restores import named_version
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext


def find_lost_rejections(settings: Settings, table: StreamTable, merged: Ledger) -> LedgerError | None:
    """Return what is lost and how to repair it; ``None`` if the rejected records are those of the newest commit."""
    if merged.newest is None or merged.newest.commit.rejected_table is None:
        return None
    return _find_loss(table, merged, ledger_of(settings, table.rejected_name))


def _find_loss(table: StreamTable, merged: Ledger, rejected_ledger: Ledger) -> LedgerError | None:
    commit = merged.newest.commit if merged.newest else None
    if commit is None or commit.rejected_table is None:
        return None
    if rejected_ledger.exists and _has_kept(rejected_ledger, commit.rejected_table):
        return None
    source = source_words(commit.source).source
    return LedgerError(
        f"{table.name} was merged with version {commit.rejected_table.version} of {table.rejected_name}, which is gone:"
        " rejected records are missing",
        where=rejected_ledger.uri,
        action=f"Restore both tables from the same backup, or decide all records again: lakehouse replay {table.name}."
        f" Records that the {source} no longer holds stay lost.",
    )


def require_kept_rejections(context: TableContext) -> None:
    """Raise ``LedgerError`` if rejected records are lost."""
    error = find_lost_rejections(context.settings, context.table, context.ledger())
    if error:
        raise error


def name_rejections(context: TableContext, ledger: Ledger, commit: Commit) -> Commit:
    """Return the commit of a batch with the version of the rejected records that are stored now.

    Raises ``LedgerError`` if those of the commit before are lost: the name of another table would hide it.
    """
    rejected_ledger = ledger_of(context.settings, context.table.rejected_name)
    error = _find_loss(context.table, ledger, rejected_ledger)
    if error:
        raise error
    former, version = commit.rejected_table, (rejected_ledger.table_id, rejected_ledger.rows_version)
    if not rejected_ledger.exists or (former and (former.table_id, former.version) == version):
        return commit
    return commit.with_fields(rejected_table=version_to_consume(rejected_ledger))


def settle_rejections(context: TableContext) -> None:
    """Record, after all records were decided again, that the rejected records which are stored now count."""
    ledger = context.ledger()
    if find_lost_rejections(context.settings, context.table, ledger):
        reason = f"All records were replayed, because {context.table.rejected_name} had lost some."
        fields = {"rejected_table": stored_rejections(context), "reason": reason}
        context.merged.commit_nothing(ledger.next_commit("acceptance", context.run).with_fields(**fields))


def stored_rejections(context: TableContext) -> Consumed | None:
    """Return the version of the rejected records that are stored now; ``None`` if there is no table."""
    ledger = ledger_of(context.settings, context.table.rejected_name)
    return version_to_consume(ledger) if ledger.exists else None


def _has_kept(ledger: Ledger, version: Consumed) -> bool:
    """Whether the table has this version, and no RESTORE went back to before it."""
    later_restores = (p.version for p in ledger.foreign if p.version > version.version and p.operation == "RESTORE")
    return has_consumed_version(ledger, version) and not any(
        _goes_before(ledger.uri, restore, version.version) for restore in later_restores
    )


def _goes_before(uri: str, restore: int, version: int) -> bool:
    """Whether a RESTORE went back to before a version; one that names a time may have."""
    info = read_commit(uri, restore)
    restored_version = named_version(info) if info else None
    return restored_version is None or restored_version < version
