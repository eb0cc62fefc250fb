"""Debezium: each record says how a row of a database changed.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Field, Rejection
from lakehouse.decoding.formats.avro.format import Avro
from lakehouse.decoding.formats.debezium.reader import ADDED_FIELDS, DELETES_AS_ROWS, ChangeReader, ChangeRules
from lakehouse.decoding.formats.debezium.schemas import connect_types, has_envelope, json_byte_names
from lakehouse.decoding.formats.debezium.values import HEX_PREFIX, PLACEHOLDER
from lakehouse.decoding.formats.format import NO_SCHEMAS, Format, Schemas, WriterSchema
from lakehouse.decoding.formats.json.format import Json
from lakehouse.decoding.formats.parser import ChangeOpener, Parser
from lakehouse.decoding.json_parsing import DuplicateNames, NotFinite
from lakehouse.decoding.record_parts import VALUE

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_JSON_WITH_ID = "io.confluent.connect.json.JsonSchemaConverter"
_AVRO = "io.confluent.connect.avro.AvroConverter"
_BINARY_MODES: dict[Any, str] = {None: "bytes", "base64": "base64", "base64url": "base64-url-safe", "hex": "hex"}
_TRANSFORM = "io.debezium.transforms.ExtractNewRecordState"
_HEX_OR_TEXT = re.compile(rf"{HEX_PREFIX}([0-9a-fA-F]{{2}})+|(?!{HEX_PREFIX}).+", re.DOTALL)


@dataclass(frozen=True)
class Debezium(Format):
    """Records are changes of the rows of a table in a database, as connectors of Debezium write them.

    The newest change is the one with the greatest position in the log of the database. ``written`` is how values are
    written: ``Json()``, with or without schemas in the records, or ``Avro()``. ``flattened``: the single message
    transform ``ExtractNewRecordState`` left only the row, with ``op`` and the position as further fields.
    ``decimal_handling_mode`` is that option of the connector: with ``string``, the text of a number is a number.
    ``documents``: the database is MongoDB; columns read the fields of the document, and the key is that of the record.
    ``accepted_snapshot`` is the position of a snapshot that a merge accepts even if it is smaller than that of a change
    before it; also the first position of another server of MySQL. ``unavailable_value_placeholder`` is that option of
    the connector, if it is set there.
    """

    written: Json | Avro = field(default_factory=Json)
    flattened: bool = False
    decimal_handling_mode: Literal["precise", "string", "double"] = "precise"
    documents: bool = field(default=False, repr=False)
    typed: bool = field(init=False, repr=False, compare=False)
    accepted_snapshot: int | None = field(default=None, repr=False, compare=False)
    unavailable_value_placeholder: str = field(default=PLACEHOLDER, repr=False)
    framed: bool = field(init=False, repr=False, compare=False)
    schema_kind: str | None = field(init=False, repr=False, compare=False)
    needs_schemas: bool = field(init=False, repr=False, compare=False)
    not_finite: NotFinite = field(init=False, repr=False, compare=False)
    duplicate_names: DuplicateNames = field(init=False, repr=False, compare=False)
    in_base64: str | Sequence[str] = field(init=False, repr=False, compare=False)
    has_changes = True
    reasons = ("invalid_change", "unknown_operation", "no_source_position", "unavailable_value", "no_document")

    def __post_init__(self) -> None:
        """Take over what the format of the values determines."""
        for name in ("framed", "schema_kind", "needs_schemas", "not_finite", "duplicate_names", "in_base64"):
            object.__setattr__(self, name, getattr(self.written, name))
        object.__setattr__(self, "typed", not self.documents)

    @property
    def declared_as(self) -> str:
        """The format with the options that differ from their defaults."""
        options = [self.written.declared_as] if self.written.declared_as else []
        options += [f"{name}=True" for name in ("flattened", "documents") if getattr(self, name)]
        mode = self.decimal_handling_mode
        options += [] if mode == "precise" else [f'decimal_handling_mode="{mode}"']
        options += [f"unavailable_value_placeholder={placeholder!r}" for placeholder in self._own_placeholder]
        return f"Debezium({', '.join(options)})"

    @property
    def fingerprint_parts(self) -> tuple[str, ...]:
        """Those of the format of the values, and a placeholder of its own."""
        documents = ("documents",) if self.documents else ()
        return (*self.written.fingerprint_parts, *self._own_placeholder, *documents)

    @property
    def _own_placeholder(self) -> tuple[str, ...]:
        placeholder = self.unavailable_value_placeholder
        return () if placeholder == PLACEHOLDER else (placeholder,)

    def problems(self) -> Iterator[Problem]:
        """Yield that changes in Avro need a registry, and that those in JSON have none."""
        if self.needs_schemas and not self.written.typed:
            yield "Debezium cannot check JSON by its schemas", "Remove checked=True from the format inside."
        if self.written.typed and not self.needs_schemas:
            advice = "Use Debezium(Avro()): connectors write Avro with a registry, which has the types of the database."
            yield "Debezium cannot use Avro with schemas of its own", advice
        own_options = self.flattened or self.decimal_handling_mode != "precise" or self._own_placeholder
        if self.documents and (own_options or self.written.typed):
            advice = "Remove the other options. Rows that ExtractNewDocumentState flattened need Json() and deletes."
            yield "documents=True of Debezium cannot be combined with options of other databases", advice
        placeholder = self.unavailable_value_placeholder
        if not placeholder.strip() or not _HEX_OR_TEXT.fullmatch(placeholder):
            message = f"unavailable_value_placeholder of Debezium is {placeholder!r}"
            yield message, "Write what unavailable.value.placeholder of the connector is: a text, or hex: and digits."

    def parser(self, schemas: Schemas = NO_SCHEMAS) -> Parser:
        """Return a parser of changes."""
        has_text_numbers = self.decimal_handling_mode == "string"
        placeholder = self.unavailable_value_placeholder
        rules = ChangeRules(self.flattened, has_text_numbers, self.needs_schemas, placeholder, self.documents)
        return DebeziumParser(ChangeReader(self.written.parser(schemas), schemas, rules))

    def writer(self, schema_id: int = 0, schema: WriterSchema | None = None) -> Callable[[bytes], bytes]:
        """Return a writer of lines; each line is a whole change."""
        return self.written.writer(schema_id, schema)

    def may_read(self, value: bytes) -> bool:
        """Whether a value is a change with a position of its source; its schema shows it if values need one."""
        if self.needs_schemas:
            return bool(value)
        try:
            return bool(self.parser()(value))
        except Rejection:
            return False

    def fingerprint(self, schema: WriterSchema) -> str:
        """A hash of what a schema means, and of the types of Kafka Connect in it."""
        parts = (self.written.fingerprint(schema), *connect_types(schema))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def with_text_numbers(self) -> "Debezium":
        """The format of a connector with ``decimal.handling.mode=string``."""
        return replace(self, decimal_handling_mode="string")

    def connector_settings(self, fields: Iterable[Field]) -> dict[str, str]:
        """The settings of the connector, its converters and its transform; of the transform, those for PostgreSQL.

        JSON with precise decimals carries its schema: the scale of a decimal is only there.
        """
        if self.documents:
            return {"capture.mode": "change_streams_update_full"} | _converter_settings(self.written, needs_types=False)
        column_fields = list(fields)
        is_precise = self.decimal_handling_mode == "precise"
        needs_types = is_precise and any("DECIMAL" in column_field.type for column_field in column_fields)
        return {
            **_converter_settings(self.written, needs_types=needs_types),
            **_binary_settings(column_fields, has_bytes=self.has_bytes),
            "decimal.handling.mode": self.decimal_handling_mode,
            "skipped.operations": "none",
            **({"unavailable.value.placeholder": self.unavailable_value_placeholder} if self._own_placeholder else {}),
            **(_transform_settings() if self.flattened else {}),
        }

    def byte_names(self, value: bytes | None) -> frozenset[str]:
        """The names of the fields with bytes, by the schema that a change in JSON carries."""
        try:
            content = {} if self.needs_schemas else self.written.parser()(value)
        except Rejection:
            content = {}
        return json_byte_names(content.get("schema"), is_flattened=self.flattened)

    def may_use(self, schema: WriterSchema) -> bool:
        """Whether a schema describes changes."""
        return has_envelope(schema)


class DebeziumParser(Parser):
    """Parses changes; as a parser of values, it returns the row of a change."""

    has_changes = True

    def __init__(self, reader: ChangeReader) -> None:
        self._reader = reader
        self.memory_by_byte = reader.parser.memory_by_byte
        self.smallest_item = reader.parser.smallest_item

    def __call__(self, value: bytes | None) -> dict[str, Any]:
        """Parse one change into the values of its row."""
        change = self.read_change(value, ())
        if change.is_rowless:
            raise Rejection("tombstone", "the record has no value of a row")
        return change.fields

    @property
    def contents(self) -> Parser:
        """The parser of changes with their envelopes."""
        return self._reader.parser

    def change_opener(self, fields: tuple[Field, ...], *, is_exact: bool = True) -> ChangeOpener:
        """Return what opens the envelopes of changes."""
        return self._reader.opener(fields, is_exact=is_exact)

    def memory_of(self, value: bytes | None) -> int:
        """Memory in bytes of a parsed value at most."""
        return self._reader.parser.memory_of(value)


def _converter_settings(written: Format, *, needs_types: bool) -> dict[str, str]:
    """Return the settings of the converters; ``needs_types``: only a schema says what some values mean.

    Without the setting about nulls, a converter writes the default of a column in place of NULL.
    """
    value = "value.converter"
    converter = _AVRO if written.needs_schemas else _JSON_WITH_ID if written.framed else _JSON
    converters = {"key.converter": converter, value: converter}
    if converter != _JSON:
        return converters | {f"{value}.ignore.default.for.nullables": "true"}
    schemas = {f"{value}.schemas.enable": "true"} if needs_types else {}
    return converters | schemas | {f"{value}.replace.null.with.default": "false"}


def _binary_settings(fields: Iterable[Field], *, has_bytes: bool) -> dict[str, str]:
    """Return how bytes are written, if columns read them in one form; JSON has them in Base64 by default."""
    forms = {field.form.written for field in fields if field.type == "BINARY" and field.place.part == VALUE}
    if len(forms) != 1:
        return {}
    (form,) = forms
    return {"binary.handling.mode": "bytes" if form == "base64" and not has_bytes else _BINARY_MODES[form]}


def _transform_settings() -> dict[str, str]:
    """Return the settings of the transform that leaves only rows, for PostgreSQL."""
    prefix = "transforms.unwrap."
    name, mode = DELETES_AS_ROWS.split("=")
    return {
        "transforms": "unwrap",
        f"{prefix}type": _TRANSFORM,
        f"{prefix}add.fields": ADDED_FIELDS,
        f"{prefix}{name}": mode,
        f"{prefix}replace.null.with.default": "false",
    }
