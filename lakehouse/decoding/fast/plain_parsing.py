"""Parse the JSON of many records with a native parser."""

import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from lakehouse.decoding.json_parsing import JsonOptions

Native = ModuleType
"""The module ``orjson``, which not every machine has."""
_STRING_OR_NOT_FINITE = re.compile(rb'("(?:[^"\\]++|\\.)*+"?)|-?Infinity|NaN', re.DOTALL)


def find_native() -> Native | None:
    """The native parser of this machine; ``None`` if it has none, which costs only time."""
    try:
        import orjson  # noqa: PLC0415 - not every machine has it
    except ImportError:
        return None
    return orjson


def parse_contents(values: Sequence[bytes | None], options: JsonOptions, native: Native) -> list[Any]:
    """What the values are; ``None`` for those that are not valid JSON."""
    try:
        return list(map(native.loads, values))
    except native.JSONDecodeError:
        parse_one = _parse_with_nulls if options.not_finite == "null" else parse_or_none
        return [parse_one(value, native) for value in values]


def parse_or_none(value: bytes | str | None, native: Native) -> Any:
    """The parsed value; ``None`` if it is not valid JSON."""
    try:
        return native.loads(value)
    except native.JSONDecodeError:
        return None


def _parse_with_nulls(value: bytes | None, native: Native) -> Any:
    """Parse JSON in which NaN and infinities are null; those within strings are not matched as such."""
    parsed = parse_or_none(value, native)
    if parsed is not None or value is None:
        return parsed
    return parse_or_none(_STRING_OR_NOT_FINITE.sub(lambda match: match[1] or b"null", value), native)
