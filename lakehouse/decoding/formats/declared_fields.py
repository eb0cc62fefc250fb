"""The fields that the columns of a declaration read, as the objects of a record contain them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.format import UnusableSchemaError
from lakehouse.decoding.record_parts import VALUE


def field_tree(fields: Iterable[Field], schema_type: Callable[[Field], Any]) -> dict[str, Any]:
    """Return the fields by name; an object is a dict of its fields, and so is a struct outside of arrays and maps.

    ``schema_type`` is the type that a schema gives a field. Raises ``UnusableSchemaError`` if columns read a field in
    ways that no schema can describe.
    """
    root: dict[str, Any] = {}
    for field in fields:
        if field.part == VALUE:
            _add_field(root, field.names, field, schema_type)
    return root


def _add_field(root: dict[str, Any], names: Sequence[str], field: Field, schema_type: Callable[[Field], Any]) -> None:
    """Add a field at its path; add a struct as its fields, since columns may read more fields at their paths."""
    if field.type.startswith("STRUCT"):
        for inner in field.inner:
            _add_field(root, (*names, inner.name), inner, schema_type)
        return
    parent: Any = root
    for name in names[:-1]:
        parent = parent.setdefault(name, {})
        if not isinstance(parent, dict):
            raise UnusableSchemaError(f"columns read {name!r} both as a whole and by its fields")
    former_field = parent.setdefault(names[-1], field)
    if isinstance(former_field, dict):
        raise UnusableSchemaError(f"columns read {names[-1]!r} both as a whole and by its fields")
    if schema_type(former_field) != schema_type(field):
        raise UnusableSchemaError(f"columns read {names[-1]!r} with two different types")
    parent[names[-1]] = field if field.required else former_field
