"""Resolution of the schemas of a batch: new schemas are kept, and kept ones must not have changed in the registry."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from lakehouse.declaration import Rejection, StreamTable
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.framing import split_frame
from lakehouse.errors import RegistryError
from lakehouse.kafka.registry_client import Registry, SchemaRefusedError, registry, writer_schema_of
from lakehouse.ledger.ledger import ledger_of
from lakehouse.ledger.log import open_rows
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.merge_spec import MergeSpec, equal_keys, from_source
from lakehouse.storage.table_context import TableContext

COLUMNS = (
    TableColumn("id", "BIGINT", "Id of the schema in the registry."),
    TableColumn("fingerprint", "STRING", "SHA-256 of its meaning, independent of its formatting."),
    TableColumn("schema", "STRING", "The schema, in the form by which records are read."),
    TableColumn("references", "ARRAY<STRING>", "Schemas that it refers to, each after those it refers to itself."),
)
MAX_REQUESTED_IDS = 1_000
"""Maximum number of unknown ids that are requested for one batch: bytes of another format may look like any id."""
MAX_REQUESTS = 2_000
"""Requests of one batch after which no other unknown id is requested: a schema may refer to hundreds of others."""
_MAX_CONFIRMED = 100  # of the first and of the last ids
_ID_LIMIT = 2**31  # the ids of a registry are lower


def schemas_layout(table: StreamTable, settings: Settings) -> Layout:
    """Return the layout of the schemas: one row for each id, never changed."""
    return Layout(
        table.schemas_name,
        settings.table_uri(table.schemas_name),
        f"Schemas with which records of {table.topic_text} were decoded: one row per id.",
        COLUMNS,
        retention=table.upkeep.retention,
        anchors=["id", "schema"],
        sync=settings.sync,
    )


def kept_schemas(settings: Settings, table: StreamTable) -> Schemas:
    """Return the schemas that are kept for a table, without a JVM; none if its records have no schema ids.

    Raises ``LedgerError`` if another version of lakehouse wrote them.
    """
    kind = table.schema_format.schema_kind if table.schema_format else None
    if kind is None:
        return NO_SCHEMAS
    ledger_of(settings, table.schemas_name)
    uri = settings.table_uri(table.schemas_name)
    with log_failures(uri):
        schema_table = open_rows(uri)
        rows = (
            pa.table(schema_table.to_pyarrow_table(columns=["id", "schema", "references"])).to_pylist()
            if schema_table
            else []
        )
    return Schemas({row["id"]: WriterSchema(row["schema"], tuple(row["references"] or ()), kind) for row in rows}, {})


def resolve_schemas(context: TableContext, known_schemas: Schemas, ids: Sequence[int], *, confirm: bool) -> Schemas:
    """Request unknown ids from the registry, the first of ``ids`` first, and keep their schemas.

    With ``confirm``, known schemas must mean the same in the registry, if it still has them. Before new ones are kept,
    the first and the last kept ones are confirmed too; an id that stays unknown confirms none. Raises ``RegistryError``
    if a schema has changed, if the registry does not answer, and if it permits us to read none. An id that it does not
    have stays unknown, and so do those beyond the maximum. The result also has the reasons why other schemas cannot be
    used.
    """
    new_ids = [schema_id for schema_id in ids if schema_id not in known_schemas.by_id and schema_id < _ID_LIMIT]
    unknown_ids = _likely_first(new_ids, known_schemas)[:MAX_REQUESTED_IDS]
    known_ids = [schema_id for schema_id in ids if schema_id in known_schemas.by_id]
    ids_to_confirm = known_ids[:MAX_REQUESTED_IDS] if confirm or unknown_ids else []
    if not unknown_ids and not ids_to_confirm:
        return known_schemas

    def is_unchanged(schema_id: int) -> bool:
        return _is_unchanged(client, schema_id, known_schemas, context.table, is_in_batch=schema_id in ids)

    with registry(context.settings) as client:
        confirmations = [is_unchanged(schema_id) for schema_id in ids_to_confirm]
        other_ids = [schema_id for schema_id in _first_and_last(known_schemas) if schema_id not in {*ids_to_confirm}]
        reading = _read_schemas(client, _format_of(context.table), unknown_ids)
        schemas, unusable_reasons = reading.schemas, reading.unusable_reasons
        if schemas:
            confirmations += [is_unchanged(schema_id) for schema_id in other_ids]
        if reading.refusal and not any(confirmations):
            confirmations.append(any(map(is_unchanged, other_ids)))  # the first that we may read suffices
        reading.require_right(is_trusted=any(confirmations))
    if schemas:
        _keep_schemas(context, schemas)
    return Schemas({**known_schemas.by_id, **schemas}, unusable_reasons)


def look_up_schemas(
    settings: Settings, record_format: Format, values: Iterable[bytes | None], known_schemas: Schemas = NO_SCHEMAS
) -> Schemas:
    """Return the ``known_schemas``, and those that the registry has for the other ids in records of a format.

    Keeps nothing. Raises ``RegistryError``.
    """
    ids = set[int]()
    for value in values:
        with suppress(Rejection):
            ids.add(split_frame(value)[0])
    unknown_ids = {schema_id for schema_id in ids - known_schemas.by_id.keys() if schema_id < _ID_LIMIT}
    if not unknown_ids:
        return known_schemas
    with registry(settings) as client:
        first_ids = sorted(unknown_ids)[:MAX_REQUESTED_IDS]
        reading = _read_schemas(client, record_format, first_ids)
        reading.require_right(is_trusted=bool(known_schemas.by_id))
    return Schemas({**known_schemas.by_id, **reading.schemas}, reading.unusable_reasons)


def _format_of(table: StreamTable) -> Format:
    """Return the format of the schemas of a table that has any."""
    return table.schema_format or table.format


def _first_and_last(known_schemas: Schemas) -> list[int]:
    """Return the ids that a recreated registry gives to other schemas first; not all, as each needs a request."""
    ids = sorted(known_schemas.by_id)
    return [*ids[:_MAX_CONFIRMED], *ids[-_MAX_CONFIRMED:]]


def _likely_first(ids: list[int], known_schemas: Schemas) -> list[int]:
    """Return first the next ids of a registry, then the others in their order: they may be bytes of another format."""
    last_id = max(known_schemas.by_id, default=0)
    next_ids = sorted(schema_id for schema_id in ids if last_id < schema_id <= last_id + MAX_REQUESTED_IDS // 2)
    return [*next_ids, *(schema_id for schema_id in ids if schema_id not in {*next_ids})]


@dataclass(frozen=True)
class _Reading:
    """The schemas of ids, why others cannot be used, and the last refusal, if there is one."""

    schemas: dict[int, WriterSchema]
    unusable_reasons: dict[int, str]
    refusal: SchemaRefusedError | None = None

    def require_right(self, *, is_trusted: bool) -> None:
        """Raise the refusal if no schema could be read: without any right, no record can be judged.

        ``is_trusted``: the registry has let us read another schema.
        """
        if self.refusal and not self.schemas and not is_trusted:
            raise self.refusal


def _read_schemas(client: Registry, record_format: Format, ids: Collection[int]) -> _Reading:
    schemas, unusable_reasons = dict[int, WriterSchema](), dict[int, str]()
    refusal: SchemaRefusedError | None = None
    for schema_id in ids:
        if client.request_count >= MAX_REQUESTS:
            break
        try:
            schema = writer_schema_of(client, schema_id, record_format)
        except UnusableSchemaError as error:
            unusable_reasons[schema_id] = str(error).encode("utf-8", "replace").decode()
            continue
        except SchemaRefusedError as error:
            unusable_reasons[schema_id], refusal = "the registry does not permit us to read it", error
            continue
        if schema is not None:
            schemas[schema_id] = schema
    return _Reading(schemas, unusable_reasons, refusal)


def _is_unchanged(
    client: Registry, schema_id: int, known_schemas: Schemas, table: StreamTable, *, is_in_batch: bool
) -> bool:
    """Whether the registry has the kept schema for an id; ``False`` if it was deleted: it has no other one then.

    Raises ``RegistryError`` if it has another schema. If we may not read the schema, raises only if it is in the batch.
    """
    kept_schema, record_format = known_schemas.by_id[schema_id], _format_of(table)
    try:
        registered_schema = client.schema(schema_id, record_format.schema_kind)
        if registered_schema and record_format.is_made_from(kept_schema, registered_schema):
            return True
        schema = registered_schema and record_format.writer_schema(registered_schema)
    except UnusableSchemaError as error:
        if record_format.can_use(kept_schema):
            fact = f"Schema {schema_id} of the registry can no longer be used ({error})"
            raise _changed_error(table, fact) from None
        return False
    except SchemaRefusedError:
        if is_in_batch:
            raise
        return False
    if schema is not None and record_format.fingerprint(schema) != record_format.fingerprint(kept_schema):
        if not record_format.can_use(kept_schema):
            raise _old_form_error(table, schema_id)
        raise _changed_error(table, f"Schema {schema_id} of the registry has changed")
    return schema is not None


def _keep_schemas(context: TableContext, schemas: Mapping[int, WriterSchema]) -> None:
    """Store schemas; raises ``RegistryError`` if another process has stored a different one for an id meanwhile."""
    record_format = _format_of(context.table)
    rows = [(i, record_format.fingerprint(s), s.text, list(s.references)) for i, s in schemas.items()]
    columns = ", ".join(f"`{column.name}` {column.type}" for column in COLUMNS)
    spec = MergeSpec(equal_keys(["id"]), insert=from_source([column.name for column in COLUMNS]))
    schema_table = context.stored_table(schemas_layout)
    commit = schema_table.ensured_ledger().next_commit("load", context.run)
    schema_table.merge(context.spark.createDataFrame(rows, columns), spec, commit)
    stored_schemas = kept_schemas(context.settings, context.table).by_id
    for schema_id, schema in schemas.items():
        if record_format.fingerprint(stored_schemas[schema_id]) != record_format.fingerprint(schema):
            raise _changed_error(context.table, f"Schema {schema_id} of the registry has changed")


def _changed_error(table: StreamTable, fact: str) -> RegistryError:
    return RegistryError(
        f"{fact}, and records were read by the schema that is kept in {table.schemas_name}",
        where=f"table {table.name}",
        action="Nothing was written. A recreated registry gives its ids to other schemas: restore its data, or write"
        " the records of the new registry to a separate topic and table.",
    )


def _old_form_error(table: StreamTable, schema_id: int) -> RegistryError:
    return RegistryError(
        f"Schema {schema_id} is kept in {table.schemas_name} in a form that this version does not read",
        where=f"table {table.name}",
        action=f"Nothing was written. Delete the table {table.schemas_name}: the next run requests its schemas again.",
    )
