"""The values of a change stream by the types of its connector: times, dates and decimals.

A schema names the type of a field, for example ``io.debezium.time.MicroTimestamp``. Pure and self-contained (the
standard library only).
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import md5
from math import isfinite
from typing import Any
from uuid import UUID

from lakehouse.decoding.fields import UnrepresentableValue
from lakehouse.decoding.formats.avro.logical import TIME_CONVERTERS, to_date
from lakehouse.decoding.numbers import base64_converter, variable_decimal

PLACEHOLDER = "__debezium_unavailable_value"
"""What a connector sends in place of a value that did not change, unless ``unavailable.value.placeholder`` is set."""
HEX_PREFIX = "hex:"
"""What that setting begins with if it is bytes in hexadecimal digits."""
Convert = Callable[[Any], Any]
"""Convert a value that is not null; a value that does not have the form of its type stays as it is."""

_WHOLE_LIMIT = 2**63
_ISO_TIME = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-](?:0\d|1[0-4]):[0-5]\d)", re.ASCII
)
_DECIMAL, _VARIABLE_DECIMAL = "org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal"


def converter_of(type_name: Any, parameters: Any) -> Convert | None:
    """Return what converts values of a named type; ``None`` if they stay as they are."""
    if type_name == _DECIMAL and isinstance(parameters, dict):
        return base64_converter(_scale_text(parameters.get("scale")))
    return _CONVERTERS.get(type_name) if isinstance(type_name, str) else None


def _scale_text(scale: Any) -> str:
    """A scale as text. A number is read in each spelling, because schemas with equal numbers are equal."""
    is_whole = isinstance(scale, int | float | Decimal) and isfinite(scale) and scale == int(scale)
    return str(int(scale)) if is_whole else str(scale)


class Placeholder:
    """What is in place of a value that did not change, and that the database did not log again."""

    def __init__(self, setting: str) -> None:
        """Take the value of ``unavailable.value.placeholder``; raises ``ValueError`` if its digits are wrong."""
        is_hex = setting.startswith(HEX_PREFIX)
        self._data = bytes.fromhex(setting.removeprefix(HEX_PREFIX)) if is_hex else setting.encode()
        self._text = self._data.decode(errors="replace")
        as_uuid = UUID(bytes=md5(self._data, usedforsecurity=False).digest(), version=3)
        hstore = f'{{"{self._text}":"{self._text}"}}'
        # as text, as bytes in Base64 or hex, as hstore, as UUID
        base64_text = b64encode(self._data).decode()
        self._texts = frozenset({self._text, base64_text, self._data.hex(), hstore, str(as_uuid)})
        self._scalars = frozenset({*self._texts, self._data})

    def may_be_in(self, values: Iterable[Any]) -> bool:
        """Whether one of some values may be the placeholder: it is certain that none is, if all are scalars."""
        try:
            return not self._scalars.isdisjoint(values)
        except TypeError:  # an object or an array
            return True

    def is_in(self, raw: Any) -> bool:
        """Whether a value is the placeholder."""
        if isinstance(raw, list):
            return raw == list(self._data) or (len(raw) == 1 and self.is_in(raw[0]))
        if isinstance(raw, dict):
            return raw == {self._text: self._text}
        return raw == self._data if isinstance(raw, bytes) else isinstance(raw, str) and raw in self._texts


def iso_time(raw: Any) -> Any:
    """Return the time that a text in ISO 8601 with a zone writes, rounded to microseconds; ties are rounded up."""
    match = _ISO_TIME.fullmatch(raw) if isinstance(raw, str) else None
    if match is None:
        return raw
    minute, second, fraction, zone = match.groups()
    nanoseconds = int((fraction or "").ljust(9, "0"))
    try:
        time = datetime.fromisoformat(f"{minute}:{second or '00'}{zone}").astimezone(UTC)
        return time + timedelta(microseconds=(nanoseconds + 500) // 1000)
    except (ValueError, OverflowError):
        return UnrepresentableValue(raw)


def _of_whole(convert: Convert) -> Convert:
    """Return what converts a whole number; other values stay as they are."""

    def convert_number(raw: Any) -> Any:
        if isinstance(raw, bool) or not isinstance(raw, int | Decimal) or not isfinite(raw):
            return raw
        if not -_WHOLE_LIMIT <= raw < _WHOLE_LIMIT:
            return UnrepresentableValue(str(raw)[:80])
        return convert(int(raw)) if raw == int(raw) else raw

    return convert_number


milliseconds_time, _MICROSECONDS, _NANOSECONDS = (
    _of_whole(TIME_CONVERTERS[f"timestamp-{unit}"]) for unit in ("millis", "micros", "nanos")
)
_CONVERTERS: Mapping[str, Convert] = {
    "io.debezium.time.Date": _of_whole(to_date),
    "org.apache.kafka.connect.data.Date": _of_whole(to_date),
    "io.debezium.time.Timestamp": milliseconds_time,
    "org.apache.kafka.connect.data.Timestamp": milliseconds_time,
    "io.debezium.time.MicroTimestamp": _MICROSECONDS,
    "io.debezium.time.NanoTimestamp": _NANOSECONDS,
    "io.debezium.time.ZonedTimestamp": iso_time,
    _VARIABLE_DECIMAL: variable_decimal,
}
