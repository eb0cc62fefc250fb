"""Lines → the values of records, in the format that a table declares: what ``publish`` sends."""

import io
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from math import isfinite
from typing import Any

import fastavro

from lakehouse.declaration import Json, Rejection, StreamTable
from lakehouse.declaration.avro import WriterSchema
from lakehouse.declaration.framing import Parse, Schemas, framed, parser_of
from lakehouse.declaration.records import parse
from lakehouse.errors import TopicError
from lakehouse.settings import Settings
from lakehouse.topic.registry import Registry, registry
from lakehouse.topic.schemas import UnusableSchemaError, schema_of_table, writer_schema

_BEYOND = {"int": 2**31, "long": 2**63}
_ANYTHING = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'  # the declaration is stricter

_UNWRITABLE = (
    *(Rejection, ValueError, TypeError, KeyError, InvalidOperation, OverflowError, AttributeError, RecursionError),
)


def writing_of(settings: Settings, table: StreamTable, schema: str | None) -> tuple[Callable[[bytes], bytes], Parse]:
    """What makes the value of a record of a line, and what parses it again.

    The schema that records name is registered under ``TOPIC-value``: ``schema``, else the newest of that, else one that
    follows from the declaration. Raises ``RegistryError`` where the registry refuses it, since it is not compatible
    with those before it; ``TopicError`` where nothing can be written by it.
    """
    subject = f"{table.topic}-value"
    with registry(settings) as talk:
        if isinstance(table.format, Json):
            schema_id = talk.newest(subject) or talk.register(subject, _ANYTHING, "JSON")
            return partial(framed, schema_id), parser_of(table.format) or parse
        try:
            schema_id, writer = _chosen(talk, subject, schema, table)
        except UnusableSchemaError as error:
            raise TopicError(f"Nothing can be written by the schema: {error}", where=f"subject {subject}") from None
    parser = parser_of(table.format, Schemas({schema_id: writer}, {})) or parse
    return _avro_writer(schema_id, writer), parser


def _chosen(talk: Registry, subject: str, schema: str | None, table: StreamTable) -> tuple[int, WriterSchema]:
    newest = None if schema else talk.newest(subject)
    found = talk.schema(newest) if newest is not None else None
    if newest is not None and found is not None:
        return newest, found
    text = schema or schema_of_table(table)
    writer = writer_schema(text)
    return talk.register(subject, text), writer


def _avro_writer(schema_id: int, writer: WriterSchema) -> Callable[[bytes], bytes]:
    named: dict[str, Any] = {}
    *_, parsed = [fastavro.parse_schema(json.loads(each), named) for each in (*writer.references, writer.text)]
    number = 0

    def write(line: bytes) -> bytes:
        nonlocal number
        number += 1
        into = io.BytesIO()
        try:
            value = _meant(parse(line), parsed, named)
            fastavro.schemaless_writer(into, parsed, value, strict_allow_default=True)
        except _UNWRITABLE as error:
            said = error.detail if isinstance(error, Rejection) else str(error)
            raise TopicError(
                f"Line {number} cannot be written by schema {schema_id}: {said[:300]}",
                action="Those before it were sent; correct it, or name another schema with --schema.",
            ) from None
        return framed(schema_id, into.getvalue())

    return write


def _meant(value: Any, schema: Any, named: Mapping[str, Any]) -> Any:
    """What a value of JSON means where a schema stands; ``ValueError`` where it means nothing there."""
    if isinstance(schema, str):
        return _meant(value, named[schema], named) if schema in named else _plain(value, schema)
    if isinstance(schema, list):
        return _of_union(value, schema, named)
    if schema["type"] == "record":
        return _record(value, schema, named)
    if schema["type"] == "array":
        return [_meant(each, schema["items"], named) for each in _require(value, list)]
    if schema["type"] == "map":
        return {name: _meant(each, schema["values"], named) for name, each in _require(value, dict).items()}
    return _logical(value, schema["type"], schema.get("logicalType"))


def _record(value: Any, schema: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    types = {field["name"]: field["type"] for field in schema["fields"]}
    given = _require(value, dict)
    for name in given:
        if name not in types:
            raise ValueError(f"the schema has no field {name!r}")
    return {name: _meant(each, types[name], named) for name, each in given.items()}


def _of_union(value: Any, branches: list[Any], named: Mapping[str, Any]) -> Any:
    if value is None and "null" in branches:
        return None
    said = "null fits no branch"
    for branch in branches:
        try:
            if branch != "null":
                return _meant(value, branch, named)
        except (ValueError, InvalidOperation) as error:
            said = str(error)
    raise ValueError(said)


def _logical(value: Any, kind: str, logical: str | None) -> Any:
    if logical == "decimal":
        return Decimal(_require(value, str) if isinstance(value, str) else _require(value, Decimal))
    if isinstance(value, str) and logical == "date":
        return date.fromisoformat(value)
    if isinstance(value, str) and logical is not None and "timestamp" in logical:
        return _moment(value, logical)
    return _plain(value, kind)


def _moment(written: str, logical: str) -> datetime:
    """The moment that is written; ``ValueError`` where the type would drop a part of it."""
    moment = datetime.fromisoformat(written)
    if logical.startswith("local-") and moment.tzinfo is not None:
        raise ValueError(f"{written} has an offset, which {logical} does not hold")
    if logical.endswith("millis") and moment.microsecond % 1000:
        raise ValueError(f"{written} is finer than {logical} holds")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _plain(value: Any, kind: str) -> Any:
    if kind in ("int", "long"):
        number = _require(value, Decimal)
        if number != number.to_integral_value() or not -_BEYOND[kind] <= number < _BEYOND[kind]:
            raise ValueError(f"{str(number)[:60]} is no whole number of {kind}")
        return int(number)
    if kind in ("float", "double"):
        double = float(_require(value, Decimal))
        if not isfinite(double):
            raise ValueError(f"{str(value)[:60]} is too large")
        return double
    if kind in ("bytes", "fixed"):
        return _require(value, str).encode("latin-1")
    if kind == "null":
        return _require(value, type(None))
    return _require(value, bool if kind == "boolean" else str)


def _require(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        names = {Decimal: "a number", str: "text", bool: "true or false", dict: "an object", list: "an array"}
        raise ValueError(f"{str(value)[:60]!r} is not {names.get(kind, 'null')}")
    return value
