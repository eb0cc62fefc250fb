"""Which records delete the row of their key, and what is read of them.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Field, Rejection, json_kind

DeleteValue = str | bool | int


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
        return tuple(field._replace(required=True, default=None) for field in fields if field.name in self.names)

    def is_tombstone(self, value: bytes | None) -> bool:
        """Whether a record deletes because it has no value."""
        return not self.path and value is None

    def is_delete(self, parsed: dict[str, Any]) -> bool:
        """Whether a field of a parsed value says that the record deletes; not if the field is missing or null.

        Raises ``Rejection`` with the reason ``wrong_type`` if the field is neither a text nor a number nor a boolean,
        or if it is inside of something that is not an object.
        """
        if not self.path:
            return False
        raw: Any = parsed
        for depth, name in enumerate(self.path):
            if raw is not None and not isinstance(raw, dict):
                raise Rejection("wrong_type", f"{'.'.join(self.path[:depth])!r} is {json_kind(raw)}, not an object")
            raw = raw.get(name) if raw is not None else None
        if not isinstance(raw, str | int | float | Decimal | None):
            raise Rejection("wrong_type", f"{'.'.join(self.path)!r} is {json_kind(raw)}, expected a text or a number")
        return self.is_delete_value(raw)

    def is_delete_value(self, raw: Any) -> bool:
        """Whether a text, a number or a boolean means that the record deletes."""
        kind = type(raw) if isinstance(raw, str | bool) else int
        return raw is not None and any(type(value) is kind and raw == value for value in self.values)
