"""Whether an update changes the key of its row: the row of the former key would stay, since a record is about one key.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lakehouse.decoding.fields import Rejection, short_text

FORMER = "old"
"""The name of the rows before an update, next to the array of those after it, as Canal writes them."""
Way = tuple[str, ...]
CERTAIN_KINDS = (str, bool, int, type(None))
"""Types of a value that a native parser certainly made of what was written, and that a rule can compare."""


def require_same_key(former: Any, row: Any, ways: Iterable[Way]) -> None:
    """Reject an update whose row had another key before; ``ways`` are the paths of the key in both.

    A value that is missing or null before is that of after. Raises ``Rejection``.
    """
    for way in ways:
        former_value, value = value_at(former, way), value_at(row, way)
        if former_value is not None and former_value != value:
            change = f"{'.'.join(way)!r} was {short_text(former_value)} and is {short_text(value)}"
            raise Rejection("key_changed", f"{change}: the row of the former key would stay")


def has_same_key(former: Any, row: Any, ways: Iterable[Way]) -> bool:
    """Whether an update certainly has the key that its row had before, if a native parser read both."""
    pairs = ((value_at(former, way), value_at(row, way)) for way in ways if former is not None)
    return all(old is None or (type(old) in CERTAIN_KINDS and old == new) for old, new in pairs)


def value_at(parsed: Any, way: Way) -> Any:
    """The value at the end of a path; ``None`` if there is none."""
    for name in way:
        parsed = parsed.get(name) if isinstance(parsed, Mapping) else None
    return parsed


def former_rows(parent: Any, path: Way) -> list[Any]:
    """The rows before an update, next to the array at a path; an object is the only one."""
    former = value_at(parent, (*path[:-1], FORMER))
    return former if isinstance(former, list) else [former]
