"""Views in Dagster: an asset for each, and a job and a sensor for each materialized one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakehouse.declaration import StreamTable, View
from lakehouse.defs import results
from lakehouse.defs.catalog_entries import step_name
from lakehouse.defs.followers import Following, build_follower
from lakehouse.defs.resources import LakehouseResource, explained
from lakehouse.defs.specs import code_references
from lakehouse.defs.steps import name_run
from lakehouse.operations.materialize import Materialization, ViewUpdate
from lakehouse.operations.view_columns import TypedView, type_views

_GROUP = "views"
_VERSIONS = dg.TableSchema(columns=[dg.TableColumn("table", "string"), dg.TableColumn("version", "int")])


@dataclass(frozen=True)
class ViewCatalog:
    """Where views are in the catalog: the prefix of their keys, and the group and owners in place of their own."""

    prefix: Sequence[str] = ()
    group: str | None = None
    owners: Sequence[str] | None = None

    def key(self, name: str) -> dg.AssetKey:
        """The key of the asset with this name."""
        return dg.AssetKey([*self.prefix, name])


def build_views(tables: Sequence[StreamTable], views: Sequence[View], catalog: ViewCatalog) -> dg.Definitions:
    """Build the assets of views over these tables, and what materializes them.

    Raises ``DeclarationError`` if a view reads a table or column that these tables do not have.
    """
    definitions = []
    for typed_view in type_views(tables, views) if views else ():
        spec = view_spec(typed_view, catalog)
        if typed_view.view.materialized:
            definitions.append(_build_materialized(spec, typed_view.view, views))
        else:
            definitions.append(dg.Definitions(assets=[spec]))
    return dg.Definitions.merge(*definitions)


def view_spec(typed_view: TypedView, catalog: ViewCatalog) -> dg.AssetSpec:
    """The asset of a view, with its columns and what they are computed from."""
    view = typed_view.view
    columns = [dg.TableColumn(name, type_.lower()) for name, type_ in typed_view.types.items()]
    lineage = {
        column: [dg.TableColumnDep(asset_key=catalog.key(table), column_name=name) for table, name in pairs]
        for column, pairs in typed_view.origins.items()
    }
    metadata: dict[str, Any] = {
        "dagster/table_name": view.name,
        "dagster/column_schema": dg.TableSchema(columns=columns),
        "dagster/column_lineage": dg.TableColumnLineage(lineage),
        "sql": dg.MetadataValue.md(f"```sql\n{view.sql.strip()}\n```"),
        **({"dagster/code_references": code_references(view)} if view.file else {}),
    }
    return dg.AssetSpec(
        catalog.key(view.name),
        deps=[catalog.key(name) for name in view.reads],
        description=view.doc,
        group_name=catalog.group or _GROUP,
        owners=[view.owner] if catalog.owners is None else list(catalog.owners),
        kinds={"duckdb", "delta", "table"} if view.materialized else {"duckdb", "view"},
        metadata=metadata,
    )


def _build_materialized(spec: dg.AssetSpec, view: View, views: Sequence[View]) -> dg.Definitions:
    """The asset that computes and stores the rows of a view, its job, and the sensor that requests it."""

    @dg.multi_asset(name=step_name(spec.key), specs=[spec], pool=view.name)
    def materialize(context: dg.AssetExecutionContext, lakehouse: LakehouseResource) -> Iterator[Any]:
        name_run(context.run.run_id)
        with explained():
            update = Materialization(lakehouse.settings, view, views).update(context.run.run_id)
            yield results.materialize_result(spec, lakehouse.settings, _figures(update))

    following = Following(
        view,
        f"Computes and stores the rows of {view.name}",
        ", ".join(view.reads),
        waits_for=lambda settings: Materialization(settings, view, views).waits_for,
        find_news=lambda settings: ",".join(Materialization(settings, view, views).find_news()),
    )
    return build_follower(materialize, spec, following)


def _figures(update: ViewUpdate) -> Mapping[str, Any]:
    """The versions that a view was computed from, and the rows that were written; none if there was no news."""
    records = [dg.TableRecord({"table": name, "version": version}) for name, version in update.versions.items()]
    return {
        "consumed_versions": dg.MetadataValue.table(records, schema=_VERSIONS),
        "rows_written": update.rows or 0,
    }
