"""The assets of a declaration in Dagster's catalog: keys, groups, owners, descriptions, columns and lineage."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakehouse.declaration import Column, Computed, Reference, Rollup, StreamTable, View
from lakehouse.declaration.sink import Outlet
from lakehouse.declaration.sql import named_columns
from lakehouse.decoding.nested_types import as_spark_says
from lakehouse.decoding.record_parts import INDEX, TIME, UNMAPPED, VALUE, WINDOW_TIMES
from lakehouse.decoding.written_forms import written_kinds
from lakehouse.derived.feed import changes_layout
from lakehouse.derived.refresh import rollup_layout
from lakehouse.ingest.load import base_layout
from lakehouse.ingest.rejected_records import rejected_layout
from lakehouse.ingest.rejecting_rules import named_references
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.row_order import merged_layout

CHECKS_PAGE = "how-to/troubleshooting.html"  # of the site
OWN_CHECK_SECTION = "a-check-of-your-own"  # of that page; every other check has a section of its name
_TABLE_KINDS = {"delta", "spark", "table"}
_NO_SETTINGS = Settings.model_construct()  # columns do not depend on settings: importing must not read any
_SOURCE_KINDS = {"topic": "kafka", "folder": "file", "source": "delta", "generator": "python"}
Origins = Mapping[str, Sequence[tuple[str, str]]]
"""For each column, the (asset, column) pairs that it is computed from."""


def step_name(key: dg.AssetKey) -> str:
    """Name of the step that writes an asset, or several of which this is the first."""
    return re.sub(r"[^A-Za-z0-9_]", "_", "__".join(key.path))


@dataclass(frozen=True)
class CatalogEntry:
    """A declared table and its place in the catalog.

    ``prefix`` precedes the name of each asset in its key. The group of the assets is ``group_override``, by default the
    name of the table. Their owners are ``owners_override``, by default the declared owner. ``docs_url`` is where the
    documentation is published; without it, descriptions of checks have no links. ``has_database``: a database is
    set with which tables of change streams are compared. ``has_catalog``: one is set in which tables are registered.
    ``outlets`` are those of its tables. ``readers`` are all tables of Dagster's catalog that read the same topic,
    folder or table; it has one asset, of the first of them.
    """

    table: StreamTable
    prefix: Sequence[str] = ()
    group_override: str | None = None
    owners_override: Sequence[str] | None = None
    docs_url: str | None = None
    has_database: bool = False
    has_catalog: bool = False
    outlets: Sequence[Outlet] = ()
    readers: Sequence[StreamTable] = ()

    @property
    def topic_name(self) -> str:
        """Name of the asset that represents what the table reads: a topic, a folder or a table."""
        return f"{(self.readers or [self.table])[0].name}_{self.table.source_suffix}"

    @property
    def has_own_topic(self) -> bool:
        """Whether the asset of what the table reads belongs to this table, and not to another one that reads it."""
        return not self.readers or self.readers[0].name == self.table.name

    @property
    def replayed_key(self) -> dg.AssetKey:
        """The key of the asset whose runs replay days, whether it exists or not."""
        return self.key(self.table.replayed_name)

    @property
    def sensor(self) -> str:
        """Name of the sensor that requests the merge job."""
        return f"{self.table.name}_sensor"

    @property
    def merge_job(self) -> str:
        """Name of the job that merges the table and updates its derived tables."""
        return f"merge_{self.table.name}"

    @property
    def maintain_job(self) -> str:
        """Name of the job that maintains the tables of the declaration."""
        return f"maintain_{self.table.name}"

    @property
    def verify_job(self) -> str:
        """Name of the job that checks the whole tables of the declaration."""
        return f"verify_{self.table.name}"

    @property
    def merge_job_keys(self) -> list[dg.AssetKey]:
        """The keys of the assets that the merge job writes."""
        table = self.table
        return self.keys(table.name, table.rejected_name, *table.derived)

    @property
    def merged_key(self) -> dg.AssetKey:
        """The key of the merged table."""
        return self.key(self.table.name)

    @property
    def group(self) -> str:
        """The group of the assets."""
        return self.group_override or self.table.name

    @property
    def owners(self) -> list[str]:
        """The owners of the assets."""
        return [self.table.owner] if self.owners_override is None else list(self.owners_override)

    def check_spec(self, check: str, table_name: str, doc: str) -> dg.AssetCheckSpec:
        """The spec of a check on the asset of one of the tables."""
        return dg.AssetCheckSpec(check, asset=self.key(table_name), description=self.check_doc(check, doc))

    def check_doc(self, check: str, doc: str) -> str:
        """The description of a check, with a link to the section of the documentation that says what to do."""
        section = OWN_CHECK_SECTION if check in {own.name for own in self.table.checks} else check
        url = f"{self.docs_url.rstrip('/')}/{CHECKS_PAGE}#{section}" if self.docs_url else None
        return f"{doc} [What to do if it fails]({url})" if url else doc

    def key(self, name: str) -> dg.AssetKey:
        """The key of the asset with this name."""
        return dg.AssetKey([*self.prefix, name])

    def keys(self, *names: str) -> list[dg.AssetKey]:
        """The keys of the assets with these names."""
        return [self.key(name) for name in names]


def topic_spec(entry: CatalogEntry) -> dg.AssetSpec:
    """What the table reads, an external asset that others write. The sensor reports what it holds if that changed."""
    table, readers = entry.table, entry.readers or [entry.table]
    fields: dict[str, TableColumn] = {}
    for reader in readers:
        for column in reader.record_columns:
            is_text = reader.format.is_text and len(column.field.place.names) == 1
            source = column.field.source
            fields.setdefault(source, TableColumn(source, _record_type(column, is_text=is_text), column.doc))
    system = "Kafka " if table.has_topics else ""
    text = f"{system}{table.topic_text}"
    doc = f"{text[0].upper()}{text[1:]}. Its records are merged into {', '.join(reader.name for reader in readers)}."
    layout = Layout(entry.topic_name, "", doc, list(fields.values()))
    return _spec(entry, layout, kinds={_SOURCE_KINDS[table.source_suffix]})


def reference_spec(entry: CatalogEntry, reference: Reference) -> dg.AssetSpec:
    """A reference table, loaded as a whole from its file."""
    columns = [TableColumn(column.name, column.type, column.doc) for column in reference.columns]
    return _spec(entry, Layout(reference.name, "", reference.doc, columns))


def base_spec(entry: CatalogEntry) -> dg.AssetSpec:
    """The rows of the base files."""
    return _spec(entry, base_layout(entry.table, _NO_SETTINGS))


def merged_spec(entry: CatalogEntry) -> dg.AssetSpec:
    """The merged table: the newest base row or record of each key; in a log table, every record."""
    table = entry.table
    origins = {column.name: [(entry.topic_name, column.field.source)] for column in table.record_columns}
    for computed in table.computed_columns:
        names = _referenced_columns(computed.sql, table.record_columns)
        origins[computed.name] = [pair for name in names for pair in origins[name]]
    if table.base:
        for name, pairs in origins.items():
            pairs.append((table.base_name, name))
    if table.partition_by and table.partition_column:
        origins[table.partition_by.name] = origins[table.partition_by.column]
    deps = [entry.topic_name, *([table.base_name] if table.base else []), *_names_in_rules(table)]
    return _spec(entry, merged_layout(table, _NO_SETTINGS), origins, deps)


def rejected_spec(entry: CatalogEntry) -> dg.AssetSpec:
    """The rejected records, which cannot become rows of the merged table."""
    deps = [entry.topic_name, *_names_in_rules(entry.table)]
    return _spec(entry, rejected_layout(entry.table, _NO_SETTINGS), deps=deps)


def _names_in_rules(table: StreamTable) -> list[str]:
    """The references that rules of a table name: a run that loads them does so before it merges."""
    return [reference.name for reference in named_references(table)]


def changes_spec(entry: CatalogEntry) -> dg.AssetSpec:
    """The change feed of the merged table."""
    table = entry.table
    origins = {name: [(table.name, name)] for name in table.key}
    for name in table.values:
        origins |= {f"{name}_{suffix}": [(table.name, name)] for suffix in ("before", "after")}
    return _spec(entry, changes_layout(table, _NO_SETTINGS), origins, [table.name])


def rollup_spec(entry: CatalogEntry, rollup: Rollup) -> dg.AssetSpec:
    """An aggregate of the merged table, one row for each group."""
    table = entry.table
    origins = {name: [(table.name, name)] for name in rollup.by}
    for name, measure in rollup.measures.items():
        origins[name] = [(table.name, column) for column in _referenced_columns(measure.sql, table.columns)]
    return _spec(entry, rollup_layout(table, rollup, _NO_SETTINGS), origins, [table.name])


def table_specs(entry: CatalogEntry) -> list[dg.AssetSpec]:
    """The tables of a declaration: the merged table, its rejected records, then derived, base and reference tables."""
    table = entry.table
    return [
        merged_spec(entry),
        rejected_spec(entry),
        *([] if table.is_log else [changes_spec(entry)]),
        *(rollup_spec(entry, rollup) for rollup in table.rollups),
        *([base_spec(entry)] if table.base else []),
        *(reference_spec(entry, reference) for reference in table.references),
    ]


def replayed_spec(entry: CatalogEntry) -> dg.AssetSpec:
    """The days of records that can be replayed, from the declared first day to today, UTC."""
    table = entry.table
    days = dg.DailyPartitionsDefinition(start_date=f"{table.topic_options.replay_from}", timezone="UTC", end_offset=1)
    return dg.AssetSpec(
        entry.key(table.replayed_name),
        deps=entry.keys(table.name),
        description=f"Days of {table.topic_text} whose records were merged into {table.name} again. Choose days to"
        " replay their records, by their time in the topic (UTC). Correct rows do not change. The run then updates the"
        " change feed and the rollups.",
        group_name=entry.group,
        owners=entry.owners,
        kinds={"kafka", "delta", "spark"},
        partitions_def=days,
        metadata={"dagster/code_references": code_references(table)} if table.file else {},
    )


def _spec(
    entry: CatalogEntry,
    layout: Layout,
    origins: Origins | None = None,
    deps: Sequence[str] = (),
    kinds: set[str] = _TABLE_KINDS,
) -> dg.AssetSpec:
    table = entry.table
    schema = dg.TableSchema(columns=[_column(table, column) for column in layout.columns])
    metadata: dict[str, Any] = {"dagster/table_name": layout.name, "dagster/column_schema": schema}
    if origins:
        metadata["dagster/column_lineage"] = column_lineage(entry.key, origins)
    if table.file:
        metadata["dagster/code_references"] = code_references(table)
    return dg.AssetSpec(
        entry.key(layout.name),
        deps=entry.keys(*deps),
        description=layout.doc,
        group_name=entry.group,
        owners=entry.owners,
        kinds=kinds,
        metadata=metadata,
    )


def code_references(declaration: StreamTable | View | Outlet) -> dg.CodeReferencesMetadataValue:
    """The file of a declaration, for a link in the catalog."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # otherwise every run would warn that this class is a beta
        file = dg.LocalFileCodeReference(file_path=declaration.file, label=f"declaration of {declaration.name}")
        return dg.CodeReferencesMetadataValue(code_references=[file])


