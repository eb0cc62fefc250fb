"""Read values that are written as text: keys, headers, and the fields of formats that have only texts.

The results are those that a native parser makes of JSON. A value that is not plain becomes an empty tuple, which no
column accepts.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.decoding.fast.plain_numbers import MAX_LENGTH
from lakehouse.decoding.fields import WHOLE_LIMITS, Field, Rejection, UnrepresentableValue
from lakehouse.decoding.record_keys import KeyParser
from lakehouse.decoding.record_parts import PARSED_KEY, TYPED_ENCODINGS
from lakehouse.decoding.values import ParsedKey, parse_part, read_text

_MAX_NUMBER_LENGTH = 18  # bytes of a number that 64 bits represent, as a whole number or as its nearest double
_WHOLE_NUMBER = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER = r"^-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,20})?$"


def read_parts(parts: list[Any], field: Field) -> list[Any]:
    """Parse other parts of records like ``values.parse_part``."""
    return [_read_part(part, field) if type(part) is bytes else part for part in parts]


def parsed_key_part(field: Field) -> str:
    """The name under which the values of a field in keys are kept, which is that of its column."""
    return f"{PARSED_KEY} {field.name}"


def read_parsed_keys(keys: list[bytes | None], fields: Iterable[Field], parse_key: KeyParser) -> dict[str, list[Any]]:
    """Read the fields in keys. Each key is parsed once, and only the values of fields are kept."""
    key_fields = [field for field in fields if field.part == PARSED_KEY]
    values: dict[str, list[Any]] = {parsed_key_part(field): [] for field in key_fields}
    for key in keys:
        parsed_key = parse_key(key)
        for field in key_fields:
            values[parsed_key_part(field)].append(None if parsed_key is None else _read_part(parsed_key, field))
    return values


def read_texts(texts: list[Any], field: Field) -> list[Any]:
    """Read the texts of a field like ``values.read_text``; one that was opened for another column is not plain."""
    if field.type == "STRING" or field.pattern is not None or field.written is not None:
        return texts
    if not set(map(type, texts)) <= {str, type(None)}:
        read_values = read_texts([text if type(text) is str else None for text in texts], field)
        pairs = zip(texts, read_values, strict=True)
        return [value if text is None or type(text) is str else () for text, value in pairs]
    if field.type == "BOOLEAN":
        return [text if text is None else read_text(text, field) for text in texts]
    is_whole = field.type in WHOLE_LIMITS
    try:
        array = pa.array(texts, pa.large_string())
    except UnicodeEncodeError:  # half of a surrogate pair
        return [text if text is None else _plain_value(read_text(text, field), text) for text in texts]
    is_plain = pc.match_substring_regex(array, _WHOLE_NUMBER if is_whole else _NUMBER)
    if field.type.startswith("DECIMAL"):  # the double of a longer number does not show every digit
        is_plain = pc.and_(is_plain, pc.less_equal(pc.binary_length(array), MAX_LENGTH))
    numbers = pc.if_else(is_plain, array, None).cast(pa.int64() if is_whole else pa.float64())
    if numbers.null_count == array.null_count:
        return list(numbers.to_pylist())
    pairs = zip(texts, numbers.to_pylist(), strict=True)
    return [() if number is None and text is not None else number for text, number in pairs]


def _read_part(part: bytes | ParsedKey, field: Field) -> Any:
    try:
        value = parse_part(part, field)
        if field.key_encoding in TYPED_ENCODINGS:
            return value
        return _plain_value(value, part.decode("latin-1") if isinstance(part, bytes) else str(value))
    except Rejection:
        return ()


def _plain_value(value: Any, text: str) -> Any:
    """A number that 64 bits represent as an ``int`` or a ``float``; other values unchanged."""
    if type(value) is not Decimal:
        return () if type(value) is UnrepresentableValue else value
    if len(text) > (MAX_LENGTH if "." in text else _MAX_NUMBER_LENGTH) or "e" in text.lower():
        return ()
    return float(value) if "." in text else int(value)
