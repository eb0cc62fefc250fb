"""Fields whose values are numbers in some records and texts in others: one line that reads both."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lakehouse.declaration.inference.proposed_forms import ProposedForm, find_form
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.column_types import digits_of
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.values import convert_value
from lakehouse.decoding.written_forms import TextNumber


def find_mixed_form(column: Column, values: Sequence[Any]) -> ProposedForm | None:
    """The form of numbers and texts together; ``None`` if no column reads all of them.

    The separators are those of the texts: the numbers of JSON have a decimal point.
    """
    form = find_form(column, [str(value) for value in values])
    if form is None or isinstance(form.column.written, TextNumber):
        form = find_form(column, [value for value in values if isinstance(value, str)])
    if form is None:
        return None
    written = form.column.written
    mixed_column = replace(
        form.column,
        type=_with_fractions(form.column.type, [value for value in values if isinstance(value, Decimal)]),
        written=replace(written, or_number=True) if isinstance(written, TextNumber) else "text_or_number",
    )
    return form._replace(column=mixed_column) if _reads(mixed_column, values) else None


def _with_fractions(type_: str, numbers: Sequence[Decimal]) -> str:
    """The type with as many decimal places as the numbers have; unchanged if it is that of a time."""
    if type_ != "BIGINT" and not type_.startswith("DECIMAL"):
        return type_
    places = max((-int(number.as_tuple().exponent) for number in numbers), default=0)
    precision, scale = (38, 0) if type_ == "BIGINT" else digits_of(type_)
    return f"DECIMAL({precision},{max(places, scale)})" if places > scale else type_


def _reads(column: Column, values: Sequence[Any]) -> bool:
    try:
        for value in values:
            convert_value(value, column.field)
    except Rejection:
        return False
    return True
