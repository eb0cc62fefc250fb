"""``Reject``: a rule that rejects records which could become rows."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Reject:
    """A rule that rejects a record by the values of its row; ``reason`` is the reason, a name of the user's own.

    ``when`` is a condition over the columns of the row, in the SQL of computed columns, so that no record makes it
    fail. ``unknown``, in place of it, is the name of a reference of the table: a record is rejected if no row of the
    reference has its values of the columns ``by``. A condition that is NULL, or a value that is NULL, rejects nothing.
    A record is judged once its values are converted, before lateness, and by the first rule that applies. The elements
    of ``rows_from`` are judged one by one. Deletes and truncates are not judged.
    """

    reason: str
    when: str | None = None
    unknown: str | None = None
    by: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The reason, by which errors name the rule."""
        return self.reason
