"""What values may mean other than their type says: which line to write if that is what they mean.

A form holds for all values of a field. ``form_advice`` also names one that nearly all have, or all but words such as
n/a: a few odd values do not hide what the others are.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from lakehouse.declaration.columns import Column, Time
from lakehouse.declaration.inference.proposed_key import TIME_LIKE, are_like_times
from lakehouse.declaration.inference.proposed_types import (
    column_line,
    epoch_unit,
    named_epoch_unit,
    source_text,
    type_of,
    with_type,
)
from lakehouse.decoding.byte_texts import byte_reader
from lakehouse.decoding.column_types import digits_of
from lakehouse.decoding.fields import Epoch, Rejection
from lakehouse.decoding.formats.format import quote
from lakehouse.decoding.values import convert_value
from lakehouse.decoding.written_forms import TextNumber, Written

_QUANTITY = re.compile(r"[+-]?(?:(?:0|[1-9]\d{0,14})(?:\.(\d{1,23}))?|\.(\d{1,23}))", re.ASCII)
_DECIMAL_COMMA = TextNumber(decimal=",")
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
        _DECIMAL_COMMA,
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
_MAP = "MAP<STRING, STRING>"
_LEAST_LENGTH = 8  # letters of a text in base64: shorter words are also valid
_JSON_IN_BASE64 = (
    "To read fields of JSON in them, if the records are objects of JSON, write format=Json(in_base64={}) and source={}."
)
_NO_VALUE = re.compile(r"0|0{8}|0{14}|0000-00-00.*|-+|\.+|\?+|n/?a|null|none|nil|nan|unknown|\s*", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[\d.,]+", re.ASCII)
_LEAST_VALUES, _LEAST_SHARE = 20, 0.95
_MAX_ODD, _MAX_LENGTH = 3, 30
_REJECTED = "The others, such as {}, are then rejected. Those that mean that there is no value belong in null_values."
_read_base64 = byte_reader("base64")


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


def least_common(count: int) -> float:
    """How many of so many values must have a form that a few others do not hide."""
    return max(_LEAST_VALUES, _LEAST_SHARE * count)


def show_texts(texts: Sequence[str]) -> str:
    """The first texts, shortened, for a warning."""
    return " and ".join(quote(text[:_MAX_LENGTH]) for text in texts[:_MAX_ODD])


def form_advice(column: Column, values: Sequence[Any]) -> str | None:
    """What to write if all values, all but words for no value, or nearly all have a form; ``None`` if they have none.

    Texts such as n/a, and zeros in place of a date, may become NULL, however many there are.
    """
    if form := find_form(column, values):
        return form.warning()
    if column.time.pattern:
        return None
    odd_texts = sorted({str(value) for value in values if _NO_VALUE.fullmatch(str(value))})
    if 0 < len(odd_texts) <= _MAX_ODD:
        form = _form_or_pattern(column, [value for value in values if str(value) not in odd_texts])
        if form:
            shown_texts = show_texts(odd_texts)
            null_column = replace(form.column, null_values=odd_texts, required=False)
            return form._replace(column=null_column).warning(f", except {shown_texts}", f", and NULL for {shown_texts}")
    return _most_common_form(column, values)


def _most_common_form(column: Column, values: Sequence[Any]) -> str | None:
    for pattern in (TIME_LIKE, _NUMBER):
        regular_values = [value for value in values if pattern.fullmatch(str(value))]
        if least_common(len(values)) <= len(regular_values) and not _form_or_pattern(column, regular_values):
            regular_values = [value for value in regular_values if _form_or_pattern(column, [value])]
        is_common = least_common(len(values)) <= len(regular_values)
        form = _form_or_pattern(column, regular_values) if is_common else None
        odd_texts = sorted({*map(str, values)} - {*map(str, regular_values)})
        if form and odd_texts:
            warning = form.warning(f" in {len(regular_values):,} of {len(values):,} records")
            return f"{warning} {_REJECTED.format(show_texts(odd_texts))}"
    return None


def _form_or_pattern(column: Column, values: Sequence[Any]) -> ProposedForm | None:
    """The form of values, or of texts that are times of one pattern."""
    type_ = type_of(values) if values else None
    if type_ and type_[1]:
        return ProposedForm("looks like a time", "times", with_type(column, type_))
    return find_form(column, values)


def find_form(column: Column, values: Sequence[Any]) -> ProposedForm | None:
    """The form that all values have; ``None`` if they have none.

    Identifiers stay as they are: their names say so, or they have a zero in front or more than 15 digits.
    """
    is_whole = column.type in ("BIGINT", "STRING") and column.time == Time()
    if not values or not is_whole or is_identifier(column.name):
        return None
    if not all(isinstance(value, str | Decimal) for value in values):
        return None
    kinds = {type(value) for value in values}
    return _form_of_both(column, values) if len(kinds) > 1 else _form_of_texts(column, [*map(str, values)])


def _form_of_texts(column: Column, texts: Sequence[str]) -> ProposedForm | None:
    """The form of texts, or of the digits of whole numbers."""
    is_text = column.type == "STRING"
    if time_format := _format_of_digits(texts):
        type_, pattern = time_format
        time_column = replace(column, type=type_, written=Time(pattern, written=None if is_text else "number"))
        return ProposedForm("looks like a time in digits", "times", time_column)
    epoch_form = _epoch_form(column, texts)
    if epoch_form or not is_text:
        return epoch_form
    return _number_form(column, texts) or _unnamed_epoch_form(column, texts)


def _form_of_both(column: Column, values: Sequence[Any]) -> ProposedForm | None:
    """The form of numbers and texts together; ``None`` if no column reads all of them.

    The separators are those of the texts: the numbers of JSON have a decimal point.
    """
    form = _form_of_texts(column, [*map(str, values)])
    if form is None or isinstance(form.column.form, TextNumber):
        form = _form_of_texts(column, [value for value in values if isinstance(value, str)])
    if form is None:
        return None
    written = form.column.form
    form_of_both: TextNumber | Literal["text_or_number"] = "text_or_number"
    if isinstance(written, TextNumber):
        form_of_both = replace(written, or_number=True)
    column_of_both = replace(
        form.column,
        type=_with_fractions(form.column.type, [value for value in values if isinstance(value, Decimal)]),
        written=form_of_both if form.column.time == Time() else replace(form.column.time, written=form_of_both),
    )
    return form._replace(column=column_of_both) if _reads(column_of_both, values) else None


def _with_fractions(type_: str, numbers: Sequence[Decimal]) -> str:
    """The type with as many decimal places as the numbers have; unchanged if it is that of a time."""
    if type_ != "BIGINT" and not type_.startswith("DECIMAL"):
        return type_
    places = max((-int(number.as_tuple().exponent) for number in numbers), default=0)
    precision, scale = (38, 0) if type_ == "BIGINT" else digits_of(type_)
    return f"DECIMAL({precision},{max(places, scale)})" if places > scale else type_


def _reads(column: Column, values: Sequence[Any]) -> bool:
    """Whether a column reads all values, and one of them as more than NULL."""
    try:
        stored_values = [convert_value(value, column.field) for value in values]
    except Rejection:
        return False
    return any(stored_value is not None for stored_value in stored_values)


def encoded_form(column: Column, values: Sequence[Any]) -> ProposedForm | None:
    """The form of bytes or attributes in JSON, which a format with types has as they are; ``None`` if there are none.

    The name of an identifier does not exclude bytes.
    """
    is_text = column.type == "STRING" and not column.time.pattern
    return _base64_form(column, values) if is_text else _attribute_form(column, values)


def _attribute_form(column: Column, values: Sequence[Any]) -> ProposedForm | None:
    """The form of arrays that are attributes, each with the kind of its value, as OpenTelemetry has them."""
    map_column = replace(column, type=_MAP, written="otlp")
    is_possible = column.type.startswith("ARRAY<STRUCT<key: STRING, value: STRUCT<")
    return ProposedForm("has attributes", "a map", map_column) if is_possible and _reads(map_column, values) else None


def _base64_form(column: Column, values: Sequence[Any]) -> ProposedForm | None:
    """The form of texts in base64. Texts of which none ends with = are perhaps only words."""
    if not any(isinstance(value, str) and value.endswith("=") for value in values):
        return None
    contents = [_read_base64(value) for value in values if len(str(value)) >= _LEAST_LENGTH]
    if len(contents) < len(values) or None in contents:
        return None
    path = column.field.place.names
    is_json = all(content is not None and content.startswith(b"{") for content in contents)
    effect = _JSON_IN_BASE64.format(source_text(path), source_text((*path, "NAME"))) if is_json else ""
    bytes_column = replace(column, type="BINARY", written="base64")
    return ProposedForm("looks like bytes in base64", "the bytes", bytes_column, effect)


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
    unit = named_epoch_unit(column.name, [*map(Decimal, texts)]) if all(map(_SINCE_1970.fullmatch, texts)) else None
    return _form_of_unit(column, unit, "looks like a time") if unit else None


def _unnamed_epoch_form(column: Column, texts: Sequence[str]) -> ProposedForm | None:
    """The form of texts that may be numbers of units since 1970, although the name of the column does not say so."""
    unit = epoch_unit([*map(Decimal, texts)]) if all(map(_THESE_YEARS.fullmatch, texts)) else None
    return _form_of_unit(column, unit, "may be a time") if unit else None


def _form_of_unit(column: Column, unit: Epoch, looks: str) -> ProposedForm:
    time = Time(epoch=unit, written="text" if column.type == "STRING" else None)
    time_column = replace(column, type="TIMESTAMP", written=time)
    return ProposedForm(
        f"{looks}, in {unit} since 1970", "times", time_column, _ROUNDED if unit == "nanoseconds" else ""
    )


def _number_form(column: Column, texts: Sequence[str]) -> ProposedForm | None:
    """The form of texts that are numbers, with a decimal point or comma, and perhaps with thousands separators.

    If a comma may be either, such as in 1,250, it separates thousands, and the effect names the other form.
    """
    fitting_forms = [form for form in _NUMBERS if all(map(form[0].fullmatch, texts))]
    certain_forms = [form for form in fitting_forms if any(map(form[1].search, texts))]
    if not fitting_forms or are_like_times(texts):
        return None
    number, _, written = (certain_forms or fitting_forms)[0]
    matches = filter(None, map(number.fullmatch, texts))
    scale = max(len("".join(filter(None, match.groups()))) for match in matches)
    number_column = replace(column, type=f"DECIMAL(38,{scale})" if scale else "BIGINT", written=written)
    effect = "Further decimal places are rounded." if scale else "A number with a fraction would be rejected."
    if not certain_forms and written != _DECIMAL_COMMA and _DECIMAL_COMMA in [form[2] for form in fitting_forms]:
        example = next(text for text in texts if "," in text)
        effect += f" If {example} has a decimal comma, use a DECIMAL and {_DECIMAL_COMMA!r} in its place."
    return ProposedForm("has numbers as text", "numbers", number_column, effect)
