"""Prepare a schema of any kind for decoding, as a registry would give it."""

from collections.abc import Sequence

from lakehouse.decoding.formats import FORMATS
from lakehouse.decoding.formats.format import DEFAULT_KIND, RegisteredSchema, UnusableSchemaError, WriterSchema


def writer_schema(text: str, references: Sequence[str] = (), kind: str = DEFAULT_KIND) -> WriterSchema:
    """Return a schema in the form that decodes records; ``references`` are the schemas that it refers to.

    Each reference follows those that it refers to itself. ``kind`` is the language of the schema, as registries name
    it: ``AVRO`` or ``PROTOBUF``. Raises ``UnusableSchemaError``, a ``ValueError``.
    """
    for form in FORMATS:
        if form.needs_schemas and form.schema_kind == kind:
            return form.writer_schema(RegisteredSchema(text, tuple(references), kind))
    raise UnusableSchemaError(f"{kind[:40]!r} is not a kind of schemas that records are decoded by")
