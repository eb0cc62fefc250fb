"""Whether the log of a table still shows its progress."""

from lakehouse.errors import LedgerError
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.restore_advice import restore_advice


def require_progress(ledger: Ledger, name: str) -> Ledger:
    """Return the ledger, or raise ``LedgerError`` if the log no longer shows the progress of the table."""
    if ledger.unknown_restore is not None:
        raise LedgerError(
            f"Cannot determine which version of {name} the RESTORE in version {ledger.unknown_restore} restored: it"
            " names no version, and no version in the log has the files of the table",
            where=ledger.uri,
            action=f"See and record the progress that its rows show: lakehouse recover-progress {name} - or restore the"
            f" intended version again, by its number. {restore_advice(ledger.uri)}",
        )
    if ledger.newest is None and ledger.transaction and not ledger.complete:
        raise LedgerError(
            f"The log of {name} no longer holds a commit that records its progress",
            where=ledger.uri,
            action=f"See and record the progress that its rows show with: lakehouse recover-progress {name}",
        )
    return ledger