def _referenced_columns(sql: str, columns: Sequence[Column | Computed]) -> list[str]:
    return sorted(named_columns(sql) & {column.name for column in columns})


def column_lineage(key: Callable[[str], dg.AssetKey], origins: Origins) -> dg.TableColumnLineage:
    """What columns are computed from; ``key`` returns the key of an asset."""
    deps = {
        column: [dg.TableColumnDep(asset_key=key(asset), column_name=name) for asset, name in pairs]
        for column, pairs in origins.items()
    }
    return dg.TableColumnLineage(deps)


def _column(table: StreamTable, column: TableColumn) -> dg.TableColumn:
    """Convert a column for Dagster, with the constraints of its declaration."""
    read_column = next((read for read in table.record_columns if read.name == column.name), None)
    limits = [f"{read_column.between[0]} to {read_column.between[1]}"] if read_column and read_column.between else []
    constraints = dg.TableColumnConstraints(nullable=not (read_column and read_column.required), other=limits)
    return dg.TableColumn(column.name, as_spark_says(column.type), column.doc, constraints)


def _record_type(column: Column, *, is_text: bool) -> str:
    """The type of a field in a record, as JSON names it. Parts other than its value are text, or bytes, or the time."""
    is_bytes = column.type == "BINARY" and column.form is None
    if column.field.place.part != VALUE and column.field.place.key_encoding != "json":
        if column.field.place.part in (UNMAPPED, INDEX):
            return "object" if column.field.place.part == UNMAPPED else "number"
        text_type = (
            "bytes" if column.field.place.key_encoding in ("big_endian", *WINDOW_TIMES) or is_bytes else "string"
        )
        return "timestamp" if column.field.place.part == TIME else text_type
    if column.is_nested:
        return "array" if column.type.startswith("ARRAY") or column.form is not None else "object"
    if column.form is not None:
        return "|".join(written_kinds(column.form)) or "any"
    if is_text or column.type == "STRING" or column.time.pattern is not None:
        return "string"
    return "bytes" if is_bytes else "boolean" if column.type == "BOOLEAN" else "number"
