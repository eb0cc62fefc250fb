"""Exact numbers: a written number becomes the nearest value of a type, or a rejection.

Also decimals as Avro and Kafka Connect write them: the bytes of the unscaled number, highest byte first.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from lakehouse.decoding.fields import (
    WHOLE_LIMITS,
    Field,
    Rejection,
    UnrepresentableValue,
    raise_out_of_range,
    raise_wrong_type,
    short_text,
)

MAX_DECIMAL_BYTES = 64
"""No column has as many digits, and to convert a megabyte takes minutes."""
_MAX_SCALE = 1_000
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
"""A number as JSON writes it."""
# never the caller's context, which rounds to 28 digits
_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])


class RoundedDecimal(Decimal):
    """A decimal that lost digits when it was rounded to the scale of its column."""


def has_rounded(value: Any) -> bool:
    """Whether a value is such a decimal, or contains one."""
    if type(value) is RoundedDecimal:
        return True
    if isinstance(value, dict):
        return any(map(has_rounded, value.values()))
    return isinstance(value, list | tuple) and any(map(has_rounded, value))


def parse_number(text: str) -> Decimal | UnrepresentableValue:
    """Parse a JSON number with all of its digits; short numbers are cached."""
    return _SHORT_NUMBERS[text] if len(text) <= _MAX_CACHED_LENGTH else _parse_uncached(text)


def number_in(text: str) -> Decimal | UnrepresentableValue | None:
    """The number that a text writes; ``None`` if the text is not a number."""
    return parse_number(text) if NUMBER.fullmatch(text) else None


def _parse_uncached(text: str) -> Decimal | UnrepresentableValue:
    try:
        return Decimal(text, _EXACT)
    except InvalidOperation:
        return UnrepresentableValue(text)


class _NumberCache(dict[str, Decimal | UnrepresentableValue]):
    def __missing__(self, text: str) -> Decimal | UnrepresentableValue:
        self[text] = _parse_uncached(text)
        return self[text]


_MAX_CACHED_LENGTH = 4  # characters: such numbers are few, and each takes much more memory than its text
_SHORT_NUMBERS = _NumberCache()


def scaled_decimal(units: int, scale: int) -> Decimal:
    """The decimal with this many units of its last place, and ``scale`` decimal places."""
    return _EXACT.scaleb(Decimal(units), -scale)


def exact_number(raw: Any, field: Field) -> Decimal:
    """The exact number; raises ``Rejection`` if the value is not a finite number."""
    if isinstance(raw, UnrepresentableValue):
        raise Rejection("out_of_range", f"{field.source!r} is {short_text(raw)}, outside the range of all number types")
    if not isinstance(raw, Decimal | float | int) or isinstance(raw, bool):
        raise_wrong_type(raw, field)
    number = Decimal(repr(raw)) if isinstance(raw, float) else Decimal(raw)
    if not number.is_finite():
        raise Rejection("not_finite", f"{field.source!r} is {raw}")
    return number


def convert_number(raw: Any, field: Field) -> int | float | Decimal:
    """Convert a number to the field's type; raises ``Rejection`` if the type cannot represent it."""
    number = exact_number(raw, field)
    if field.type in WHOLE_LIMITS:
        return convert_whole(number, field)
    if field.type == "DOUBLE":
        double = float(number)
        # adding 0 turns -0.0 into 0.0: the two are equal, and it would be chance which of them a minimum keeps
        return raise_out_of_range(raw, field) if double in (float("inf"), float("-inf")) else double + 0.0
    return convert_decimal(number, field)


def convert_whole(number: Decimal, field: Field) -> int:
    """Convert to a whole number within the type's range; the range of days is that of INT."""
    limit = WHOLE_LIMITS.get(field.type, WHOLE_LIMITS["INT"])
    if (number and number.adjusted() > 20) or not -limit <= number < limit:
        raise_out_of_range(number, field)
    return int(number) if number == number.to_integral_value() else raise_wrong_type(number, field)


def convert_decimal(number: Decimal, field: Field) -> Decimal:
    """Round to the scale of the field's type, ties away from zero: the one rule for decimal keys."""
    precision, scale = (int(part) for part in field.type[8:-1].split(","))
    return round_decimal(number, precision, scale, field)


def round_decimal(number: Decimal, precision: int, scale: int, field: Field) -> Decimal:
    """Round to ``scale`` places, ties away from zero; raises ``Rejection`` if more than ``precision`` digits result.

    The result is a ``RoundedDecimal`` if digits were lost; if the column rejects such numbers, a ``Rejection``.
    """
    context = Context(prec=precision, rounding=ROUND_HALF_UP, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])
    try:
        rounded = context.plus(context.quantize(number, Decimal((0, (1,), -scale))))
    except InvalidOperation:
        return raise_out_of_range(number, field)
    if rounded == number:
        return rounded
    if field.limits.rejects_rounding:
        raise Rejection("too_many_places", f"{field.source!r} is {short_text(number)}, but {field.type} would round it")
    return RoundedDecimal(rounded)


def decimal_converter(scale: int) -> Callable[[bytes], Decimal | UnrepresentableValue]:
    """Return the function that converts the bytes of an unscaled number to a decimal."""

    def to_decimal(data: bytes) -> Decimal | UnrepresentableValue:
        if not 0 < len(data) <= MAX_DECIMAL_BYTES:
            return UnrepresentableValue(f"a decimal of {len(data)} bytes")
        return scaled_decimal(int.from_bytes(data, signed=True), scale)

    return to_decimal


def base64_converter(scale: str) -> Callable[[Any], Any] | None:
    """Return what converts the bytes of an unscaled number, in Base64 if they are a text; ``None`` without a scale.

    Values of another form stay as they are.
    """
    if not re.fullmatch(r"-?\d{1,4}", scale, re.ASCII) or abs(int(scale)) > _MAX_SCALE:
        return None
    convert = decimal_converter(int(scale))

    def convert_bytes(raw: Any) -> Any:
        if isinstance(raw, str):
            try:
                raw = b64decode(raw, validate=True)
            except (Error, ValueError):
                return raw
        return convert(raw) if isinstance(raw, bytes) else raw

    return convert_bytes


def variable_decimal(raw: Any) -> Any:
    """Return the number of an object with a scale and the bytes of the unscaled number; other values stay."""
    if not isinstance(raw, dict):
        return raw
    convert = base64_converter(str(raw.get("scale")))
    return convert(raw.get("value")) if convert else raw
