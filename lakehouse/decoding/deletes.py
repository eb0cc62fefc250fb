"""Which records delete the row of their key, what is read of them, and whether an update changes the key of its row."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Field, Rejection, as_written, is_null_text, json_kind, raise_no_object, short_text

DeleteValue = str | bool | int
FORMER = "old"
"""The name of the rows before an update, next to the array of those after it, as Canal writes them."""
Way = tuple[str, ...]
CERTAIN_KINDS = (str, bool, int, type(None))
"""Types of a value that a native parser certainly made of what was written, and that a rule can compare."""


class Delete(dict[str, Any]):
    """What a record says that deletes the row of its key: the key and the version. It equals no row.

    It is empty for the tombstone that follows a delete in a change stream, which deletes nothing more.
    """

    __hash__ = None

    def __eq__(self, value: object) -> bool:
        """Whether a value is of the same class and has the same values."""
        return type(value) is type(self) and super().__eq__(value)

    def __ne__(self, value: object) -> bool:
        """Whether a value is not equal."""
        return not self == value

    def __repr__(self) -> str:
        """Return the class and the values."""
        return f"{type(self).__name__}({super().__repr__()})"


class Truncate(Delete):
    """What a record says that deletes every older row: the version, if the table has one. It equals no row."""


class DeleteRule(NamedTuple):
    """The rule by which a record deletes the row of its key.

    ``path`` are the names that lead to the field that decides, and ``values`` are those that mean a delete. Without a
    path, a record without a value deletes. ``names`` are the columns that are read of a delete. In a change stream,
    only ``names`` count: its format says which records delete.
    """

    path: tuple[str, ...]
    values: tuple[DeleteValue, ...]
    names: tuple[str, ...]

    def read_fields(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        """Return the rules for the fields that are read of a delete: its key and version, which must be present."""
        return tuple(field.when_required() for field in fields if field.name in self.names)

    def is_delete(self, parsed: dict[str, Any]) -> bool:
        """Whether a field of a parsed value says that the record deletes; not if the field is missing or null.

        Raises ``Rejection`` with the reason ``wrong_type`` if the field is neither a text nor a number nor a boolean,
        or if it is inside of something that is not an object.
        """
        return bool(self.path) and has_value(parsed, self.path, self.values)


def has_value(parsed: Mapping[str, Any], path: tuple[str, ...], values: tuple[DeleteValue, ...]) -> bool:
    """Whether the field at a path has one of some values; not if it is missing or null.

    Raises ``Rejection`` with the reason ``wrong_type`` if the field is neither a text nor a number nor a boolean, or if
    it is inside of something that is not an object.
    """
    raw = as_written(deciding_value(parsed, path))
    if not isinstance(raw, str | int | float | Decimal | None):
        raise Rejection("wrong_type", f"{'.'.join(path)!r} is {json_kind(raw)}, expected a text or a number")
    return is_one_of(raw, values)


def deciding_value(parsed: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path; ``None`` if there is none. Raises ``Rejection`` if it is inside of no object."""
    raw: Any = parsed
    for depth, name in enumerate(path):
        raw = None if is_null_text(raw) else raw
        if raw is not None and not isinstance(raw, dict):
            raise_no_object(raw, ".".join(filter(None, path[:depth])))  # without the element
        raw = raw.get(name) if raw is not None else None
    return raw


def is_one_of(raw: Any, values: tuple[DeleteValue, ...]) -> bool:
    """Whether a text, a number or a boolean is one of some values, with the same type."""
    kind = (bool if isinstance(raw, bool) else str) if isinstance(raw, str | bool) else int
    return raw is not None and any(type(value) is kind and raw == value for value in values)


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
