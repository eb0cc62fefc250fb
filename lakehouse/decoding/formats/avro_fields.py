"""What schemas of Avro say of fields: what is proposed for columns of records that were written by them."""

import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple

from lakehouse.decoding.column_types import column_type_problems, digits_of, is_field_name
from lakehouse.decoding.formats.avro_logical import as_meant
from lakehouse.decoding.formats.format import Path, SchemaField, WriterSchema

_PLAIN = {"boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "DOUBLE", "double": "DOUBLE"}
_PLAIN |= {"string": "STRING", "enum": "STRING"}
_NUMBERS = ("INT", "BIGINT", "DOUBLE")  # each holds the values of those before it, or what is nearest to them
_LONGEST = 10_000  # characters of a type
_MOST_LEVELS = 5  # of records within records


def schema_fields(schemas: Iterable[WriterSchema], most: int) -> dict[Path, SchemaField]:
    """What schemas say of their fields, so many of each at most, by the names that lead to them.

    Where they differ, the first is followed, but for numbers: of these, the type that holds those of both.
    """
    fields: dict[Path, SchemaField] = {}
    for schema in schemas:
        known, root = _Known({}, {}), json.loads(schema.text)
        for each in (*map(json.loads, schema.references), root):
            known.collect(each)
        for path, field in islice(_fields(root, known, (), optional=False), most):
            fields[path] = _both(fields[path], field) if path in fields else field
    fields.pop((), None)  # of a record without a field
    # what is a record by one schema and no record by another is taken as a whole, or not at all
    return {path: field for path, field in fields.items() if not any(path[:n] in fields for n in range(1, len(path)))}


def as_json(value: Any) -> Any:
    """A value that was read, with numbers as the proposal has them: as they are written."""
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return Decimal(repr(value))


class _Known(NamedTuple):
    """Schemas by their names, and the types of those that were asked for."""

    named: dict[str, Any]
    types: dict[str, str | None]

    def collect(self, schema: Any) -> None:
        """Take up the schemas that have names, in a schema and within it."""
        if isinstance(schema, list):
            for each in schema:
                self.collect(each)
        elif isinstance(schema, dict):
            if schema["type"] in ("record", "enum", "fixed"):
                self.named[schema["name"]] = schema
            within = [schema[part] for part in ("type", "items", "values") if part in schema]
            for each in (*within, *(field["type"] for field in schema.get("fields", ()))):
                self.collect(each)

    def meant(self, schema: Any) -> tuple[Any, bool]:
        """The schema that stands for a value that is there, and whether there may be none; unions of others stay."""
        if isinstance(schema, dict) and not isinstance(schema["type"], str):
            return self.meant(schema["type"])
        if isinstance(schema, str):
            return self.named.get(schema, schema), schema == "null"
        branches = [each for each in schema if each != "null"] if isinstance(schema, list) else []
        if len(branches) != 1:
            return schema, isinstance(schema, list) and len(branches) < len(schema)
        there, null = self.meant(branches[0])
        return there, null or len(schema) > 1


def _fields(
    schema: Any, known: _Known, path: Path, *, optional: bool, within: Path = ()
) -> Iterator[tuple[Path, SchemaField]]:
    """The fields of a record, and of those within it that are no record themselves, or hold themselves."""
    there, null = known.meant(schema)
    optional = optional or null
    deeper = isinstance(there, dict) and there["type"] == "record" and there["name"] not in within
    if not deeper or len(path) == _MOST_LEVELS or not there["fields"]:
        yield path, SchemaField(_type(there, known), optional)
        return
    for field in there["fields"]:
        way = (*within, there["name"])
        yield from _fields(field["type"], known, (*path, field["name"]), optional=optional, within=way)


def _type(schema: Any, known: _Known) -> str | None:
    """The type of a column that takes values of a schema; ``None`` where none does."""
    there, _ = known.meant(schema)
    kind = there["type"] if isinstance(there, dict) else there
    if isinstance(kind, list):  # a union of several
        return None
    if isinstance(there, dict) and as_meant(there):
        return _logical(there)
    return _HOLDING[kind](there, known) if kind in _HOLDING else _PLAIN.get(kind)


def _array(schema: dict[str, Any], known: _Known) -> str | None:
    item = _type(schema["items"], known)
    return item and f"ARRAY<{item}>"


def _map(schema: dict[str, Any], known: _Known) -> str | None:
    value = _type(schema["values"], known)
    return value and f"MAP<STRING, {value}>"


def _struct(schema: dict[str, Any], known: _Known) -> str | None:
    """A struct of those fields that have a type and a name; a record within itself has none."""
    name = schema["name"]
    if name not in known.types:
        known.types[name] = None
        inner = [(field["name"], _type(field["type"], known)) for field in schema["fields"]]
        named = {each.lower(): f"{each}: {type_}" for each, type_ in reversed(inner) if type_ and is_field_name(each)}
        made = f"STRUCT<{', '.join(reversed(named.values()))}>"
        known.types[name] = made if named and len(made) <= _LONGEST else None
    return known.types[name]


def _logical(schema: dict[str, Any]) -> str | None:
    meant = schema["logicalType"]
    if meant != "decimal":
        return {"date": "DATE", "uuid": "STRING"}.get(meant, "TIMESTAMP")
    type_ = f"DECIMAL({schema['precision']},{schema.get('scale', 0)})"
    return None if any(column_type_problems(type_)) else type_


def _both(one: SchemaField, other: SchemaField) -> SchemaField:
    """What two schemas say of a field."""
    return SchemaField(_wider(one.type, other.type), one.optional or other.optional)


def _wider(one: str | None, other: str | None) -> str | None:
    if one in _NUMBERS and other in _NUMBERS:
        return max(one, other, key=_NUMBERS.index)
    if one is None or other is None or not one.startswith("DECIMAL") or not other.startswith("DECIMAL"):
        return one
    (digits, scale), (others, places) = digits_of(one), digits_of(other)
    most = max(scale, places)
    type_ = f"DECIMAL({max(digits - scale, others - places) + most},{most})"
    return None if any(column_type_problems(type_)) else type_


_HOLDING: dict[str, Callable[[dict[str, Any], _Known], str | None]] = {"record": _struct, "array": _array, "map": _map}
