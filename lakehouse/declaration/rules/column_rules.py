"""The rules of one column. Each rule yields what is wrong, and what to do."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from lakehouse.declaration.columns import Column, Computed, is_widened
from lakehouse.declaration.names import SHAPE, is_name
from lakehouse.declaration.rules.time_rules import time_problems
from lakehouse.declaration.rules.written_rules import (
    binary_problems,
    key_source_problems,
    reads_window_time,
    typed_key,
    written_problems,
)
from lakehouse.decoding.column_types import Problem, column_type_problems, digits_of
from lakehouse.decoding.fields import WHOLE_LIMITS, Rejection, UnrepresentableValue, is_text
from lakehouse.decoding.formats.texts.cut_texts import pattern_problems
from lakehouse.decoding.numbers import number_in
from lakehouse.decoding.record_parts import (
    VALUE,
    BrokerTime,
    Cut,
    ElementIndex,
    ParentField,
    RecordHeader,
    RecordKey,
    TopicName,
    UnmappedFields,
    ValueOrObject,
)
from lakehouse.decoding.values import convert_value
from lakehouse.decoding.written_forms import becomes_json

_ALWAYS = ("default", "null_values", "keep", "written")
_WINDOW_TIME: tuple[str, tuple[str, ...], tuple[str, ...]] = (
    "a window's time",
    ("TIMESTAMP",),
    ("written", "null_values"),
)
_FIXED: dict[type, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    BrokerTime: ("a broker time", ("TIMESTAMP",), ("written", "null_values")),
    UnmappedFields: ("unmapped fields", ("STRING",), ("required", "default", "null_values", "written")),
    TopicName: ("the name of the topic", ("STRING",), _ALWAYS),
    ElementIndex: ("the place of the element", ("INT", "BIGINT"), _ALWAYS),
}
"""Sources with values of their own: how messages name them, their types, and options that they do not have."""


def columns_problems(columns: Sequence[Column | Computed], *, typed_by: str = "") -> Iterator[Problem]:
    """What is wrong with the columns of one table; ``typed_by`` names the format if its values have types."""
    for column in columns:
        if not is_name(column.name):
            yield f"column {column.name!r}: {SHAPE}", "Choose another name, and set source= to the name of the field."
        for message, action in column_problems(column, typed_by=typed_by):
            yield f"column {column.name}: {message}", action
    for name, count in Counter(column.name for column in columns).items():
        if count > 1:
            yield f"two columns have the same name: {name}", "Rename one, and set its source= to the name of the field."


def column_problems(column: Column | Computed, *, typed_by: str = "") -> Iterator[Problem]:
    """What is wrong with one column, apart from its name."""
    yield from column_type_problems(column.type)
    if column.widened_from is not None and not is_widened(column.widened_from, column.type):
        message = f"{column.type} does not hold every value of widened_from {column.widened_from}"
        widening_text = "INT to BIGINT, DOUBLE or a DECIMAL of 10 digits before the point, or a DECIMAL to more digits"
        yield message, f"Widen {widening_text}. For other types, remove widened_from and use lakehouse rewrite."
    if column.is_nested and (isinstance(column, Computed) or column.field.place.part != VALUE):
        message = f"type {column.type} is only allowed for a field of a record's value"
        yield message, "Declare another type, or read the column from a field."
    if isinstance(column, Computed) and column.type == "BINARY":
        yield "a computed column cannot be BINARY", "SQL computes no bytes. Read the column from a field."
    if isinstance(column, Column):
        yield from _read_problems(column, typed_by)


def _read_problems(column: Column, typed_by: str) -> Iterator[Problem]:
    yield from binary_problems(column)
    typed_by = typed_key(column.source) if isinstance(column.source, RecordKey) else typed_by
    if type(column.source) in _FIXED or reads_window_time(column):
        yield from _fixed_problems(column)
    else:
        yield from time_problems(column, typed_by)
    yield from written_problems(column, typed_by)
    yield from _value_or_object_problems(column, typed_by)
    if isinstance(column.source, Cut):
        yield from _cut_problems(column, column.source.part)
    if column.between is not None:
        yield from _between_problems(column)
    yield from _keep_problems(column)
    yield from _source_problems(column)
    if column.default is not None:
        yield from _default_problems(column)
    if column.rounding is not None and "DECIMAL" not in column.type:
        yield f"rounding is only allowed for a DECIMAL, but the column is {column.type}", "Remove rounding."


def _keep_problems(column: Column) -> Iterator[Problem]:
    if column.keep and column.required:
        action = "A record without a value leaves a kept column unchanged. Remove one of the two."
        yield "required and keep cannot be combined", action
    if column.null_erases and not column.keep:
        yield (
            "null_erases requires keep",
            "A column without keep stores every null anyway. Add keep, or remove null_erases.",
        )
    if column.null_erases and column.field.place.part != VALUE:
        message = "null_erases is only allowed for a field of a record's value"
        yield message, "A key, a header or a broker time is present or missing, but never null. Remove null_erases."


def _source_problems(column: Column) -> Iterator[Problem]:
    source = column.source.name if isinstance(column.source, RecordHeader) else column.source
    source = source.path if isinstance(source, ParentField) else source
    if source is not None and not source:
        yield "source is empty", "Name the field, or the path that leads to it."
    if any(isinstance(number_in(text), UnrepresentableValue) for text in column.null_values):
        yield "null_values contain a number with an exponent out of range", "Remove it: no record can contain it."
    yield from key_source_problems(column)
    if isinstance(column.source, RecordHeader) and not is_text(column.source.name):
        yield "the name of its header is not valid UTF-8", "No record can have this header. Correct the name."
    if column.formerly is None:
        return
    if column.field.place.part != VALUE:
        message = "formerly is only allowed for a field of a record's value"
        yield message, "Remove formerly: a key, a header or a broker time cannot be renamed."
    if not column.formerly:
        yield "formerly is empty", "Name the field, or the path that led to it."
    if column.field.place.former == column.field.place.names:
        yield (
            f"formerly is the current name of the field: {column.field.source}",
            "Write the name that it had before.",
        )


def _fixed_problems(column: Column) -> Iterator[Problem]:
    subject, types, options = _FIXED.get(type(column.source), _WINDOW_TIME)
    if column.type not in types:
        yield f"{subject} cannot be {column.type}", f"Declare {' or '.join(types)}."
    for option in options:
        if getattr(column, option) not in (None, (), []) and getattr(column, option) is not False:
            yield f"{option} is not allowed for {subject}", f"Remove {option}: its values are as they are."


def _value_or_object_problems(column: Column, typed_by: str) -> Iterator[Problem]:
    source = column.source
    if not isinstance(source, ValueOrObject):
        return
    if not source.source or not source.inner:
        yield "ValueOrObject has an empty path", 'Name both fields: ValueOrObject("customer", "id").'
    if typed_by:
        message = f"ValueOrObject is not allowed in format {typed_by}"
        yield message, "A schema says whether the field is an object. Name the field, or its path, as source."
    if column.is_nested or becomes_json(column.form) or column.form == "connect":
        message = "ValueOrObject requires a value that cannot be an object itself"
        yield message, "Declare a scalar type without a form that reads objects, or name the field as source."
    if column.formerly is not None:
        yield "formerly and ValueOrObject cannot be combined", "Remove one of the two."


def _cut_problems(column: Column, part: str | Sequence[int]) -> Iterator[Problem]:
    if isinstance(part, str):
        yield from pattern_problems("Cut", part, (column.name,))
    elif len(part) != 2 or {*map(type, part)} != {int} or not 0 <= part[0] < part[1]:
        yield f"Cut has the places {part!r}", "Write two as in Python: (0, 6) are the characters text[0:6]."
    if not column.field.place.path or not all(column.field.place.path):
        yield "Cut has an empty path", 'Name the field: Cut("log", ...).'
    if column.is_nested or becomes_json(column.form):
        yield f"Cut is a text, and the column is {column.type}", "Declare a scalar type, without a form for objects."


def _default_problems(column: Column) -> Iterator[Problem]:
    for option in ("required", "keep"):
        if getattr(column, option):
            action = "A column with a default always has a value. Remove one of the two."
            yield f"{option} and default cannot be combined", action
    if column.is_nested:
        yield f"type {column.type} cannot have a default", "Remove the default: arrays, maps and structs have none."
        return
    try:
        convert_value(column.default, column.field)
    except Rejection as rejection:
        yield f"the default cannot be read: {rejection.detail}", "Write it as a record would contain it."


def _between_problems(column: Column) -> Iterator[Problem]:
    bounds: Sequence[object] = column.between or ()
    if not _is_number(column.type):
        yield f"between is only allowed for numbers, but the column is {column.type}", "Remove between."
    elif len(bounds) != 2 or not all(map(_is_bound, bounds)):
        yield f"between must be two numbers, not {bounds}", "Declare the smallest and the largest allowed value."
    elif column.between:
        minimum, maximum = column.between
        yield from _range_problems(_exactly(minimum), _exactly(maximum), column.type)


def _range_problems(minimum: Decimal, maximum: Decimal, type_: str) -> Iterator[Problem]:
    type_minimum, type_maximum = _range_of(type_)
    bounds = [bound for bound in (minimum, maximum) if bound.is_finite() or type_ != "DOUBLE"]
    if minimum > maximum:
        yield f"between is {minimum} to {maximum}, so no value is allowed", "Declare the smallest value first."
    elif any(not type_minimum <= bound <= type_maximum for bound in bounds):
        message = f"between exceeds the range of {type_}, which is {type_minimum} to {type_maximum}"
        yield message, "Declare a wider type, or bounds within its range."
    elif not _contains_value(minimum, maximum, type_):
        message = f"between is {minimum} to {maximum}, which contains no value of {type_}"
        yield message, "Declare bounds with a value between them."


def _contains_value(minimum: Decimal, maximum: Decimal, type_: str) -> bool:
    if type_ == "DOUBLE":
        return minimum.is_finite() or maximum.is_finite() or minimum < maximum
    scale = 0 if type_ in WHOLE_LIMITS else digits_of(type_)[1]
    unit = Fraction(1, 10**scale)
    return ceil(Fraction(minimum) / unit) <= floor(Fraction(maximum) / unit)


def _is_number(type_: str) -> bool:
    return type_ in ("INT", "BIGINT", "DOUBLE") or type_.startswith("DECIMAL")


def _is_bound(bound: object) -> bool:
    return isinstance(bound, int | float | Decimal) and not isinstance(bound, bool) and not _exactly(bound).is_nan()


def _exactly(bound: float | Decimal) -> Decimal:
    """The number as written, not the nearest binary fraction."""
    return Decimal(str(bound)) if isinstance(bound, float) else Decimal(bound)


def _range_of(type_: str) -> tuple[Decimal, Decimal]:
    """The smallest and the largest value of a numeric type."""
    if type_ in WHOLE_LIMITS:
        return Decimal(-WHOLE_LIMITS[type_]), Decimal(WHOLE_LIMITS[type_] - 1)
    if type_ == "DOUBLE":
        maximum = _exactly(sys.float_info.max)
    else:
        precision, scale = digits_of(type_)
        maximum = Decimal(f"{10**precision - 1}E-{scale}")
    return maximum.copy_negate(), maximum
