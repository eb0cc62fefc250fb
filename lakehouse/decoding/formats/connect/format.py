"""JSON of Kafka Connect: each value is an object with a schema and a payload, whose types the schema gives.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse.decoding.fields import Rejection, json_kind
from lakehouse.decoding.formats.connect.schemas import payload_converter, schema_fields
from lakehouse.decoding.formats.debezium.values import Convert
from lakehouse.decoding.formats.format import NO_SCHEMAS, Format, Path, SchemaField, Schemas, WriterSchema, show_options
from lakehouse.decoding.formats.parser import Parser
from lakehouse.decoding.formats.schema_types import as_json
from lakehouse.decoding.json_parsing import STRICT, JsonOptions, NotFinite
from lakehouse.decoding.memory import (
    JSON_MEMORY_PER_BYTE,
    LIST_SLOT,
    LOGICAL,
    MAX_RECORD_MEMORY,
    json_memory,
    too_large_rejection,
)
from lakehouse.decoding.records import parse

_ENVELOPE = {"schema", "payload"}
INVALID_ENVELOPE = "invalid_envelope"
"""The reason to reject an object that has not exactly a schema and a payload."""


@dataclass(frozen=True)
class ConnectJson(Format):
    """Records that the JSON converter of Kafka Connect writes with ``schemas.enable``: the fields are in ``payload``.

    The schema in the record gives the types of times, dates and decimals. ``not_finite`` is that of ``Json``.
    """

    not_finite: NotFinite = field(default="reject")
    typed = True
    narrows_json = True
    describes_decimals = True
    names_records = True
    reasons = (INVALID_ENVELOPE,)
    __repr__ = show_options

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:  # noqa: ARG002 - the schemas are in the records
        """Return a parser of payloads."""
        return ConnectParser(self.json_options)

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:  # noqa: ARG002 - as above
        """Return a function that leaves lines unchanged: each line is a schema and a payload."""
        return bytes

    def may_read(self, value: bytes) -> bool:
        """Whether a value has a payload with a field, and a schema or null."""
        try:
            schema = _envelope(value, self.json_options)["schema"]
            is_schema = schema is None or (isinstance(schema, dict) and isinstance(schema.get("type"), str))
            return is_schema and bool(self.parser()(value))
        except Rejection:
            return False

    def notes(self, values: Sequence[bytes]) -> Iterator[str]:  # noqa: ARG002 - the same for all values
        """Yield why it was recognised."""
        yield "Each value has a schema and a payload, as Kafka Connect writes them. Columns read the payload."

    def with_null_numbers(self) -> "ConnectJson":
        """The format in which NaN and infinities are null."""
        return replace(self, not_finite="null")

    def used_schemas(self, values: Iterable[bytes | None], schemas: Schemas) -> Sequence[WriterSchema]:  # noqa: ARG002 - as above
        """The schemas that the records carry, the newest first."""
        texts: dict[str, None] = {}
        for value in values:
            with suppress(Rejection):
                texts[json.dumps(_envelope(value, self.json_options)["schema"], default=str)] = None
        return [WriterSchema(text) for text in reversed(texts)]

    def schema_name(self, schema: WriterSchema) -> str:
        """The name that the schema gives its records."""
        content = json.loads(schema.text)
        return str(content.get("name")) if isinstance(content, dict) else ""

    def schema_fields(self, schemas: Iterable[WriterSchema], limit: int) -> Mapping[Path, SchemaField] | None:
        """The fields that the records' schemas describe; ``None`` if they describe none."""
        return schema_fields(schemas, limit) or None

    def as_json(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """A parsed value with its numbers as decimals, as JSON is parsed."""
        return {name: as_json(value) for name, value in parsed.items()}


class ConnectParser(Parser):
    """Parses the payload of a record, and converts its values by the schema of the record."""

    memory_by_byte = JSON_MEMORY_PER_BYTE + (LOGICAL + LIST_SLOT) // 2
    smallest_item = 2

    def __init__(self, json_options: JsonOptions = STRICT) -> None:
        self.json_options = json_options
        self._schema: Any = None
        self._convert: Convert | None = None

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one payload."""
        content = _envelope(value, self.json_options)
        payload = content["payload"]
        if not isinstance(payload, dict):
            raise Rejection("not_an_object", f"the payload is {json_kind(payload)}, not an object")
        if content["schema"] != self._schema:  # records in a row mostly have the same schema
            self._schema, self._convert = content["schema"], payload_converter(content["schema"])
        if self._convert is None:
            return payload
        if self.memory_of(value) > MAX_RECORD_MEMORY:
            raise too_large_rejection()
        converted: dict[str, Any] = self._convert(payload)
        return converted

    def schema_name(self, value: bytes) -> str | None:
        """The name of the schema that a record carries."""
        schema = _envelope(value, self.json_options)["schema"]
        name = schema.get("name") if isinstance(schema, dict) else None
        return name if isinstance(name, str) else None

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most: the parts of a long value, and what they are converted to."""
        data = value or b""
        return json_memory(data) + (data.count(b",") * (LOGICAL + LIST_SLOT) if self._convert else 0)


def _envelope(value: bytes | None, options: JsonOptions) -> dict[str, Any]:
    content = parse(value, options)
    if content.keys() != _ENVELOPE:
        raise Rejection(INVALID_ENVELOPE, "the object has not exactly the fields 'schema' and 'payload'")
    return content
