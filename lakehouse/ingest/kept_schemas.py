"""The schemas by which records were read, kept in a separate table: the meaning of each id, independent of a registry.

Because of this table, a replay needs no registry, and a redrive needs one only for unknown ids. A registry that was
recreated gives its ids to other schemas: a batch then stops, instead of reading records by the wrong schema.
"""

import pyarrow as pa

from lakehouse.declaration import StreamTable
from lakehouse.decoding.formats.format import NO_SCHEMAS, Schemas, WriterSchema
from lakehouse.ledger.ledger import ledger_of
from lakehouse.ledger.log import open_table
from lakehouse.ledger.table_failures import log_failures
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn

COLUMNS = (
    TableColumn("id", "BIGINT", "Id of the schema in the registry."),
    TableColumn("fingerprint", "STRING", "SHA-256 of its meaning, independent of its formatting."),
    TableColumn("schema", "STRING", "The schema, as JSON with full names."),
    TableColumn("references", "ARRAY<STRING>", "Schemas that it refers to, each after those it refers to itself."),
)


def schemas_layout(table: StreamTable, settings: Settings) -> Layout:
    """Return the layout of the schemas: one row for each id, never changed."""
    doc = f"Schemas with which records of {table.topic_text} were decoded: one row per id."
    uri = settings.table_uri(table.schemas_name)
    return Layout(
        table.schemas_name,
        uri,
        doc,
        COLUMNS,
        retention=table.retention,
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
        schema_table = open_table(uri)
        rows = (
            pa.table(schema_table.to_pyarrow_table(columns=["id", "schema", "references"])).to_pylist()
            if schema_table
            else []
        )
    return Schemas({row["id"]: WriterSchema(row["schema"], tuple(row["references"] or ()), kind) for row in rows}, {})
