"""A stream that runs maintenance and shows what it left."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from deltalake import DeltaTable

from lakehouse.declaration import Upkeep
from lakehouse.operations.maintain import Maintained, maintain
from lakehouse.operations.verify import verify_rollup
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import Stream

_WEEK = timedelta(days=7)


class MaintainedStream(Stream):
    """A stream that runs maintenance and shows what it left."""

    def maintain(self) -> dict[str, Maintained]:
        """Run maintenance; return its results by the suffix of the table name."""
        results = maintain(TableContext(self.spark, self.settings, self.table))
        return {result.name.removeprefix(self.table.name): result for result in results}

    def set_retention(self, retention: timedelta) -> None:
        """Set a retention, also one below the minimum of a declaration, so that no test waits an hour."""
        self.table = replace(self.table, upkeep=Upkeep(retention=_WEEK))
        object.__setattr__(self.table.upkeep, "retention", retention)

    def operations(self) -> list[str]:
        return [commit["operation"] for commit in DeltaTable(self.uri).history()]

    def files(self) -> set[str]:
        """The data files of the merged table on disk."""
        return {file.name for file in Path(self.uri).rglob("*.parquet") if "_delta_log" not in file.parts}

    def assert_rollup_is_right(self) -> None:
        finding = verify_rollup(TableContext(self.spark, self.settings, self.table), self.table.rollups[0])
        assert finding.passed, finding.detail
