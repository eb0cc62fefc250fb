"""The columns of a table, read from records or computed from others, and which types can replace another type."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from lakehouse.declaration.names import refuse_former
from lakehouse.decoding.fields import Epoch, Field, Form, Limits, Place
from lakehouse.decoding.nested_types import nested, with_inner
from lakehouse.decoding.record_parts import (
    ELEMENT,
    WINDOW_TIMES,
    BrokerTime,
    Cut,
    Element,
    ElementIndex,
    ParentField,
    RecordHeader,
    RecordKey,
    TopicName,
    UnmappedFields,
    ValueOrObject,
)
from lakehouse.decoding.written_forms import TextNumber, Written, Zone, zone_of

Source = (
    str
    | Sequence[str]
    | ValueOrObject
    | Cut
    | RecordKey
    | RecordHeader
    | BrokerTime
    | TopicName
    | UnmappedFields
    | ParentField
    | Element
    | ElementIndex
)
"""What a column is read from."""
_DIGITS = {"INT": (10, 0), "BIGINT": (19, 0)}
_RECASTS = {
    "number": ("number", "INT", "STRING"),
    "INT": ("number", "INT", "STRING"),
    "STRING": ("number", "INT", "DATE", "BOOLEAN"),
    "DATE": ("TIMESTAMP", "STRING"),
    "TIMESTAMP": ("DATE",),
    "BOOLEAN": ("STRING",),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


@dataclass(frozen=True)
class Time:
    """How records write a time, as ``written`` of a column: as a text with a ``pattern``, or as a number.

    ``pattern`` is ``iso8601``, or directives of strptime. A text is in UTC, unless it has an offset. ``zone`` is the
    time zone of texts without an offset: a name, or ``Zone(...)`` with what happens if clocks change. ``epoch`` is the
    unit of a number since 1970, UTC: of a TIMESTAMP, which is rounded to microseconds, or days of a DATE. ``written``
    is how the record writes the text or the number, if not in JSON's own form: a number as ``"text"``, the digits of
    the pattern as ``"number"``.
    """

    pattern: str | None = None
    epoch: Epoch | None = None
    zone: str | Zone | None = None
    written: Literal["text", "text_or_number", "number"] | TextNumber | None = None


@refuse_former
@dataclass(frozen=True)
class Column:
    """One column of a declared table that is read from records; ``Computed`` is a column of SQL.

    ``source`` is the name of the field in the record, if it differs from that of the column. For a field within
    objects, it is the path, for example ``("customer", "address", "city")``, for one that is a value or an object
    ``ValueOrObject(...)``, and for a part of a text ``Cut(...)``. It can also be ``RecordKey()``,
    ``RecordHeader(...)``, ``BrokerTime()``, ``TopicName()``, or ``UnmappedFields()`` for the rest of the record. In a
    table with ``rows_from``, a name or path begins in the element
    that is the row, ``ParentField(...)`` in the record around it, ``Element()`` is the element as a whole, and
    ``ElementIndex()`` its place in the record. ``between`` is the smallest and the largest allowed value. ``default``
    replaces a missing field or null, and is written as a record would contain it. ``formerly`` is the name or path of
    the field before it was renamed, which is read if the field is missing. ``widened_from`` is the narrower type that
    the column had: tables with that type are rewritten once with the wider one. ``null_values`` are texts that mean
    that there is no value; if they are numbers, also those numbers. ``keep`` merges the column on its own: a missing
    value leaves the stored one unchanged. With ``null_erases`` this holds only for a missing field and for
    ``null_values``; a null replaces the stored value. ``written`` is how the record writes the value, if not in JSON's
    own form: a time as ``Time(...)``, a number as ``"text"``, bytes as ``"base64"``, attributes as ``"otlp"``, for
    example. ``invalid="null"`` reads a value that is wrong as NULL, if another column has its text.
    ``rounding="reject"`` rejects a number that the DECIMAL of the column would round, which loses digits.
    """

    name: str
    type: str
    doc: str
    required: bool = False
    between: tuple[float, float] | None = None
    source: Source | None = None
    default: str | bool | float | None = None
    keep: bool = False
    formerly: str | Sequence[str] | None = None
    widened_from: str | None = None
    null_values: Sequence[str] = ()
    null_erases: bool = False
    written: Written | Time | None = None
    invalid: Literal["null"] | None = None
    rounding: Literal["reject"] | None = None

    @property
    def time(self) -> Time:
        """How records write its times; without options if it has none."""
        return self.written if isinstance(self.written, Time) else Time()

    @property
    def form(self) -> Written | None:
        """The form of its texts and numbers, also of those that are times; ``None`` if it is JSON's own."""
        return self.written.written if isinstance(self.written, Time) else self.written

    @property
    def field(self) -> Field:
        """The rule for the field of a record that the column is read from."""
        minimum, maximum = self._bound(0), self._bound(1)
        treatment = (self.null_erases, self.invalid is not None, self.rounding is not None)
        limits = Limits(self.required, minimum, maximum, self.default, *treatment)
        return with_inner(Field(self.name, self.type, self._place, self._form, limits))

    def _bound(self, place: int) -> Decimal | float | None:
        bounds = self.between if isinstance(self.between, list | tuple) else ()
        if len(bounds) != 2 or not all(isinstance(bound, int | float | Decimal) for bound in bounds):
            return None  # the rules refuse it
        # of a decimal, the number as written, not the nearest binary fraction
        return Decimal(str(bounds[place])) if self.type.startswith("DECIMAL") else bounds[place]

    @property
    def _form(self) -> Form:
        """How records write its values."""
        epoch: Epoch | None = "microseconds" if isinstance(self.source, BrokerTime) else self.time.epoch
        is_of_window = isinstance(self.source, RecordKey) and self.source.written in WINDOW_TIMES
        epoch = "milliseconds" if is_of_window else epoch
        written = "json" if isinstance(self.source, UnmappedFields) else self.form
        return Form(written, self.time.pattern, epoch, zone_of(self.time.zone), tuple(self.null_values))

    @property
    def is_nested(self) -> bool:
        """Whether its type is an array, a map or a struct."""
        return nested(self.type) is not None

    @property
    def _place(self) -> Place:
        """Where its field is read from."""
        source, former = self.source or self.name, _path_of(self.formerly or ())
        if isinstance(source, RecordKey):
            key = (source.written, source.key_window)
            return Place(source.shown_name, source.names, source.part, former, 0, *key)
        if isinstance(source, RecordHeader | BrokerTime | TopicName | UnmappedFields | ElementIndex):
            return Place(source.shown_name, (), source.part, former)
        if isinstance(source, Element):
            return Place("element", (ELEMENT,), former=former)
        if isinstance(source, ValueOrObject):
            shown_name = ".".join(source.whole_path)
            return Place(shown_name, source.path, former=former, whole_depth=len(source.whole_path))
        path = source.path if isinstance(source, ParentField | Cut) else _path_of(source)
        return Place(".".join(path), path, former=former, cut=source.part if isinstance(source, Cut) else None)


