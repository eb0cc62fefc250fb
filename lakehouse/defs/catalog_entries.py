"""A declaration as Dagster's catalog lists it: under which keys, in which group, and whose it is."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from lakehouse.declaration import StreamTable


@dataclass(frozen=True)
class Listed:
    """A declared table and its place in the catalog.

    ``prefix`` stands before the name of each of its assets in their keys. Where no ``own_group`` is named, its assets
    are in the group of the table's name; where no ``own_owners`` are, they are the owner's that it declares.
    """

    table: StreamTable
    prefix: Sequence[str] = ()
    own_group: str | None = None
    own_owners: Sequence[str] | None = None

    @property
    def topic(self) -> str:
        """Name of the asset that stands for the table's topic."""
        return f"{self.table.name}_topic"

    @property
    def maintenance(self) -> str:
        """Name of the asset that stands for the maintenance of the declaration's tables."""
        return f"{self.table.name}_maintenance"

    @property
    def merge_job(self) -> str:
        """Name of the job that merges the table and brings what derives from it up to date."""
        return f"merge_{self.table.name}"

    @property
    def written(self) -> list[dg.AssetKey]:
        """The keys of the assets that this job writes."""
        table = self.table
        return self.keys(table.name, table.rejected_name, *table.derived)

    @property
    def merged(self) -> dg.AssetKey:
        """The key of the merged table."""
        return self.key(self.table.name)

    @property
    def group(self) -> str:
        """The group of its assets."""
        return self.own_group or self.table.name

    @property
    def owners(self) -> list[str]:
        """Whose its assets are."""
        return [self.table.owner] if self.own_owners is None else list(self.own_owners)

    def key(self, name: str) -> dg.AssetKey:
        """The key of the asset of that name."""
        return dg.AssetKey([*self.prefix, name])

    def keys(self, *names: str) -> list[dg.AssetKey]:
        """The keys of the assets of these names."""
        return [self.key(name) for name in names]
