"""How lines become the values of records that name a schema: which one ``publish`` writes by, and what writes them."""

from collections.abc import Callable

from lakehouse.declaration import StreamTable
from lakehouse.decoding.formats.format import (
    NO_SCHEMAS,
    Parser,
    RegisteredSchema,
    Schemas,
    UnusableSchemaError,
    WriterSchema,
)
from lakehouse.errors import TopicError
from lakehouse.kafka.registry_client import Registry, registry, writer_schema_of
from lakehouse.settings import Settings


def writing_of(settings: Settings, table: StreamTable, schema: str | None) -> tuple[Callable[[bytes], bytes], Parser]:
    """What makes the value of a record of a line, and what parses it again.

    The schema that records name is registered under ``TOPIC-value``: ``schema``, else the newest of that, else one that
    follows from the declaration. Raises ``RegistryError`` where the registry refuses it, since it is not compatible
    with those before it; ``TopicError`` where nothing can be written by it.
    """
    subject, form = f"{table.topic}-value", table.format
    with registry(settings) as talk:
        try:
            schema_id, writer = _chosen(talk, subject, schema, table)
        except UnusableSchemaError as error:
            raise TopicError(f"Nothing can be written by the schema: {error}", where=f"subject {subject}") from None
    schemas = Schemas({schema_id: writer}, {}) if writer else NO_SCHEMAS
    return form.writer(schema_id, writer), form.parser(schemas)


def _chosen(talk: Registry, subject: str, text: str | None, table: StreamTable) -> tuple[int, WriterSchema | None]:
    """The id of the schema that records name, and the schema itself if values are written by it."""
    form = table.format
    newest = None if text else talk.newest(subject)
    if newest is not None:
        found = writer_schema_of(talk, newest, form) if form.needs_schemas else None
        if found or not form.needs_schemas:
            return newest, found
    text = text or form.declared_schema(table.name, table.fields)
    kind = form.schema_kind or ""
    writer = form.writer_schema(RegisteredSchema(text, (), kind)) if form.needs_schemas else None
    return talk.register(subject, text, kind), writer
