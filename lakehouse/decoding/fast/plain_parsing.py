"""Parse the values of many records with a native parser, or one by one with the parser of their format."""

import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from lakehouse.decoding.fast.plain_numbers import Mask
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.judge import may_be_too_large
from lakehouse.decoding.memory import MAX_RECORD_MEMORY, MAX_SLICE_MEMORY
from lakehouse.decoding.record_parts import ELEMENT
from lakehouse.decoding.rules import Rules, column_memory

_STRING_OR_NOT_FINITE = re.compile(rb'("(?:[^"\\]++|\\.)*+"?)|-?Infinity|NaN', re.DOTALL)


def parse_objects(
    values: list[bytes | None], parse_one: Callable[[bytes | None], Any], array_types: Collection[type] = ()
) -> tuple[list[dict[str, Any]], Mask]:
    """The parsed objects, empty ones for values that are not objects, and a mask of the objects.

    ``array_types``: the values are arrays, or of these types, each of which is the field ``ELEMENT`` of an object.
    """
    try:
        parsed = list(map(orjson.loads, values))  # type: ignore[arg-type]
    except orjson.JSONDecodeError:
        parsed = list(map(parse_one, values))
    if array_types:
        parsed = [{ELEMENT: value} if type(value) in array_types else None for value in parsed]
    if set(map(type, parsed)) == {dict}:
        return parsed, np.ones(len(parsed), bool)
    objects = [value if type(value) is dict else {} for value in parsed]
    return objects, np.fromiter((type(value) is dict for value in parsed), bool, len(parsed))


def parse_with_format(rules: Rules, values: pa.Array) -> tuple[list[dict[str, Any]], Mask]:
    """Parse like ``_parse``, with the parser of a format; stop when the objects take much memory."""
    memory_limits = column_memory(rules)
    safe_memory = MAX_RECORD_MEMORY - memory_limits[0] - values.nbytes * memory_limits[1]  # no record takes too much
    parse_value, memory_of = rules.parser.__call__, rules.parser.memory_of  # looked up once
    parsed: list[dict[str, Any] | None] = []
    total = 0
    for value in values.to_pylist():
        try:
            obj = parse_value(value)
        except Rejection:
            obj = None
        memory = memory_of(value)
        total += memory
        if total > MAX_SLICE_MEMORY and parsed:
            break
        if memory > safe_memory and may_be_too_large(memory, len(value or b""), memory_limits):
            obj = None
        parsed.append(obj)
    return [obj or {} for obj in parsed], np.fromiter((obj is not None for obj in parsed), bool, len(parsed))


def parse_or_none(value: bytes | None) -> Any:
    """The parsed value; ``None`` if it is not valid JSON."""
    try:
        return orjson.loads(value)  # type: ignore[arg-type]
    except orjson.JSONDecodeError:
        return None


def parse_with_nulls(value: bytes | None) -> Any:
    """Parse JSON in which NaN and infinities are null; those within strings are not matched as such."""
    parsed = parse_or_none(value)
    if parsed is not None or value is None:
        return parsed
    return parse_or_none(_STRING_OR_NOT_FINITE.sub(lambda match: match[1] or b"null", value))
