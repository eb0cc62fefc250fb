"""The component ``lakehouse.LakehouseTables``: declared tables in a project of Dagster's ``dg`` command."""

import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import dagster as dg
import yaml
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel, Field

from lakehouse.declaration.names import spelling_hint
from lakehouse.defs.build import build_broken_files, build_defs, load_declarations
from lakehouse.discovery import Declaration
from lakehouse.errors import DeclarationError, LakehouseError

TYPE = "lakehouse.LakehouseTables"
_NEW_TABLE = "from lakehouse.cli.main import main; main()"


class NewTable(BaseModel):
    """Where the records are from which a declaration is proposed; without either, no file is written."""

    from_topic: str | None = Field(None, description="Propose a declaration from the newest records of this topic.")
    from_sample: str | None = Field(None, description="Propose a declaration from a file of JSON lines.")


class LakehouseTablesScaffolder(dg.Scaffolder[NewTable]):
    """Writes ``defs.yaml`` and, from records, the declaration of a table, as ``lakehouse new-table`` does."""

    @classmethod
    def get_scaffold_params(cls) -> type[NewTable]:
        """The options of ``dg scaffold defs lakehouse.LakehouseTables``."""
        return NewTable

    def scaffold(self, request: dg.ScaffoldRequest[NewTable]) -> None:
        """Write the declaration first: an error leaves no component behind."""
        options = [
            *(["--from-topic", request.params.from_topic] if request.params.from_topic else []),
            *(["--from-sample", request.params.from_sample] if request.params.from_sample else []),
        ]
        name = request.target_path.name
        if options:
            command = [sys.executable, "-c", _NEW_TABLE, "new-table", name, *options]
            subprocess.run(command, cwd=request.project_root, check=True)
        scaffold_component(request, {"tables": [name]} if options else {})


@dg.scaffold_with(LakehouseTablesScaffolder)
class LakehouseTables(dg.Component, dg.Model, dg.Resolvable):
    """Kafka topics merged exactly into Delta tables, from declarations in Python.

    Loads the tables that the project declares, where tool.lakehouse of its pyproject.toml says: for each its topic,
    rejected records, change feed and rollups, with lineage, checks, a job, a sensor and maintenance. Override
    get_asset_spec to change the specs of the assets.
    """

    tables: Sequence[str] | None = Field(
        None,
        description="Names of the tables, views and exports. Default: all declared ones that no other component names."
        " A view or an export needs the tables that it reads in the same component.",
    )
    key_prefix: Sequence[str] = Field((), description="Parts in front of the name of each asset in its key.")
    group: str | None = Field(None, description="Group of the assets. Default: the name of the table.")
    owners: Sequence[str] | None = Field(None, description="Owners of the assets. Default: the declared owner.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions of the tables; raises ``DeclarationError`` if a name is not declared.

        If files fail, the names that the others do not declare are left out, and an asset shows the errors.
        """
        errors: list[LakehouseError] = []
        tables = self._select_tables(self._tables_of_components(context.defs_module_path), errors)
        definitions = build_defs(tables, key_prefix=self.key_prefix, group=self.group, owners=self.owners)
        own_definitions = definitions.map_asset_specs(func=self.get_asset_spec)
        return dg.Definitions.merge(own_definitions, build_broken_files(tuple(map(str, errors))))

    def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the spec of an asset; override it to add tags, metadata or another owner."""
        return spec

    def _select_tables(self, component_names: Collection[str], errors: list[LakehouseError]) -> list[Declaration]:
        tables = {declaration.name: declaration for declaration in load_declarations(errors.append)}
        names = [name for name in tables if name not in component_names] if self.tables is None else self.tables
        unknown = [name for name in names if name not in tables]
        if unknown and not errors:
            raise DeclarationError(
                f"Unknown table {unknown[0]} in a component {TYPE}",
                action=f"{spelling_hint(unknown[0], tables)}The declared tables are {', '.join(tables)}.",
            )
        return [tables[name] for name in names if name in tables]

    def _tables_of_components(self, folder: Path) -> set[str]:
        """The tables that components of this type name in the files ``defs.yaml`` of a project."""
        types = {TYPE, *(f"{base.__module__}.{base.__qualname__}" for base in type(self).__mro__)}
        documents = [
            document for file in folder.rglob("defs.yaml") for document in yaml.safe_load_all(file.read_text())
        ]
        components = [part for part in documents if isinstance(part, dict) and part.get("type") in types]
        return {name for component in components for name in (component.get("attributes") or {}).get("tables") or ()}
