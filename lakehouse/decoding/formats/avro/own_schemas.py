"""The schemas of an Avro format that needs no registry: they are in its declaration.

Only the driver reads their texts; Spark's workers get what is made of them, with the format.
"""

# ruff: noqa: PLC0415 - fastavro is slow to import, and a worker may not have it

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lakehouse.decoding.column_types import Problem
from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import Schemas, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.framing import NO_FRAMING, Framing
from lakehouse.decoding.records import require_value

_MARKER = b"\xc3\x01"
_HEADER = "<2sQ"
_HEADER_SIZE = struct.calcsize(_HEADER)


def split_single_object(value: bytes | None) -> tuple[int, bytes]:
    """Return the fingerprint of a value's schema, and the value, which still has its header.

    Raises ``Rejection`` with one of the reasons ``tombstone``, ``empty_value``, ``wrong_magic`` and ``truncated``.
    """
    value = require_value(value)
    if not value.startswith(_MARKER):
        detail = f"the first bytes are {value[:2].hex(' ')}; a single object begins with {_MARKER.hex(' ')}"
        raise Rejection("wrong_magic", detail)
    if len(value) < _HEADER_SIZE:
        detail = f"the record ends after {len(value)} bytes, within the fingerprint of its schema"
        raise Rejection("truncated", detail)
    _, fingerprint = struct.unpack_from(_HEADER, value)
    return fingerprint, value


def add_fingerprint(fingerprint: int, value: bytes) -> bytes:
    """Return a value as a single object of the schema with this fingerprint."""
    return struct.pack(_HEADER, _MARKER, fingerprint) + value


def is_single_object(value: bytes) -> bool:
    """Whether a value may be a single object, and has more bytes after its header."""
    return value.startswith(_MARKER) and len(value) > _HEADER_SIZE


def shown_fingerprint(fingerprint: int) -> str:
    """The bytes of a fingerprint in the order of a record, as hexadecimal digits."""
    return fingerprint.to_bytes(8, "little").hex()


def _describe_unknown(fingerprint: int) -> str:
    return f"no declared schema has the fingerprint {shown_fingerprint(fingerprint)}"


SINGLE_OBJECT_FRAMING = Framing(split_single_object, _HEADER_SIZE, add_fingerprint, _describe_unknown)


class OwnSchemas(NamedTuple):
    """Declared schemas, by the ids that ``framing`` finds in values.

    ``meanings`` has a hash of each schema, which changes with what records mean. ``errors`` says of unusable schemas
    why they are, ``twins`` names schemas with the fingerprint of another one. A declaration with either is refused.
    """

    framing: Framing
    schemas: Schemas
    meanings: tuple[str, ...]
    errors: tuple[str, ...]
    twins: tuple[str, ...]

    @property
    def newest(self) -> tuple[int, WriterSchema]:
        """The last schema, by which lines are written, after its id."""
        return list(self.schemas.by_id.items())[-1]


def read_own_schemas(schema: str | Path | None, schemas: Sequence[str | Path] | None) -> OwnSchemas | None:
    """Read the declared texts, or files: ``schema`` of values without a header, or ``schemas`` of single objects.

    Returns ``None`` if there are none. What is neither is left out: another rule refuses it.
    """
    if schema is None and schemas is None:
        return None
    framing = NO_FRAMING if schemas is None else SINGLE_OBJECT_FRAMING
    texts = {"schema": schema} if schemas is None else {f"schemas[{n}]": text for n, text in enumerate(schemas)}
    by_id: dict[int, WriterSchema] = {}
    meanings, errors, twins = list[str](), list[str](), list[str]()
    for place, text in texts.items():
        try:
            content = text.read_text("utf-8") if isinstance(text, Path) else text
            read_schema = _read_schema(content) if isinstance(content, str) else None
        except (UnusableSchemaError, OSError, UnicodeDecodeError) as error:
            errors.append(f"{place} of Avro cannot be used: {error}")
            continue
        if read_schema is None:
            continue
        fingerprint, writer_schema, meaning = read_schema
        if fingerprint in by_id:
            twins.append(f"{place} of Avro has the same fingerprint as one before it: {shown_fingerprint(fingerprint)}")
        by_id[fingerprint if schemas is not None else 0] = writer_schema
        meanings.append(meaning)
    return OwnSchemas(framing, Schemas(by_id, {}), tuple(meanings), tuple(errors), tuple(twins))


def own_schema_problems(
    schema: str | Path | None, schemas: Sequence[str | Path] | None, own_schemas: OwnSchemas | None
) -> Iterator[Problem]:
    """Yield what is wrong with the options for declared schemas, and with the schemas themselves."""
    if schema is not None and schemas is not None:
        advice = "Keep schema= for values without a header, or schemas= for single-object encoding."
        yield "Avro has both schema and schemas", advice
    if schemas is not None and not schemas:
        yield "schemas of Avro is empty", "List the text of each schema that records were written with."
    for error in own_schemas.errors if own_schemas else ():
        yield error, "Correct the text of the schema. It must be that of a record, with all types that it refers to."
    for twin in own_schemas.twins if own_schemas else ():
        yield twin, "Remove one of them. A record could not say which of them wrote it."


def _read_schema(text: str) -> tuple[int, WriterSchema, str]:
    """The fingerprint of a schema, the schema, and a hash of what it means; raises ``UnusableSchemaError``."""
    from lakehouse.decoding.formats.avro.schemas import fingerprint, parsing_fingerprint, writer_schema

    schema = writer_schema(text)
    return parsing_fingerprint(text), schema, fingerprint(schema)
