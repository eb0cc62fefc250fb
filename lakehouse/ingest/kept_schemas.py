"""The schemas by which records were read, kept in a table of their own: what an id meant, whatever its registry says.

So a replay needs no registry, and a redrive only for ids that were not known; and a registry that was made anew, and
gives its ids to other schemas, stops a batch instead of having its records read by another schema than wrote them.
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
    TableColumn("fingerprint", "STRING", "SHA-256 of what it means, whatever its spacing."),
    TableColumn("schema", "STRING", "The schema, as JSON with every name in full."),
    TableColumn("references", "ARRAY<STRING>", "Schemas that it refers to, each after those that it refers to itself."),
)


def schemas_layout(table: StreamTable, settings: Settings) -> Layout:
    """How the schemas are kept: one row for each id, never changed."""
    doc = f"Schemas by which records of topic {table.topic} were read: what each id meant."
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
    """The schemas that are kept for a table, without a JVM; none where its records name none.

    Raises ``LedgerError`` where another version of lakehouse wrote them.
    """
    kind = table.format.schema_kind
    if not table.has_schemas or kind is None:
        return NO_SCHEMAS
    ledger_of(settings, table.schemas_name)
    uri = settings.table_uri(table.schemas_name)
    with log_failures(uri):
        there = open_table(uri)
        rows = pa.table(there.to_pyarrow_table(columns=["id", "schema", "references"])).to_pylist() if there else []
    return Schemas({row["id"]: WriterSchema(row["schema"], tuple(row["references"] or ()), kind) for row in rows}, {})