@dataclass(frozen=True)
class Computed:
    """A column that SQL computes from other columns of the same row, NULL if it cannot be computed.

    ``widened_from`` is the narrower type that the column had, as of a ``Column``.
    """

    name: str
    type: str
    sql: str
    doc: str
    widened_from: str | None = None

    @property
    def is_nested(self) -> bool:
        """Whether its type is an array, a map or a struct, which no SQL computes."""
        return nested(self.type) is not None


def _path_of(source: str | Sequence[str]) -> tuple[str, ...]:
    return (source,) if isinstance(source, str) else tuple(source)


def is_widened(narrow: str, wide: str) -> bool:
    """Whether the wide type holds every value of the narrow type, and the two types differ."""
    narrow, wide = narrow.upper().replace(" ", ""), wide.upper().replace(" ", "")
    if wide in ("BIGINT", "DOUBLE"):
        return narrow == "INT"
    before, after = _digits(narrow), _digits(wide)
    if before is None or after is None or wide in _DIGITS or narrow == wide:
        return False
    (old_precision, old_scale), (new_precision, new_scale) = before, after
    return new_scale >= old_scale and new_precision - new_scale >= old_precision - old_scale


def is_recast(stored_type: str, declared_type: str) -> bool:
    """Whether values of the stored type may have the declared type without a change of meaning.

    If so, each value is checked when it is rewritten. Numbers become neither times, because their unit is unknown, nor
    booleans. A TIMESTAMP does not become a STRING, because a time has many text formats.
    """
    before, after = (_kind(type_.upper().replace(" ", "")) for type_ in (stored_type, declared_type))
    return after in _RECASTS.get(before, ())


def has_more_places(narrow: str, wide: str) -> bool:
    """Whether a decimal gets more decimal places: values that were rounded before would then be other values."""
    before, after = (_DECIMAL.fullmatch(type_.upper().replace(" ", "")) for type_ in (narrow, wide))
    return before is not None and after is not None and int(after[2]) > int(before[2])


def _digits(type_: str) -> tuple[int, int] | None:
    """The precision and scale of a type; ``None`` if it is not an exact number."""
    decimal = _DECIMAL.fullmatch(type_)
    return (int(decimal[1]), int(decimal[2])) if decimal else _DIGITS.get(type_)


def _kind(type_: str) -> str:
    """The kind of a type's values; integers are a kind of their own, because only they have a single text format."""
    if type_ in _DIGITS:
        return "INT"
    return "number" if type_ == "DOUBLE" or _DECIMAL.fullmatch(type_) else type_
