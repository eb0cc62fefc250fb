"""What formats have in common whose schemas give types: Avro and Protobuf."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from lakehouse.decoding.column_types import column_type_problems, digits_of, is_field_name
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.format import (
    Format,
    Path,
    RegisteredSchema,
    SchemaField,
    UnusableSchemaError,
    WriterSchema,
)
from lakehouse.decoding.record_parts import VALUE

_NUMBERS = ("INT", "BIGINT", "DOUBLE")  # each represents the values of those before it, at least approximately
_NOT_NESTED = (None, "BINARY")  # no type at all, and bytes, which a nested type does not have
_KINDS = {Decimal: "a number", str: "text", bool: "true or false", dict: "an object", list: "an array"}
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
    return decimal_type(max(precision - scale, other_precision - other_scale) + max_scale, max_scale)


def decimal_type(precision: object, scale: object) -> str | None:
    """The type of decimals as a schema describes them; ``None`` if no column has it."""
    decimal = f"DECIMAL({precision},{scale})"
    return None if any(column_type_problems(decimal)) else decimal


def nested_type(pattern: str, inner_type: str | None) -> str | None:
    """The type of an array or a map, with the type of its items or values in it; ``None`` if these are bytes."""
    return None if inner_type in _NOT_NESTED else pattern.format(inner_type)


def struct_of(inner_types: Iterable[tuple[str, str | None]]) -> str | None:
    """The type of a struct of the fields with a column type and a valid name; ``None`` if it has none, or too many."""
    pairs = [(name, type_) for name, type_ in inner_types if type_ not in _NOT_NESTED and is_field_name(name)]
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


def require_type(value: Any, type_: type) -> Any:
    """A value of a line, which must have a type; raises ``ValueError`` if it has another one."""
    if not isinstance(value, type_):
        raise ValueError(f"{str(value)[:60]!r} is not {_KINDS.get(type_, 'null')}")
    return value


def field_tree(fields: Iterable[Field], schema_type: Callable[[Field], Any]) -> dict[str, Any]:
    """Return the fields by name; an object is a dict of its fields, and so is a struct outside of arrays and maps.

    ``schema_type`` is the type that a schema gives a field. Raises ``UnusableSchemaError`` if columns read a field in
    ways that no schema can describe.
    """
    root: dict[str, Any] = {}
    for field in fields:
        if field.place.part == VALUE:
            _add_field(root, field.place.names, field, schema_type)
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
    parent[names[-1]] = field if field.limits.required else former_field


class SchemaTools(NamedTuple):
    """The functions of a format that only the driver needs; each is described by the method that calls it."""

    line_writer: Callable[[int, WriterSchema], Callable[[bytes], bytes]]
    schema_of_fields: Callable[[str, Iterable[Field]], str]
    writer_schema: Callable[[RegisteredSchema], WriterSchema]
    schema_fields: Callable[[Iterable[WriterSchema], int], Mapping[Path, SchemaField]]


class SchemaFormat(Format):
    """A format whose values are decoded by schemas, which give the fields and their types."""

    typed = True
    names_records = True

    @property
    @abstractmethod
    def tools(self) -> SchemaTools:
        """The functions that only the driver needs; their modules are imported when they are asked for."""

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return a writer of lines by a schema; of several types in it, the first one."""
        if schema is None:
            raise ValueError(f"writing {self.name} needs a schema")
        return self.tools.line_writer(schema_id, schema)

    def declared_schema(self, name: str, fields: Iterable[Field]) -> str:
        """Derive a schema from a declaration: one field for each field that a column reads."""
        return self.tools.schema_of_fields(name, fields)

    def writer_schema(self, registered: RegisteredSchema) -> WriterSchema:
        """Return a schema in the form that decodes values; raises ``UnusableSchemaError`` if none can be read."""
        if registered.kind != self.schema_kind:
            raise UnusableSchemaError(f"it is a schema of {registered.kind}, not of {self.name}")
        return self.tools.writer_schema(registered)

    def schema_fields(self, schemas: Iterable[WriterSchema], limit: int) -> Mapping[Path, SchemaField]:
        """The fields of records; of several number types, the one that represents the values of all."""
        return self.tools.schema_fields(schemas, limit)

    def as_json(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """A parsed value with its numbers as decimals, as JSON is parsed."""
        return {name: as_json(value) for name, value in parsed.items()}
