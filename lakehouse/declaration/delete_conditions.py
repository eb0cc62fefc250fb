"""How a declaration says which records delete the row of their key."""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse.decoding.deletes import DeleteValue


@dataclass(frozen=True)
class Tombstone:
    """A record without a value deletes the row of its key: a tombstone. Every key column is read from the record key.

    If it has a ``version``, that is read from a header, since a tombstone has no fields.
    """


@dataclass(frozen=True)
class FieldIs:
    """A record deletes the row of its key if a field has one of these values, for example ``operation`` is ``DELETE``.

    ``source`` is the name of the field, or the path to it, as the ``source`` of a column. It need not be a column. Of
    such a record, only the key and the version are read: no other field must be present.
    """

    source: str | Sequence[str]
    values: Sequence[DeleteValue]

    @property
    def path(self) -> tuple[str, ...]:
        """The names that lead to the field."""
        return (self.source,) if isinstance(self.source, str) else tuple(self.source)
