"""A Delta table that a test changes, without a JVM, and that a declared table follows."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

_CHANGE_DATA = {"delta.enableChangeDataFeed": "true"}
_SCHEMA = pa.schema([("id", pa.int32()), ("amount", pa.int32())])


class FollowedTable:
    """Accounts with an ``id`` and an ``amount``, and how often each row was in a change."""

    def __init__(self, folder: Path) -> None:
        self.uri = str(folder)
        write_deltalake(self.uri, _rows({}), configuration=_CHANGE_DATA)

    def upsert(self, amounts: dict[int, int]) -> None:
        """Insert or update accounts, in one version."""
        merge = DeltaTable(self.uri).merge(_rows(amounts), "s.id = t.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, condition: str) -> None:
        """Delete the accounts that meet a condition, in one version."""
        DeltaTable(self.uri).delete(condition)

    @property
    def version(self) -> int:
        """The newest version."""
        return int(DeltaTable(self.uri).version())

    def rows(self, highest: int) -> list[tuple[int, int]]:
        """The rows with an amount up to ``highest``."""
        rows = DeltaTable(self.uri).to_pyarrow_table().to_pylist()
        return sorted((row["id"], row["amount"]) for row in rows if row["amount"] <= highest)

    def changes(self, first: int) -> Counter[Any]:
        """How often each row was inserted, updated or deleted since a version."""
        kinds = {"update_postimage": "update", "update_preimage": "former"}
        rows = pa.table(DeltaTable(self.uri).load_cdf(starting_version=first).read_all()).to_pylist()
        return Counter((kinds.get(k := row["_change_type"], k), row["id"], row["amount"]) for row in rows)


def _rows(amounts: dict[int, int]) -> pa.Table:
    columns = {"id": list(amounts), "amount": list(amounts.values())}
    return pa.table({name: pa.array(values, pa.int32()) for name, values in columns.items()}, schema=_SCHEMA)
