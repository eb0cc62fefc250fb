"""The assets of a declaration as Dagster's catalog shows them: names, words, columns and where they come from."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse.declaration import Column, Reference, Rollup, StreamTable
from lakehouse.declaration.sql import named_columns
from lakehouse.decoding.nested_types import as_spark_says
from lakehouse.decoding.record_parts import TIME, VALUE
from lakehouse.defs.catalog_entries import Listed
from lakehouse.derived.feed import changes_layout
from lakehouse.derived.rollup import rollup_layout
from lakehouse.ingest.load import base_layout
from lakehouse.ingest.rejected_records import rejected_layout
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse.storage.row_order import merged_layout

_TABLE_KINDS = {"delta", "spark", "table"}
_NOWHERE = Settings.model_construct()  # columns do not depend on where a table is: nothing is read at import
Origins = Mapping[str, Sequence[tuple[str, str]]]
"""For each column the (asset, column) pairs it is made from."""


def topic_spec(listed: Listed) -> dg.AssetSpec:
    """The topic: external, filled by producers; the sensor reports its offsets when they moved."""
    table = listed.table
    fields = [TableColumn(column.field.source, _record_type(column), column.doc) for column in table.told]
    doc = f"Kafka topic {table.topic}: the records that are merged into {table.name}."
    return _spec(listed, Layout(listed.topic, "", doc, fields), kinds={"kafka"})


def reference_spec(listed: Listed, reference: Reference) -> dg.AssetSpec:
    """A reference table, read whole from its file."""
    return _spec(listed, Layout(reference.name, "", reference.doc, _columns(reference.columns)))


def base_spec(listed: Listed) -> dg.AssetSpec:
    """The base rows, as the files have them."""
    return _spec(listed, base_layout(listed.table, _NOWHERE))


def merged_spec(listed: Listed) -> dg.AssetSpec:
    """The merged table: base rows and records, the newest of each key; of a log table, each record."""
    table = listed.table
    origins = {column.name: [(listed.topic, column.field.source)] for column in table.told}
    for column in table.columns:
        if column.sql is not None:
            origins[column.name] = [pair for name in _named_in(column.sql, table.told) for pair in origins[name]]
    if table.base:
        for name, pairs in origins.items():
            pairs.append((table.base_name, name))
    if table.partition_by and table.partition_column:
        origins[table.partition_by.name] = origins[table.partition_by.column]
    deps = [listed.topic, *([table.base_name] if table.base else [])]
    return _spec(listed, merged_layout(table, _NOWHERE), origins, deps)


def rejected_spec(listed: Listed) -> dg.AssetSpec:
    """The records that may not enter the merged table."""
    return _spec(listed, rejected_layout(listed.table, _NOWHERE), deps=[listed.topic])


def changes_spec(listed: Listed) -> dg.AssetSpec:
    """The change feed of the merged table."""
    table = listed.table
    origins = {name: [(table.name, name)] for name in table.key}
    for name in table.values:
        origins |= {f"{name}_{when}": [(table.name, name)] for when in ("before", "after")}
    return _spec(listed, changes_layout(table, _NOWHERE), origins, [table.name])


def rollup_spec(listed: Listed, rollup: Rollup) -> dg.AssetSpec:
    """An aggregate of the merged table, one row for each group."""
    table = listed.table
    origins = {name: [(table.name, name)] for name in rollup.by}
    for name, measure in rollup.measures.items():
        origins[name] = [(table.name, column) for column in _named_in(measure.sql, table.columns)]
    return _spec(listed, rollup_layout(table, rollup, _NOWHERE), origins, [table.name])


def table_specs(listed: Listed) -> list[dg.AssetSpec]:
    """The tables of a declaration: the merged one first, then what is written with it, what derives, what it reads."""
    table = listed.table
    return [
        merged_spec(listed),
        rejected_spec(listed),
        *([] if table.is_log else [changes_spec(listed)]),
        *(rollup_spec(listed, rollup) for rollup in table.rollups),
        *([base_spec(listed)] if table.base else []),
        *(reference_spec(listed, reference) for reference in table.references),
    ]


def maintenance_spec(listed: Listed) -> dg.AssetSpec:
    """Compaction and vacuum of all tables of a declaration: what it did, night by night."""
    table = listed.table
    retention = str(table.retention).removesuffix(", 0:00:00")
    return dg.AssetSpec(
        listed.key(listed.maintenance),
        deps=listed.keys(table.name, *table.derived),
        description=f"Compaction and vacuum of {table.name} and of every table that belongs to it; no row changes."
        f" Each can be read as it was at any time in the last {retention}.",
        group_name=listed.group,
        owners=listed.owners,
        kinds={"delta", "spark"},
        metadata={"dagster/code_references": _declared_in(table)} if table.file else {},
    )


def _spec(
    listed: Listed,
    layout: Layout,
    origins: Origins | None = None,
    deps: Sequence[str] = (),
    kinds: set[str] = _TABLE_KINDS,
) -> dg.AssetSpec:
    table = listed.table
    schema = dg.TableSchema(columns=[_column(table, column) for column in layout.columns])
    metadata: dict[str, Any] = {"dagster/table_name": layout.name, "dagster/column_schema": schema}
    if origins:
        metadata["dagster/column_lineage"] = _lineage(listed, origins)
    if table.file:
        metadata["dagster/code_references"] = _declared_in(table)
    return dg.AssetSpec(
        listed.key(layout.name),
        deps=listed.keys(*deps),
        description=layout.doc,
        group_name=listed.group,
        owners=listed.owners,
        kinds=kinds,
        metadata=metadata,
    )


def _declared_in(table: StreamTable) -> dg.CodeReferencesMetadataValue:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # a beta that every run would warn about
        file = dg.LocalFileCodeReference(file_path=table.file, label=f"declaration of {table.name}")
        return dg.CodeReferencesMetadataValue(code_references=[file])


def _named_in(sql: str, columns: Sequence[Column]) -> list[str]:
    """Those of the columns that a piece of SQL names."""
    return sorted(named_columns(sql) & {column.name for column in columns})


def _lineage(listed: Listed, origins: Origins) -> dg.TableColumnLineage:
    deps = {
        column: [dg.TableColumnDep(asset_key=listed.key(asset), column_name=name) for asset, name in pairs]
        for column, pairs in origins.items()
    }
    return dg.TableColumnLineage(deps)


def _columns(columns: Sequence[Column]) -> list[TableColumn]:
    return [TableColumn(column.name, column.type, column.doc) for column in columns]


def _column(table: StreamTable, column: TableColumn) -> dg.TableColumn:
    """Add what the declaration allows, where the column is a declared one."""
    declared = table.by_name.get(column.name)
    limits = [f"{declared.between[0]} to {declared.between[1]}"] if declared and declared.between else []
    constraints = dg.TableColumnConstraints(nullable=not (declared and declared.required), other=limits)
    return dg.TableColumn(column.name, as_spark_says(column.type), column.doc, constraints)


def _record_type(column: Column) -> str:
    """What a field is in a record, which is JSON; what stands beside its value is text, but for the broker's time."""
    if column.field.part != VALUE:
        written = "bytes" if column.field.written == "big_endian" else "string"
        return "timestamp" if column.field.part == TIME else written
    if column.is_nested:
        return "array" if column.type.startswith("ARRAY") else "object"
    if column.type == "STRING" or column.pattern is not None:
        return "string"
    return "boolean" if column.type == "BOOLEAN" else "number"
