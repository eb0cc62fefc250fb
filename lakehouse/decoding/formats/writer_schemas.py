"""Prepare a schema of any kind for decoding, as a registry would give it."""

from collections.abc import Sequence

from lakehouse.decoding.formats import FORMATS, KEY_FORMATS, Json
from lakehouse.decoding.formats.format import DEFAULT_KIND, RegisteredSchema, UnusableSchemaError, WriterSchema


def writer_schema(
    text: str, references: Sequence[str] = (), kind: str = DEFAULT_KIND, *, of_key: bool = False
) -> WriterSchema:
    """Return a schema in the form that decodes records; ``references`` are the schemas that it refers to.

    Each reference follows those that it refers to itself. ``kind`` is the language of the schema, as registries name
    it: ``AVRO``, ``PROTOBUF`` or ``JSON``. With ``of_key``, it is the schema of a key, which may be no record. Raises
    ``UnusableSchemaError``, a ``ValueError``.
    """
    for form in KEY_FORMATS.values() if of_key else (*FORMATS, Json(framed=True, checked=True)):
        if form.needs_schemas and form.schema_kind == kind:
            return form.writer_schema(RegisteredSchema(text, tuple(references), kind))
    raise UnusableSchemaError(f"{kind[:40]!r} is not a kind of schemas that records are decoded by")
