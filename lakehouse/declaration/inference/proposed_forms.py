"""Texts that are numbers, and digits that are times: which line to write if that is what they mean."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from lakehouse.declaration.inference.column_lines import column_line
from lakehouse.declaration.inference.proposed_key import are_like_times
from lakehouse.declaration.inference.proposed_times import named_epoch_unit
from lakehouse.declaration.vocabulary import Column

_QUANTITY = re.compile(r"[+-]?(?:(?:0|[1-9]\d{0,14})(?:\.(\d{1,23}))?|\.(\d{1,23}))", re.ASCII)
_IDENTIFIER = re.compile(
    r"(?:.*_)?(?:id|key|uuid|guid|code|zip|plz|postcode|postal|phone|tel|mobile|fax|number|no|nr|ref|reference|version|sku"
    r"|ean|gtin|isbn|imei|iban|bic|account|card|serial|tax|vat|pin)(?:_.*)?"
)
_TIME_OF_DIGITS = {8: ("DATE", "%Y%m%d"), 14: ("TIMESTAMP", "%Y%m%d%H%M%S")}
_YEARS = range(1900, 2101)


def form_warning(column: Column, values: Sequence[Any]) -> str | None:
    """What to write if the texts of a column are numbers, or if its digits are times; ``None`` if they are not.

    Identifiers stay as they are: their names say so, or they have a zero in front or more than 15 digits.
    """
    is_whole = column.type in ("BIGINT", "STRING") and not column.pattern and not column.epoch
    if not values or not is_whole or _IDENTIFIER.fullmatch(column.name):
        return None
    is_text = column.type == "STRING"
    texts = [value if is_text else str(value) for value in values]
    time_format = _format_of_digits(texts)
    if time_format:
        type_, pattern = time_format
        time_column = replace(column, type=type_, pattern=pattern, written=None if is_text else "number")
        return f"{column.name} looks like a time in digits. To store times, write {column_line(time_column)}."
    return _number_warning(column, texts) if is_text else None


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


def _number_warning(column: Column, texts: Sequence[str]) -> str | None:
    matches = [_QUANTITY.fullmatch(text) for text in texts]
    if not all(matches):
        return None
    unit = named_epoch_unit(column.name, [Decimal(text) for text in texts])
    if unit:
        time_column = replace(column, type="TIMESTAMP", epoch=unit, written="text")
        return (
            f"{column.name} looks like a time, in {unit} since 1970. To store times, write {column_line(time_column)}."
        )
    if are_like_times(texts):
        return None
    scale = max(len(match[1] or match[2] or "") for match in matches if match)
    number_column = replace(column, type=f"DECIMAL(38,{scale})" if scale else "BIGINT", written="text")
    effect = "Further decimal places are rounded." if scale else "A number with a fraction would be rejected."
    return f"{column.name} has numbers as text. To store numbers, write {column_line(number_column)}. {effect}"
