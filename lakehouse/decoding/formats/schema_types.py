"""The fields that several schemas describe, in Avro or in Protobuf."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from lakehouse.decoding.column_types import column_type_problems, digits_of, is_field_name
from lakehouse.decoding.formats.format import Path, SchemaField

_NUMBERS = ("INT", "BIGINT", "DOUBLE")  # each represents the values of those before it, at least approximately
_MAX_TYPE_LENGTH = 10_000  # characters of the type of a column
MAX_LEVELS = 5
"""Of objects within objects whose fields become columns."""


def merged_fields(fields_of_schemas: Iterable[Iterable[tuple[Path, SchemaField]]]) -> dict[Path, SchemaField]:
    """The fields of several schemas, by path.

    If schemas differ, the first one counts; of several number types, the one that represents the values of all.
    """
    fields: dict[Path, SchemaField] = {}
    for schema_fields in fields_of_schemas:
        for path, field in schema_fields:
            fields[path] = _merge_fields(fields[path], field) if path in fields else field
    fields.pop((), None)  # of a record without a field
    # a field that is a record in one schema and not in another is read as a whole, or not at all
    return {path: field for path, field in fields.items() if not any(path[:n] in fields for n in range(1, len(path)))}


def _merge_fields(field: SchemaField, other_field: SchemaField) -> SchemaField:
    """Combine what two schemas say about a field."""
    return SchemaField(_wider_type(field.type, other_field.type), field.optional or other_field.optional)


def _wider_type(type_: str | None, other_type: str | None) -> str | None:
    if type_ in _NUMBERS and other_type in _NUMBERS:
        return max(type_, other_type, key=_NUMBERS.index)
    if type_ is None or other_type is None or not type_.startswith("DECIMAL") or not other_type.startswith("DECIMAL"):
        return type_
    (precision, scale), (other_precision, other_scale) = digits_of(type_), digits_of(other_type)
    max_scale = max(scale, other_scale)
    decimal = f"DECIMAL({max(precision - scale, other_precision - other_scale) + max_scale},{max_scale})"
    return None if any(column_type_problems(decimal)) else decimal


def struct_of(inner_types: Iterable[tuple[str, str | None]]) -> str | None:
    """The type of a struct of the fields with a column type and a valid name; ``None`` if it has none, or too many."""
    pairs = [(name, type_) for name, type_ in inner_types if type_ and is_field_name(name)]
    fields = {name.lower(): f"{name}: {type_}" for name, type_ in reversed(pairs)}
    struct_type = f"STRUCT<{', '.join(reversed(fields.values()))}>"
    return struct_type if fields and len(struct_type) <= _MAX_TYPE_LENGTH else None


def as_json(value: Any) -> Any:
    """A value with its numbers as decimals, as JSON is parsed."""
    if isinstance(value, dict):
        return {name: as_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return Decimal(repr(value))
