"""Read values that are not in JSON's own form into that form, strictly: ``values`` converts them to typed values.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import re
from decimal import Decimal
from typing import Any, NoReturn

from lakehouse.decoding.byte_texts import byte_reader
from lakehouse.decoding.fields import Field, Rejection, UnrepresentableValue, as_written, json_kind, short_text
from lakehouse.decoding.json_texts import json_text, number_text
from lakehouse.decoding.key_values import read_key_values, read_otlp_value
from lakehouse.decoding.numbers import base64_converter, exact_number, number_in, parse_number, variable_decimal
from lakehouse.decoding.written_forms import DIGIT_KINDS, TextNumber, becomes_json, boolean_form, number_form


def read_written(raw: Any, field: Field) -> Any:
    """The value of a field with ``written``, in the form in which JSON, or for bytes Avro, would have it.

    Raises ``Rejection`` with one of the reasons ``wrong_type``, ``out_of_range``, ``not_finite`` and
    ``duplicate_name``.
    """
    if becomes_json(field.form.written):
        return _read_as_text(raw, field)
    raw = as_written(raw)
    if field.form.written in ("connect", "unsigned"):
        return _read_unscaled(raw, field) if field.form.written == "connect" else _read_unsigned(raw, field)
    if field.type == "BOOLEAN":
        return _read_boolean(raw, field)
    if field.type == "BINARY":
        data = byte_reader(field.form.written)(raw)
        return data if data is not None else _raise_wrong_form(raw, field)
    if field.type == "STRING" or field.form.pattern is not None:
        return _read_digits(raw, field)
    return _read_number(raw, field)


def _read_as_text(raw: Any, field: Field) -> Any:
    if field.form.written == "json":
        return json_text(raw, field)
    return read_key_values(raw, field) if field.inner else read_otlp_value(raw, field)


def _read_number(raw: Any, field: Field) -> Any:
    """The number that a text writes; also a number of JSON, if the form allows it."""
    form = number_form(field.form.written)
    if not isinstance(raw, str):
        is_number = isinstance(raw, Decimal | int | float | UnrepresentableValue) and not isinstance(raw, bool)
        return raw if form.or_number and is_number else _raise_wrong_form(raw, field)
    match = _REGEXES[form].fullmatch(raw)
    if match is None:
        _raise_wrong_form(raw, field)
    signs = match["before"] + match["sign"] + match["after"]
    if len(signs) > 1:
        _raise_wrong_form(raw, field)
    digits = match["digits"].replace(form.thousands, "") if form.thousands else match["digits"]
    return parse_number(signs + digits.replace(form.decimal, "."))


class _Regexes(dict[TextNumber, re.Pattern[str]]):
    def __missing__(self, form: TextNumber) -> re.Pattern[str]:
        self[form] = re.compile(_regex_of(form), re.ASCII)
        return self[form]


_REGEXES = _Regexes()


def _regex_of(form: TextNumber) -> str:
    """The pattern of a number as text; of its signs, only one may be present."""
    decimal, thousands = re.escape(form.decimal), re.escape(form.thousands)
    whole = rf"(?:\d{{1,3}}(?:{thousands}\d{{3}})+|\d+)" if form.thousands else r"\d+"
    exponent = r"(?:[eE][+-]?\d+)?" if form.allows_exponent else ""
    digits = rf"(?:{whole}(?:{decimal}\d+)?|{decimal}\d+){exponent}"
    after = "[+-]?" if form.trailing_sign else ""
    prefix, suffix = re.escape(form.prefix), re.escape(form.suffix)
    return rf"(?P<before>[+-]?){prefix}(?P<sign>[+-]?)(?P<digits>{digits})(?P<after>{after}){suffix}"


def _read_boolean(raw: Any, field: Field) -> bool:
    form = boolean_form(field.form.written)
    kind = type(raw) if isinstance(raw, str | bool) else int
    if isinstance(raw, str | bool | int | float | Decimal):
        for is_true, values in ((True, form.true), (False, form.false)):
            if any(type(value) is kind and raw == value for value in values):
                return is_true
    return _raise_wrong_form(raw, field)


def _read_unsigned(raw: Any, field: Field) -> int | Decimal:
    """The number whose 64 bits a number with a sign has, or that bytes write; another number stays as it is.

    Bytes have no sign, so that Base64 of them begins with a letter.
    """
    text_number = number_in(raw) if isinstance(raw, str) else raw
    number = exact_number(_read_unscaled(raw, field, "0") if text_number is None else text_number, field)
    if text_number is None and number < 0:
        _raise_wrong_form(raw, field)
    has_sign = number == number.to_integral_value() and -(2**63) <= number < 0
    return int(number) + 2**64 if has_sign else number


def _read_digits(raw: Any, field: Field) -> str:
    """The text of a number; also a text itself, if the form allows it."""
    if isinstance(raw, str):
        return raw if str in DIGIT_KINDS[field.form.written] else _raise_wrong_form(raw, field)
    return number_text(exact_number(raw, field))


def _read_unscaled(raw: Any, field: Field, scale: str | None = None) -> Decimal | UnrepresentableValue:
    """The number of Kafka Connect: the unscaled bytes with the scale of the column, or with their own."""
    number = None
    convert = base64_converter(scale or field.type[8:-1].split(",")[1])
    if isinstance(raw, str | bytes) and convert:
        number = convert(raw)
    elif isinstance(raw, dict) and raw.keys() == {"scale", "value"} and isinstance(raw["value"], str | bytes):
        number = variable_decimal(raw) if not isinstance(raw["scale"], str) else None
    return number if isinstance(number, Decimal | UnrepresentableValue) else _raise_wrong_form(raw, field)


def _raise_wrong_form(raw: Any, field: Field) -> NoReturn:
    shown_text = f"{json_kind(raw)} {short_text(raw)}"
    raise Rejection(
        "wrong_type",
        f"{field.source!r} is {shown_text}, expected {field.type} with written={field.form.written!r}",
    )
