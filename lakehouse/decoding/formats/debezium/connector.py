"""The settings of Debezium's connector and of its converters that follow from a declaration.

The names and values are those of Kafka Connect, of Confluent's converters and of Debezium. Pure and self-contained (the
standard library only).
"""

from collections.abc import Iterable
from typing import Any

from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats.format import Format
from lakehouse.decoding.record_parts import VALUE

ADDED_FIELDS = "op,source.lsn,source.snapshot"
ADDED_FIELDS_OF_MYSQL = "op,source.file,source.pos,source.server_id,source.snapshot"
DELETES_AS_ROWS = "delete.tombstone.handling.mode=rewrite"
"""What the transform needs so that its rows have the operation, the position and the deletes."""

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_JSON_WITH_ID = "io.confluent.connect.json.JsonSchemaConverter"
_AVRO = "io.confluent.connect.avro.AvroConverter"
_BINARY_MODES: dict[Any, str] = {None: "bytes", "base64": "base64", "base64url": "base64-url-safe", "hex": "hex"}
_TRANSFORM = "io.debezium.transforms.ExtractNewRecordState"


def converter_settings(written: Format, *, needs_types: bool) -> dict[str, str]:
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


def binary_settings(fields: Iterable[Field], *, has_bytes: bool) -> dict[str, str]:
    """Return how bytes are written, if columns read them in one form; JSON has them in Base64 by default."""
    forms = {field.form.written for field in fields if field.type == "BINARY" and field.place.part == VALUE}
    if len(forms) != 1:
        return {}
    (form,) = forms
    return {"binary.handling.mode": "bytes" if form == "base64" and not has_bytes else _BINARY_MODES[form]}


def transform_settings() -> dict[str, str]:
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
