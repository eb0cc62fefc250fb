"""What may not be said of one column. Each rule yields what is wrong, and what to do."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from lakehouse.declaration.names import SHAPE, is_name
from lakehouse.declaration.rules.time_rules import time_problems
from lakehouse.declaration.vocabulary import Column
from lakehouse.declaration.widening import is_widened
from lakehouse.decoding.column_types import Problem, column_type_problems, digits_of
from lakehouse.decoding.fields import WHOLE, Beyond, Rejection, is_text
from lakehouse.decoding.record_parts import VALUE, BrokerTime, RecordHeader, RecordKey
from lakehouse.decoding.values import convert_value, number_in


def columns_problems(columns: Sequence[Column], *, typed_by: str = "") -> Iterator[Problem]:
    """What is wrong with the columns of one table; ``typed_by`` names the format if its values have types."""
    for column in columns:
        if not is_name(column.name):
            yield f"column {column.name!r}: {SHAPE}", "Choose another name, and name the field in its source."
        for fact, action in column_problems(column, typed_by=typed_by):
            yield f"column {column.name}: {fact}", action
    for name, times in Counter(column.name for column in columns).items():
        if times > 1:
            yield f"two columns have the same name: {name}", "Give one another, and name the field in its source."


def column_problems(column: Column, *, typed_by: str = "") -> Iterator[Problem]:
    """What is wrong with one column, whatever its name."""
    yield from column_type_problems(column.type)
    if column.widened_from is not None and not is_widened(column.widened_from, column.type):
        fact = f"widened_from {column.widened_from} to {column.type}: not every value stays as it is"
        widened = "INT to BIGINT, DOUBLE or a DECIMAL of 10 digits before its places, or a DECIMAL by digits"
        yield fact, f"Widen {widened}; else leave widened_from out: lakehouse rewrite is for other types."
    if column.is_nested and (column.sql is not None or column.field.part != VALUE):
        yield f"it is {column.type}, which only a field of a record's value is", "Declare another type, or its field."
    if column.sql is not None:
        yield from _computed_problems(column)
        return
    if isinstance(column.source, BrokerTime):
        yield from _broker_time_problems(column)
    else:
        yield from time_problems(column, typed_by)
    if column.between is not None:
        yield from _between_problems(column)
    yield from _keep_problems(column)
    yield from _source_problems(column)
    if column.default is not None:
        yield from _default_problems(column)


def _computed_problems(column: Column) -> Iterator[Problem]:
    """What says how a record tells a value: of a computed column none does."""
    for word in (
        "source",
        "formerly",
        "pattern",
        "epoch",
        "default",
        "null_values",
        "between",
        "required",
        "keep",
        "null_erases",
    ):
        if getattr(column, word) not in (None, False, ()):
            yield f"sql or {word}, not both", "A computed column is what its SQL gives: leave one out."
    if not column.sql:
        yield "has no SQL", "Declare an expression over other columns, as rating >= 7."


def _keep_problems(column: Column) -> Iterator[Problem]:
    """What is wrong with how its stored value is kept, and erased."""
    if column.keep and column.required:
        yield "required or keep, not both", "A record without a value leaves a kept column alone: leave one out."
    if column.null_erases and not column.keep:
        yield (
            "null_erases and no keep",
            "A null is stored as it is where a column is not kept: declare keep, or neither.",
        )
    if column.null_erases and column.field.part != VALUE:
        fact = "null_erases is for fields of a record's value"
        yield fact, "What stands beside the value is there or missing: leave null_erases out."


def _broker_time_problems(column: Column) -> Iterator[Problem]:
    said = (column.pattern, column.epoch, column.null_values or None)
    if column.type != "TIMESTAMP" or any(each is not None for each in said):
        yield "a broker time is a TIMESTAMP as it is", "Declare that type, and neither pattern, epoch nor null_values."


def _source_problems(column: Column) -> Iterator[Problem]:
    named = column.source.name if isinstance(column.source, RecordHeader) else column.source
    if named is not None and not named:
        yield "its source names no field", "Name it, or the fields that lead to it."
    if any(isinstance(number_in(each), Beyond) for each in column.null_values):
        yield "its null_values have a number that is beyond any", "Leave it out: no record can have it."
    yield from _beside_problems(column)
    if column.formerly is None:
        return
    if column.field.part != VALUE:
        yield "formerly is for fields of a record's value", "Leave it out: what stands beside the value has no name."
    if not column.formerly:
        yield "formerly names no field", "Name it, or the fields that led to it."
    if column.field.former == column.field.names:
        yield f"formerly is the name that it has: {column.field.source}", "Name the one that it had before."


def _beside_problems(column: Column) -> Iterator[Problem]:
    """What is wrong with a source that stands beside the value of a record."""
    if isinstance(column.source, RecordKey) and column.source.written == "big_endian" and column.type not in WHOLE:
        fact = f"its key is the bytes of a number, and it is {column.type}"
        yield fact, "Declare INT for four bytes, BIGINT for eight."
    if isinstance(column.source, RecordHeader) and not is_text(column.source.name):
        yield "its header is named by what is no text in UTF-8", "No record can have it: name one that can be written."


def _default_problems(column: Column) -> Iterator[Problem]:
    for rule in ("required", "keep"):
        if getattr(column, rule):
            yield f"{rule} or default, not both", "With a default there is always a value: leave one out."
    if column.is_nested:
        yield f"it has a default, and it is {column.type}", "Values that hold others have none: leave it out."
        return
    try:
        convert_value(column.default, column.field)
    except Rejection as rejection:
        yield f"its default cannot be read: {rejection.detail}", "Write it as it would stand in a record."


def _between_problems(column: Column) -> Iterator[Problem]:
    bounds: Sequence[object] = column.between or ()
    if not _is_number(column.type):
        yield f"between is for numbers, and it is {column.type}", "Leave between out."
    elif len(bounds) != 2 or not all(map(_is_bound, bounds)):
        yield f"between needs two numbers, and is {bounds}", "Declare the least and the greatest value allowed."
    elif column.between:
        least, most = column.between
        yield from _range_problems(_exactly(least), _exactly(most), column.type)


def _range_problems(least: Decimal, most: Decimal, type_: str) -> Iterator[Problem]:
    held_least, held_most = _held(type_)
    bounds = [each for each in (least, most) if each.is_finite() or type_ != "DOUBLE"]
    if least > most:
        yield f"between begins at {least} and ends at {most}: no value passes", "Declare the least value first."
    elif any(not held_least <= each <= held_most for each in bounds):
        fact = f"between goes beyond what {type_} holds, which is {held_least} to {held_most}"
        yield fact, "Declare a wider type, or bounds within it."
    elif not _holds_a_value(least, most, type_):
        yield f"between is {least} to {most}: no value of {type_} lies there", "Declare bounds with a value in between."


def _holds_a_value(least: Decimal, most: Decimal, type_: str) -> bool:
    if type_ == "DOUBLE":
        return least.is_finite() or most.is_finite() or least < most
    scale = 0 if type_ in WHOLE else digits_of(type_)[1]
    unit = Fraction(1, 10**scale)
    return ceil(Fraction(least) / unit) <= floor(Fraction(most) / unit)


def _is_number(type_: str) -> bool:
    return type_ in ("INT", "BIGINT", "DOUBLE") or type_.startswith("DECIMAL")


def _is_bound(bound: object) -> bool:
    return isinstance(bound, int | float | Decimal) and not isinstance(bound, bool) and not _exactly(bound).is_nan()


def _exactly(bound: float | Decimal) -> Decimal:
    """The number that was written, not the nearest binary fraction."""
    return Decimal(str(bound)) if isinstance(bound, float) else Decimal(bound)


def _held(type_: str) -> tuple[Decimal, Decimal]:
    """The least and the greatest value of a type of numbers."""
    if type_ in WHOLE:
        return Decimal(-WHOLE[type_]), Decimal(WHOLE[type_] - 1)
    if type_ == "DOUBLE":
        most = _exactly(sys.float_info.max)
    else:
        precision, scale = digits_of(type_)
        most = Decimal(f"{10**precision - 1}E-{scale}")
    return most.copy_negate(), most
