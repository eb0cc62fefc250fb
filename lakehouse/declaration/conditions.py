"""Which records delete, which belong to a table, and which of them it rejects."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from lakehouse.decoding.deletes import DeleteValue
from lakehouse.decoding.record_filter import RecordFilter
from lakehouse.decoding.record_parts import SCHEMA, VALUE, ParentField, RecordHeader


@dataclass(frozen=True)
class Tombstone:
    """A record without a value deletes the row of its key: a tombstone. Every key column is read from the record key.

    If it has a ``version``, that is read from a header, since a tombstone has no fields.
    """


@dataclass(frozen=True)
class FieldIs:
    """A field of the record has one of these values, for example ``operation`` is ``DELETE``.

    ``source`` is the name of the field, or the path to it, as the ``source`` of a column. It need not be a column. Of a
    record that deletes, only the key and the version are read: no other field must be present. With ``rows_from``, the
    name or path begins in the element, and ``ParentField(...)`` names a field of the record: it deletes all its rows.
    """

    source: str | Sequence[str] | ParentField
    values: Sequence[DeleteValue]

    @property
    def path(self) -> tuple[str, ...]:
        """The names that lead to the field."""
        if isinstance(self.source, ParentField):
            return self.source.path
        return (self.source,) if isinstance(self.source, str) else tuple(self.source)

    @property
    def record_filter(self) -> RecordFilter:
        """The rule for the records that meet the condition."""
        return RecordFilter(VALUE, self.path, tuple(self.values))


@dataclass(frozen=True)
class FieldExists(FieldIs):
    """A field of the record is present and not null, for example one of those of a union."""

    values: Sequence[DeleteValue] = field(default=(), init=False, repr=False)


@dataclass(frozen=True)
class HeaderIs:
    """The newest header with a name has one of these texts, for example ``event-type`` is ``order.placed``."""

    name: str
    values: Sequence[str]

    @property
    def record_filter(self) -> RecordFilter:
        """The rule for the records that meet the condition."""
        return RecordFilter(RecordHeader(self.name).part, (), tuple(self.values))


@dataclass(frozen=True)
class SchemaIs:
    """The schema of the record has one of these names, for example ``com.shop.OrderPlaced``.

    It is the full name of a record of Avro or of a message of Protobuf, or the name of a schema of Kafka Connect.
    """

    names: Sequence[str]

    @property
    def record_filter(self) -> RecordFilter:
        """The rule for the records that meet the condition."""
        return RecordFilter(SCHEMA, (), tuple(self.names))


Condition = FieldIs | HeaderIs | SchemaIs
"""What a record meets or not."""


@dataclass(frozen=True)
class Deletes:
    """Which records delete rows, and how long that is remembered.

    ``when`` says which records delete the row of their key; an older record that arrives later does not bring the row
    back. ``truncates`` says which records delete every older row. ``purge`` is for how long deletes are remembered at
    least; without it, they are never forgotten.
    """

    when: Tombstone | FieldIs | None = None
    truncates: FieldIs | None = None
    purge: timedelta | None = None


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
