"""Lines as values of records with a schema id: the schema that ``publish`` writes by, and the functions to write."""

from collections.abc import Callable

from lakehouse.declaration import StreamTable
from lakehouse.decoding.formats.format import NO_SCHEMAS, RegisteredSchema, Schemas, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.parser import Parser
from lakehouse.errors import TopicError
from lakehouse.kafka.registry_client import Registry, registry, writer_schema_of
from lakehouse.settings import Settings


def choose_value_writer(
    settings: Settings, table: StreamTable, schema: str | None, subject: str | None = None
) -> tuple[Callable[[bytes], bytes], Parser]:
    """Return the function that turns a line into the value of a record, and the one that parses it again.

    The schema is registered under ``subject``, by default ``TOPIC-value``: ``schema``, or the newest one of that
    subject, or one generated from the declaration. Raises ``RegistryError`` if the registry refuses it as incompatible
    with the schemas before it, and ``TopicError`` if no value can be written by it.
    """
    subject, record_format = subject or f"{table.topic}-value", table.format
    with registry(settings) as client:
        try:
            schema_id, writer_schema = _choose_schema(client, subject, schema, table)
        except UnusableSchemaError as error:
            raise TopicError(
                f"The schema cannot be used for writing: {error}",
                where=f"subject {subject}",
                action="Nothing was sent. Name another schema with --schema FILE.",
            ) from None
    schemas = Schemas({schema_id: writer_schema}, {}) if writer_schema else NO_SCHEMAS
    return record_format.writer(schema_id, writer_schema), record_format.parser(schemas)


def _choose_schema(
    client: Registry, subject: str, text: str | None, table: StreamTable
) -> tuple[int, WriterSchema | None]:
    """Return the id of the schema for the records, and the schema itself if values are written by it."""
    record_format = table.format
    newest_id = None if text else client.newest_id(subject)
    if newest_id is not None:
        newest_schema = writer_schema_of(client, newest_id, record_format) if record_format.needs_schemas else None
        if newest_schema or not record_format.needs_schemas:
            return newest_id, newest_schema
    if text is None and record_format.needs_schemas and table.has_elements:
        raise UnusableSchemaError("a declaration with rows_from does not describe whole records")
    text = text or record_format.declared_schema(table.name, table.fields)
    kind = record_format.schema_kind or ""
    schema = record_format.writer_schema(RegisteredSchema(text, (), kind)) if record_format.needs_schemas else None
    return client.register(subject, text, kind), schema
