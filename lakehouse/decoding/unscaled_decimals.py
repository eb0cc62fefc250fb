"""Decimals as Avro and Kafka Connect write them: the bytes of the unscaled number, highest byte first."""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from lakehouse.decoding.fields import UnrepresentableValue
from lakehouse.decoding.numbers import scaled_decimal

MAX_DECIMAL_BYTES = 64
"""No column has as many digits, and to convert a megabyte takes minutes."""
_MAX_SCALE = 1_000


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
