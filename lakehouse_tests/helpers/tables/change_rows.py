"""A table of sales that a sink brings to the double of Azure Data Explorer, and what has to be there."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from lakehouse.declaration import DataExplorerTable, Sink
from lakehouse.declaration.sink import RowIdentity
from lakehouse.settings import Settings
from lakehouse.sinks.data_explorer import DataExplorerDelivery
from lakehouse.sinks.delivery import SinkUpdate
from lakehouse_tests.helpers.databases.data_explorer import DataExplorer
from lakehouse_tests.helpers.tables.delivered import BY_ID
from lakehouse_tests.helpers.tables.exported import append, day, delete, merge

SALES = Sink("sales_in_data_explorer", of="sales", to=DataExplorerTable("sales"))


@dataclass(frozen=True)
class ExplorerTarget:
    """The service, and a sink that writes into it."""

    service: DataExplorer
    settings: Settings
    sink: Sink = SALES
    identity: RowIdentity = BY_ID

    @property
    def delivery(self) -> DataExplorerDelivery:
        return DataExplorerDelivery(self.settings, self.sink, self.identity)

    def update(self, *, whole: bool = False) -> SinkUpdate:
        return self.delivery.update(whole=whole)

    def table_rows(self, version: int | None = None) -> dict[str, float | None]:
        """The price of each row of the table."""
        rows = DeltaTable(self.settings.table_uri("sales"), version).to_pyarrow_table().to_pylist()
        return {row["id"]: row["price"] for row in rows}

    def require_every_change_once(self, first: int = 0) -> None:
        """The target has the rows of its first version, each change of later ones, and nothing else."""
        expected = Counter((id_, price, first) for id_, price in self.table_rows(first).items())
        newest = DeltaTable(self.settings.table_uri("sales")).version()
        for version in range(first + 1, newest + 1):
            before, after = self.table_rows(version - 1), self.table_rows(version)
            changed_ids = {id_ for id_ in before.keys() | after.keys() if before.get(id_, 0) != after.get(id_, 0)}
            expected.update((id_, after.get(id_), version) for id_ in changed_ids)
        assert Counter((row["id"], row["price"], row["_version"]) for row in self.rows) == expected
        self.require_current_rows()

    def require_current_rows(self) -> None:
        current = self.service.current_rows("sales").values()
        assert {row["id"]: row["price"] for row in current} == self.table_rows()
        assert self.service.tables.keys() == {"sales", "lakehouse_progress"}, "nothing is left over"

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.service.tables["sales"].rows


def settings_of(home: Path, connection: str) -> Settings:
    return Settings(home=home, sync=False, sink_urls=json.dumps({"data_explorer": connection}))


def change_sales(target: ExplorerTarget) -> None:
    """Four versions: updates, an insert, a delete, and a row that is deleted and inserted again."""
    merge(target.settings, ("a", 1.5, day(1)), ("d", 4.0, day(3)))
    delete(target.settings, "id = 'b'")
    delete(target.settings, "id = 'a'")
    append(target.settings, ("a", 9.0, None))
