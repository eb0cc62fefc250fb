"""Which JSON records have no object with two equal names: a native parser silently keeps one of two.

The number of strings in the bytes is compared with the number of strings in what was parsed, names included.
"""

from types import ModuleType
from typing import Any

import numpy as np

from lakehouse.decoding.fast.plain_numbers import Mask

_MAX_LEVELS = 50  # of nesting that the strict parser certainly accepts


def has_unique_names(values: list[bytes | None], contents: list[Any], native: ModuleType) -> Mask:
    """A mask of the records with as many strings written as parsed, whose nesting the strict parser accepts.

    ``contents`` are what the native parser made of the values; ``None`` if a value is not valid, or is null.
    """
    try:
        parsed = native.dumps(contents)
    except native.JSONEncodeError:  # nested too deeply
        parsed = b""
    # no record has fewer strings written than parsed: if the sums are equal, those of each record are equal
    has_equal_sums = bool(parsed) and _count_quotes(b"\n".join([value or b"" for value in values])) == _count_quotes(
        parsed
    )
    may_be_deep = _count_containers(parsed) - len(values) > _MAX_LEVELS
    if has_equal_sums and not may_be_deep:
        return np.ones(len(values), bool)
    pairs = zip(values, contents, strict=True)
    if has_equal_sums:
        return np.fromiter((not _is_deep(value, content) for value, content in pairs), bool, len(values))
    return np.fromiter((_is_unique(value, content, native) for value, content in pairs), bool, len(values))


def _is_unique(value: bytes | None, content: Any, native: ModuleType) -> bool:
    if value is None or content is None:
        return True  # there is no object
    if _is_deep(value, content):
        return False
    return _count_quotes(value) == _count_quotes(native.dumps(content))


def _count_quotes(text: bytes) -> int:
    """Count the quotes that begin or end a string in JSON, in time linear to the length for any input."""
    if b"\\" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    return text.count(b'"')


def _count_containers(text: bytes) -> int:
    """Count the objects and arrays in JSON; at least these, since a string may contain their signs."""
    return text.count(b"[") + text.count(b"{")


def _is_deep(value: bytes | None, content: Any) -> bool:
    """Whether a record is nested so deeply that the strict parser may reject it."""
    if value is None or _count_containers(value) <= _MAX_LEVELS:
        return False
    level = [content] if type(content) in (dict, list) else []
    for _ in range(_MAX_LEVELS):
        level = [
            inner
            for container in level
            for inner in (container.values() if type(container) is dict else container)
            if type(inner) in (dict, list)
        ]
        if not level:
            return False
    return True
