"""Bounds: positions and orders in the source that a commit names, and that decide about all rows of its table."""

from typing import NamedTuple

from lakehouse.ledger.commit_values import RecordOrder
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import source_words


class ChangeBounds(NamedTuple):
    """Positions and orders that decide about all rows, as in ``Commit``; ``None`` if there are none.

    Changes of one partition before the position ``snapshot`` are compared by their offset alone. Rows before
    ``truncate`` are deleted. Of the deletes up to ``purged``, some are no longer known.
    """

    snapshot: int | None = None
    truncate: RecordOrder | None = None
    purged: RecordOrder | None = None

    @property
    def are_of_changes(self) -> bool:
        """Whether they have a position in the log of a database, as those of a change stream.

        The sequence of the rows of another table is its version.
        """
        orders = [
            order for order in (self.truncate, self.purged) if order and source_words(order.source).source != "table"
        ]
        return self.snapshot is not None or any(order.sequence is not None for order in orders)


NO_BOUNDS = ChangeBounds()


def bounds_of(commit: Commit) -> ChangeBounds:
    """Return what decides about all rows of a commit."""
    return ChangeBounds(commit.snapshot_position, commit.truncate, commit.purged)


def bounds_after(ledger: Ledger) -> ChangeBounds:
    """Return what decides about all rows that a table has now."""
    return bounds_of(ledger.newest.commit) if ledger.newest else NO_BOUNDS
