"""A declared table and its place in Dagster's catalog: asset keys, group and owners."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from lakehouse.declaration import Export, StreamTable

CHECKS_PAGE = "how-to/troubleshooting.html"  # of the site
OWN_CHECK_SECTION = "a-check-of-your-own"  # of that page; every other check has a section of its name


def step_name(key: dg.AssetKey) -> str:
    """Name of the step that writes an asset, or several of which this is the first."""
    return re.sub(r"[^A-Za-z0-9_]", "_", "__".join(key.path))


@dataclass(frozen=True)
class CatalogEntry:
    """A declared table and its place in the catalog.

    ``prefix`` precedes the name of each asset in its key. The group of the assets is ``group_override``, by default the
    name of the table. Their owners are ``owners_override``, by default the declared owner. ``docs_url`` is where the
    documentation is published; without it, descriptions of checks have no links. ``has_database``: a database is
    set with which tables of change streams are compared. ``exports`` are those of its tables.
    """

    table: StreamTable
    prefix: Sequence[str] = ()
    group_override: str | None = None
    owners_override: Sequence[str] | None = None
    docs_url: str | None = None
    has_database: bool = False
    exports: Sequence[Export] = ()

    @property
    def topic_name(self) -> str:
        """Name of the asset that represents what the table reads: a topic, a folder or a table."""
        return f"{self.table.name}_{self.table.source_suffix}"

    @property
    def maintenance_name(self) -> str:
        """Name of the step that maintains the tables of the declaration."""
        return f"{self.table.name}_maintenance"

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
