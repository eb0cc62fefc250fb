"""The names that follow from the name of a declaration."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from lakehouse.declaration.table_inputs import Files, Generated, TableRows
from lakehouse.declaration.vocabulary import Rollup


class TableNames:
    """The names of the tables and assets of a declaration."""

    name: str
    key: Sequence[str]
    rollups: Sequence[Rollup]
    replay_from: date | None
    maintain_every: timedelta
    source: Files | TableRows | Generated | None

    @property
    def reads_files(self) -> bool:
        """Whether its records come from files."""
        return isinstance(self.source, Files)

    @property
    def source_suffix(self) -> str:
        """The end of the name of the asset that represents what it reads."""
        return self.source.asset_suffix if self.source else "topic"

    @property
    def is_log(self) -> bool:
        """Whether the table has no key, so that each record is a row."""
        return not self.key

    @property
    def base_name(self) -> str:
        """Name of the table that holds the base rows."""
        return f"{self.name}_base"

    @property
    def rejected_name(self) -> str:
        """Name of the table that holds the rejected records."""
        return f"{self.name}_rejected"

    @property
    def deletes_name(self) -> str:
        """Name of the table that holds the newest delete of each key."""
        return f"{self.name}_deletes"

    @property
    def schemas_name(self) -> str:
        """Name of the table that stores the schemas by which records were decoded."""
        return f"{self.name}_schemas"

    @property
    def files_name(self) -> str:
        """Name of the table that holds the numbers of files, if the records come from files."""
        return f"{self.name}_files"

    @property
    def changes_name(self) -> str:
        """Name of the change feed."""
        return f"{self.name}_changes"

    @property
    def replayed_name(self) -> str:
        """Name of the asset whose partitions are days to replay; it has no table."""
        return f"{self.name}_replayed"

    @property
    def maintenance_schedule(self) -> str:
        """Name of the schedule in Dagster that requests maintenance."""
        return f"{self.name}_maintenance_{'daily' if self.maintain_every == timedelta(days=1) else 'schedule'}"

    @property
    def derived(self) -> tuple[str, ...]:
        """The names of the tables that are derived from the merged one: its change feed, if it has one, and rollups."""
        return (*(() if self.is_log else (self.changes_name,)), *(rollup.name for rollup in self.rollups))

    @property
    def _names_in_dagster(self) -> Iterator[str]:
        """Further names in Dagster, which accepts no name twice, even for different kinds of objects."""
        suffixes = ("sensor", "alerts", "warnings", "promises", "batch_can_be_planned", "nothing_held_back")
        yield from (f"{self.name}_{suffix}" for suffix in (self.source_suffix, *suffixes))
        yield from (f"{self.name}_maintenance", self.maintenance_schedule)
        yield from (f"{self.name}_checks", f"{self.name}_checks_daily")
        if self.replay_from:
            yield self.replayed_name
        if not self.is_log:
            yield f"{self.changes_name}_every_change_kept"
        yield from (f"{rollup.name}_rollup_equals_recomputation" for rollup in self.rollups)
        yield from (f"{step}_{self.name}" for step in ("merge", "maintain", "verify"))
