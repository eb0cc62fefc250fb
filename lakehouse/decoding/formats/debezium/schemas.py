"""What converts the values of a row, by the schema that its record carries or refers to.

Schemas come from records and may have any form: what is not understood converts nothing, and the declaration decides.
Pure and self-contained (the standard library only).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakehouse.decoding.formats.debezium.values import Convert, converter_of
from lakehouse.decoding.formats.format import WriterSchema

Converters = Mapping[str, Convert]
"""By the name of a field: what converts its values."""
_ROW = "after"
_ENVELOPE = {"before", _ROW, "source", "op"}


def json_converters(schema: Any, *, is_flattened: bool) -> Converters:
    """Return the converters of a schema that a JSON record carries (``schemas.enable``)."""
    fields = _json_fields(schema)
    row_fields = fields if is_flattened else _json_fields(fields.get(_ROW))
    converters = {name: converter_of(field.get("name"), field.get("parameters")) for name, field in row_fields.items()}
    return {name: convert for name, convert in converters.items() if convert}


def json_byte_names(schema: Any, *, is_flattened: bool) -> frozenset[str]:
    """Return the names of the fields that hold bytes in Base64, by a schema that a JSON record carries."""
    fields = _json_fields(schema)
    row_fields = fields if is_flattened else _json_fields(fields.get(_ROW))
    return frozenset(name for name, field in row_fields.items() if field.get("type") == "bytes" and "name" not in field)


def _json_fields(schema: Any) -> dict[str, dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list):
        return {}
    return {
        field["field"]: field for field in fields if isinstance(field, dict) and isinstance(field.get("field"), str)
    }


def avro_converters(schema: WriterSchema, *, is_flattened: bool) -> Converters:
    """Return the converters of an Avro schema whose fields have types of Kafka Connect (``connect.name``)."""
    records: dict[str, dict[str, Any]] = {}
    documents = [json.loads(text) for text in (*schema.references, schema.text)]
    for document in documents:
        records |= {record["name"]: record for record in _records(document)}
    row = documents[-1] if is_flattened else _row_record(documents[-1], records)
    converters = {field["name"]: _avro_converter(field["type"], records) for field in _fields(row)}
    return {name: convert for name, convert in converters.items() if convert}


def has_envelope(schema: WriterSchema) -> bool:
    """Whether an Avro schema describes changes in their envelope."""
    return {field["name"] for field in _fields(json.loads(schema.text))} >= _ENVELOPE


def connect_types(schema: WriterSchema) -> Iterator[str]:
    """Yield what an Avro schema says in the terms of Kafka Connect, in its order."""
    for document in map(json.loads, (*schema.references, schema.text)):
        for record in _records(document):
            for field in record["fields"]:
                for branch in _branches(field["type"]):
                    if isinstance(branch, dict) and "connect.name" in branch:
                        yield f"{field['name']}: {branch['connect.name']} {branch.get('connect.parameters')}"


def _records(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the records that a schema defines."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _records(branch)
    elif isinstance(schema, dict):
        if schema.get("type") == "record":
            yield schema
        for field in schema.get("fields", ()):
            yield from _records(field["type"])
        for part in ("items", "values"):
            yield from _records(schema.get(part))


def _fields(root: Any) -> Sequence[dict[str, Any]]:
    """The fields of a record; a union of records, which may be a schema too, has none of its own."""
    return root.get("fields", ()) if isinstance(root, dict) else ()


def _row_record(root: Any, records: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the record of the row after a change; empty if there is none."""
    for field in _fields(root):
        for branch in _branches(field["type"]) if field["name"] == _ROW else ():
            record = _type_of(branch, records)
            if isinstance(record, dict) and record.get("type") == "record":
                return record
    return {}


def _avro_converter(type_: Any, records: Mapping[str, dict[str, Any]]) -> Convert | None:
    """Return the converter of a field; a logical type of Avro needs none.

    A record that was defined before, such as that of a number without a scale, is only named.
    """
    for branch in _branches(type_):
        named_type = _type_of(branch, records)
        if isinstance(named_type, dict) and "logicalType" not in named_type:
            return converter_of(named_type.get("connect.name"), named_type.get("connect.parameters"))
    return None


def _type_of(branch: Any, records: Mapping[str, dict[str, Any]]) -> Any:
    """Return the record that a name refers to; any other type is returned as it is."""
    return records.get(branch) if isinstance(branch, str) else branch


def _branches(type_: Any) -> list[Any]:
    return type_ if isinstance(type_, list) else [type_]
