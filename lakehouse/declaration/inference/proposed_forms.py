"""Texts that are numbers, and digits that are times: which line to write if that is what they mean."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.declaration.inference.column_lines import column_line
from lakehouse.declaration.inference.proposed_key import are_like_times
from lakehouse.declaration.inference.proposed_times import epoch_unit, named_epoch_unit
from lakehouse.declaration.vocabulary import Column
from lakehouse.decoding.fields import Epoch
from lakehouse.decoding.written_forms import TextNumber, Written

_QUANTITY = re.compile(r"[+-]?(?:(?:0|[1-9]\d{0,14})(?:\.(\d{1,23}))?|\.(\d{1,23}))", re.ASCII)
_NUMBERS: tuple[tuple[re.Pattern[str], re.Pattern[str], Written], ...] = (
    (_QUANTITY, re.compile(""), "text"),
    (
        re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|0|[1-9]\d{0,14})(?:\.(\d{1,23}))?", re.ASCII),
        re.compile(r",\d{3}[.,]"),
        TextNumber(thousands=","),
    ),
    (
        re.compile(r"[+-]?(?:0|[1-9]\d{0,14})(?:,(\d{1,23}))?", re.ASCII),
        re.compile(r",(?!\d{3}$)"),
        TextNumber(decimal=","),
    ),
    (
        re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|0|[1-9]\d{0,14})(?:,(\d{1,23}))?", re.ASCII),
        re.compile(r"\.\d{3}[.,]"),
        TextNumber(decimal=",", thousands="."),
    ),
    *(
        (
            re.compile(rf"[+-]?(?:\d{{1,3}}(?:{space}\d{{3}})+|0|[1-9]\d{{0,14}})(?:{decimal}(\d{{1,23}}))?", re.ASCII),
            re.compile(rf"{space}\d{{3}}{decimal}"),
            TextNumber(decimal=decimal[-1], thousands=space),
        )
        for space in " \u00a0\u202f"
        for decimal in (",", "\\.")
    ),
)
"""Forms of numbers: what every text matches, what at least one contains to be certain, and how to declare it."""
_SINCE_1970 = re.compile(r"[1-4]\d{9}(?:\d{3}|\d{6}|\d{9})?(?:\.\d{1,9})?", re.ASCII)
_THESE_YEARS = re.compile(r"(?:1[4-9]|20)\d{8}(?:\d{3}|\d{6}|\d{9})?", re.ASCII)  # from 2014 to 2036, since 1970
_IDENTIFIER = re.compile(
    r"(?:.*_)?(?:id|key|uuid|guid|code|zip|plz|postcode|postal|phone|tel|mobile|fax|number|no|nr|ref|reference|(?:spec)?version|sku"
    r"|ean|gtin|isbn|imei|iban|bic|account|card|serial|tax|vat|pin)(?:_.*)?"
)
_ROUNDED = "Nanoseconds are rounded to microseconds."
_TIME_OF_DIGITS = {8: ("DATE", "%Y%m%d"), 14: ("TIMESTAMP", "%Y%m%d%H%M%S")}
_YEARS = range(1900, 2101)


class ProposedForm(NamedTuple):
    """The form of values: what they look like, what to store, the column that stores it, and what to know of it."""

    looks: str
    content: str
    column: Column
    effect: str = ""

    def warning(self, condition: str = "", other_content: str = "") -> str:
        """What to write; ``condition`` says which values have the form, ``other_content`` what to store for others."""
        line, effect = column_line(self.column), f" {self.effect}" if self.effect else ""
        return (
            f"{self.column.name} {self.looks}{condition}. To store {self.content}{other_content}, write {line}.{effect}"
        )


def find_form(column: Column, values: Sequence[Any]) -> ProposedForm | None:
    """The form that texts have if they are numbers, or digits if they are times; ``None`` if they have none.

    Identifiers stay as they are: their names say so, or they have a zero in front or more than 15 digits.
    """
    is_whole = column.type in ("BIGINT", "STRING") and not column.pattern and not column.epoch
    if not values or not is_whole or is_identifier(column.name):
        return None
    is_text = column.type == "STRING"
    texts = [value if is_text else str(value) for value in values]
    time_format = _format_of_digits(texts)
    if time_format:
        type_, pattern = time_format
        time_column = replace(column, type=type_, pattern=pattern, written=None if is_text else "number")
        return ProposedForm("looks like a time in digits", "times", time_column)
    epoch_form = _epoch_form(column, texts)
    if epoch_form or not is_text:
        return epoch_form
    return _number_form(column, texts) or _unnamed_epoch_form(column, texts)


def is_identifier(name: str) -> bool:
    """Whether a column has the name of an identifier, whose digits mean nothing."""
    return _IDENTIFIER.fullmatch(name) is not None


def _format_of_digits(texts: Sequence[str]) -> tuple[str, str] | None:
    """The type and the pattern of texts that are all times in digits."""
    time_format = _TIME_OF_DIGITS.get(len(texts[0]))
    return time_format if time_format and all(_is_time(text, time_format[1]) for text in texts) else None


def _is_time(text: str, pattern: str) -> bool:
    if not re.fullmatch(r"\d{8}(\d{6})?", text, re.ASCII):
        return False
    try:
        return datetime.strptime(text, pattern).year in _YEARS
    except ValueError:
        return False


def _epoch_form(column: Column, texts: Sequence[str]) -> ProposedForm | None:
    """The form of digits that are numbers of units since 1970, in a column with the name of a time."""
    unit = named_epoch_unit(column.name, _units_in(texts)) if all(map(_SINCE_1970.fullmatch, texts)) else None
    return _form_of_unit(column, unit, "looks like a time") if unit else None


def _unnamed_epoch_form(column: Column, texts: Sequence[str]) -> ProposedForm | None:
    """The form of texts that may be numbers of units since 1970, although the name of the column does not say so."""
    unit = epoch_unit(_units_in(texts)) if all(map(_THESE_YEARS.fullmatch, texts)) else None
    return _form_of_unit(column, unit, "may be a time") if unit else None


def _units_in(texts: Sequence[str]) -> list[Decimal]:
    return [Decimal(text) for text in texts]


def _form_of_unit(column: Column, unit: Epoch, looks: str) -> ProposedForm:
    written: Written | None = "text" if column.type == "STRING" else None
    time_column = replace(column, type="TIMESTAMP", epoch=unit, written=written)
    return ProposedForm(
        f"{looks}, in {unit} since 1970", "times", time_column, _ROUNDED if unit == "nanoseconds" else ""
    )


def _number_form(column: Column, texts: Sequence[str]) -> ProposedForm | None:
    """The form of texts that are numbers, with a decimal point or comma, and perhaps with thousands separators."""
    matching_forms = (
        (matches, written)
        for number, sign, written in _NUMBERS
        if all(matches := [number.fullmatch(text) for text in texts]) and any(map(sign.search, texts))
    )
    matches, written = next(matching_forms, ([], None))
    if written is None:
        return None
    if are_like_times(texts):
        return None
    scale = max(len("".join(filter(None, match.groups()))) for match in matches if match)
    number_column = replace(column, type=f"DECIMAL(38,{scale})" if scale else "BIGINT", written=written)
    effect = "Further decimal places are rounded." if scale else "A number with a fraction would be rejected."
    return ProposedForm("has numbers as text", "numbers", number_column, effect)
