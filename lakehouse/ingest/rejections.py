"""Which rejected records are still stored, which are unresolved, and how many, without a JVM.

Each batch names the version of their table that its commit was made with. If that version is gone, or a RESTORE undid
it, their records are in no table: the progress is behind them, so no batch reads them again.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from lakehouse.declaration import StreamTable
from lakehouse.declaration.sql import quoted
from lakehouse.errors import LakehouseError, LedgerError
from lakehouse.ledger.commit_infos import names_of_sources, progress_by_source
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.commits import OF_RECORDS, Commit
from lakehouse.ledger.consumption import has_consumed_version, version_to_consume
from lakehouse.ledger.ledger import Ledger, ledger_of
from lakehouse.ledger.log import open_rows, read_commit
from lakehouse.ledger.positions import Positions, source_words
from lakehouse.ledger.restores import named_version
from lakehouse.ledger.table_failures import log_failures
from lakehouse.ledger.versions import holds_files
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


def unresolved_sql(merged: Ledger, quote: Callable[[str], str] = quoted) -> str:
    """Return SQL for unresolved rejections: not pending, and not passed in a valid commit of the merged table.

    Pending are the positions at or after the progress of their source: their batch has not committed yet. Without a
    progress, all are pending, and so are those of a topic whose only progress was undone. ``quote`` writes text in the
    SQL of the caller.
    """
    commit = merged.newest.commit if merged.newest else None
    progress = progress_by_source(commit)
    if not progress:
        return "false"
    pending = [_pending_sql(quote(source.text), positions) for source, positions in sorted(progress.items())]
    names = {*names_of_sources(commit).values()} if commit else set()
    undone_topics = sorted(text for text, name in merged.undone_sources.items() if name not in names)
    pending += [_pending_sql(quote(text), {}) for text in undone_topics]
    return " AND NOT ".join([open_sql("", merged, quote), *pending])


def _pending_sql(source: str, positions: Positions) -> str:
    """Return the condition that a position is in a source, given in SQL, and not before these."""
    committed_ranges = [
        f"(position.partition = {p} AND position.position < {end})" for p, end in sorted(positions.items())
    ]
    return f"(position.source = {source} AND NOT ({' OR '.join(committed_ranges) or 'false'}))"


def open_sql(row: str, merged: Ledger, quote: Callable[[str], str] = quoted) -> str:
    """Return the condition that no valid commit of the merged table has a stored record."""
    is_unresolved = f"{row}resolved_table_id IS DISTINCT FROM {quote(merged.table_id)}"
    return f"({is_unresolved} OR {undone_sql(row, merged)})"


def undone_sql(row: str, merged: Ledger) -> str:
    """Return the condition that a stored record passed in a commit that the merged table no longer has.

    A RESTORE undid the commit, or the table was restored from a backup: then it reuses the numbers of later commits.
    """
    newest_number = next((e.commit.number for e in merged.entries if e.commit.kind in OF_RECORDS), merged.transaction)
    undone_numbers = ", ".join(map(str, sorted(merged.undone_numbers)))
    is_later = f"{row}resolved_number > {newest_number}"
    return f"({row}resolved_number IN ({undone_numbers}) OR {is_later})" if undone_numbers else f"({is_later})"


@dataclass(frozen=True)
class RejectionCounts:
    """How many stored rejected records are open, and how many are resolved. Pending records are neither."""

    open: int
    resolved: int


def count_rejected(settings: Settings, table: StreamTable, merged: Ledger) -> RejectionCounts | None:
    """Count the rejected records, without a JVM; ``None`` if their rows cannot be read.

    In that case, another version of lakehouse wrote the table, it has Delta features that only Spark reads, or some are
    lost.
    This is not an error, because the counts only accompany other figures. ``merged`` is the ledger of the merged table.
    The function does not read the bytes of the records.
    """
    uri = settings.table_uri(table.rejected_name)
    rejected_table = open_rows(uri)
    if find_lost_rejections(settings, table, merged):
        return None
    if rejected_table is None or not holds_files(uri):
        return RejectionCounts(0, 0)
    import duckdb  # noqa: PLC0415 - a table without rejected records does not need it

    with suppress(LakehouseError), log_failures(uri):
        ledger_of(settings, table.rejected_name)
        rows = rejected_table.to_pyarrow_table(columns=["position", "resolved_number", "resolved_table_id"])
        is_unresolved, is_resolved = unresolved_sql(merged, quoted_text), f"NOT {open_sql('', merged, quoted_text)}"
        with duckdb.connect(":memory:") as connection:
            connection.register("stored", rows)
            counts = f"count(*) FILTER (WHERE {is_unresolved}), count(*) FILTER (WHERE {is_resolved})"
            ((open_count, resolved_count),) = connection.execute(f"SELECT {counts} FROM stored").fetchall()
            return RejectionCounts(open_count, resolved_count)
    return None


def quoted_text(text: str) -> str:
    """A text literal in DuckDB's SQL, which has no escapes with a backslash."""
    return "'" + text.replace("'", "''") + "'"
