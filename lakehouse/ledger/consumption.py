"""Which version of a table its consumers have read: derived tables, and a merged table of its base rows or deletes."""

from lakehouse.ledger.commit_infos import identity_of
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.log import open_table, read_commit


def version_to_consume(ledger: Ledger) -> Consumed:
    """Return the version that a derived table consumes now: the newest one that may have changed a row."""
    info = read_commit(ledger.uri, ledger.rows_version)
    commit = identity_of(info) if info else None
    return Consumed(table_id=ledger.table_id, version=ledger.rows_version, commit=commit)


def has_consumed_version(ledger: Ledger, consumed: Consumed) -> bool:
    """Whether the consumed version is in this table, and was made by the same commit if that is known.

    It is not if the table was recreated or restored from a backup, because version numbers are then used again.
    """
    if consumed.table_id != ledger.table_id or consumed.version > ledger.version:
        return False
    info = read_commit(ledger.uri, consumed.version) if consumed.commit else None
    return info is None or identity_of(info) == consumed.commit


def is_consumed(ledger: Ledger, consumed: Consumed | None) -> bool:
    """Whether a consumer of that version has seen every row of the table."""
    return (
        consumed is not None
        and ledger.next_change(consumed.version) > ledger.version
        and has_consumed_version(ledger, consumed)
    )


def is_restored_before(consumed: Consumed | None, ledger: Ledger) -> bool:
    """Whether a table is older than the version that was consumed, as after a restore from a backup."""
    if consumed is None or consumed.table_id != ledger.table_id or consumed.version <= ledger.version:
        return False
    table = open_table(ledger.uri)  # another process may have committed since
    return table is not None and consumed.version > table.version()
