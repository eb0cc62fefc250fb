"""Convert lines of JSON to Avro records by a schema, for ``publish``."""

import io
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any

import fastavro

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.avro.nodes import branch_names, is_of_several_types, type_name
from lakehouse.decoding.formats.format import UnwritableError, WriterSchema
from lakehouse.decoding.formats.framing import add_frame
from lakehouse.decoding.formats.schema_types import require_type
from lakehouse.decoding.records import parse

_LIMITS = {"int": 2**31, "long": 2**63}

_WRITE_ERRORS = (
    *(Rejection, ValueError, TypeError, KeyError, InvalidOperation, OverflowError, AttributeError, RecursionError),
)


def line_writer(schema_id: int, schema: WriterSchema, *, named_branches: bool = False) -> Callable[[bytes], bytes]:
    """Return a function that writes a line as Avro, with the id of the schema in front.

    The function raises ``UnwritableError`` if a line does not fit the schema. ``named_branches``: a line has the value
    of a union of several types as an object whose only field names the branch.
    """
    write = body_writer(schema, f"schema {schema_id}", named_branches=named_branches)
    return lambda line: add_frame(schema_id, write(line))


def body_writer(writer: WriterSchema, name: str, *, named_branches: bool = False) -> Callable[[bytes], bytes]:
    """Return a function like ``line_writer``, with nothing in front; ``name`` is that of the schema in errors."""
    named_schemas = _NamedSchemas(named_branches=named_branches)
    *_, schema = [fastavro.parse_schema(json.loads(text), named_schemas) for text in (*writer.references, writer.text)]

    def write(line: bytes) -> bytes:
        buffer = io.BytesIO()
        try:
            value = _to_avro(parse(line), schema, named_schemas)
            fastavro.schemaless_writer(buffer, schema, value, strict_allow_default=True)
        except _WRITE_ERRORS as error:
            detail = error.detail if isinstance(error, Rejection) else str(error)
            raise UnwritableError(f"it does not fit {name}: {detail[:300]}") from None
        return buffer.getvalue()

    return write


class _NamedSchemas(dict[str, Any]):
    """Schemas by name, and whether lines name the branches of unions of several types."""

    def __init__(self, *, named_branches: bool) -> None:
        super().__init__()
        self.has_named_branches = named_branches


def _to_avro(value: Any, schema: Any, named_schemas: _NamedSchemas) -> Any:
    """Convert a JSON value by a schema; raises ``ValueError`` if it does not fit."""
    if isinstance(schema, str):
        is_named = schema in named_schemas
        return _to_avro(value, named_schemas[schema], named_schemas) if is_named else _to_primitive(value, schema)
    if isinstance(schema, list):
        return _to_union(value, schema, named_schemas)
    if schema["type"] == "record":
        return _to_record(value, schema, named_schemas)
    if schema["type"] == "array":
        return [_to_avro(item, schema["items"], named_schemas) for item in require_type(value, list)]
    if schema["type"] == "map":
        items = require_type(value, dict).items()
        return {name: _to_avro(item, schema["values"], named_schemas) for name, item in items}
    return _to_logical(value, schema["type"], schema.get("logicalType"))


def _to_record(value: Any, schema: Mapping[str, Any], named_schemas: _NamedSchemas) -> dict[str, Any]:
    types = {field["name"]: field["type"] for field in schema["fields"]}
    fields = require_type(value, dict)
    for name in fields:
        if name not in types:
            raise ValueError(f"the schema has no field {name!r}")
    return {name: _to_avro(field, types[name], named_schemas) for name, field in fields.items()}


def _to_union(value: Any, branches: list[Any], named_schemas: _NamedSchemas) -> Any:
    if value is None and "null" in branches:
        return None
    if named_schemas.has_named_branches and is_of_several_types(branches):
        return _to_named_branch(value, branches, named_schemas)
    detail = "no branch of the union allows null"
    for branch in branches:
        try:
            if branch != "null":
                return _to_avro(value, branch, named_schemas)
        except (ValueError, InvalidOperation) as error:
            detail = str(error)
    raise ValueError(detail)


def _to_named_branch(value: Any, branches: list[Any], named_schemas: _NamedSchemas) -> Any:
    """Convert an object whose only field names a branch to a pair that fastavro writes as this branch."""
    fields, names = require_type(value, dict), branch_names(branches)
    if len(fields) != 1 or not fields.keys() <= {*names} - {"null"}:
        raise ValueError(f"{list(fields)[:3]!r} is not the name of a branch of the union: {', '.join(names)}")
    ((name, content),) = fields.items()
    branch = branches[names.index(name)]
    return type_name(branch), _to_avro(content, branch, named_schemas)


def _to_logical(value: Any, kind: str, logical_type: str | None) -> Any:
    if logical_type == "decimal":
        return Decimal(require_type(value, str) if isinstance(value, str) else require_type(value, Decimal))
    if isinstance(value, str) and logical_type == "date":
        return date.fromisoformat(value)
    if isinstance(value, str) and logical_type is not None and "timestamp" in logical_type:
        return _to_time(value, logical_type)
    return _to_primitive(value, kind)


def _to_time(text: str, logical_type: str) -> datetime:
    """Parse a time; raises ``ValueError`` if the type would drop a part of it."""
    time = datetime.fromisoformat(text)
    if logical_type.startswith("local-") and time.tzinfo is not None:
        raise ValueError(f"{text} has a UTC offset, which {logical_type} cannot represent")
    if logical_type.endswith("millis") and time.microsecond % 1000:
        raise ValueError(f"{text} has more decimal places than {logical_type} can represent")
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _to_primitive(value: Any, kind: str) -> Any:
    if kind in ("int", "long"):
        number = require_type(value, Decimal)
        if number != number.to_integral_value() or not -_LIMITS[kind] <= number < _LIMITS[kind]:
            raise ValueError(f"{str(number)[:60]} is not a whole number in the range of {kind}")
        return int(number)
    if kind in ("float", "double"):
        double = float(require_type(value, Decimal))
        if not isfinite(double):
            raise ValueError(f"{str(value)[:60]} is too large")
        return double
    if kind in ("bytes", "fixed"):
        return require_type(value, str).encode("latin-1")
    if kind == "null":
        return require_type(value, type(None))
    return require_type(value, bool if kind == "boolean" else str)
