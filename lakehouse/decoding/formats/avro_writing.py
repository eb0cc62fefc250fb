"""Lines → records of Avro, by a schema: what ``publish`` sends."""

import io
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any

import fastavro

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import UnwritableError, WriterSchema
from lakehouse.decoding.formats.framing import framed
from lakehouse.decoding.records import parse

_BEYOND = {"int": 2**31, "long": 2**63}

_UNWRITABLE = (
    *(Rejection, ValueError, TypeError, KeyError, InvalidOperation, OverflowError, AttributeError, RecursionError),
)


def line_writer(schema_id: int, writer: WriterSchema) -> Callable[[bytes], bytes]:
    """Return what writes a line, with the id of the schema before it.

    What is returned raises ``UnwritableError`` if the schema does not hold a line.
    """
    named: dict[str, Any] = {}
    *_, parsed = [fastavro.parse_schema(json.loads(each), named) for each in (*writer.references, writer.text)]

    def write(line: bytes) -> bytes:
        into = io.BytesIO()
        try:
            value = _meant(parse(line), parsed, named)
            fastavro.schemaless_writer(into, parsed, value, strict_allow_default=True)
        except _UNWRITABLE as error:
            said = error.detail if isinstance(error, Rejection) else str(error)
            raise UnwritableError(f"schema {schema_id} does not hold it: {said[:300]}") from None
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
