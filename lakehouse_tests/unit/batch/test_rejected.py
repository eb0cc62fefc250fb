"""Rejected records: what their table's log tells without a statement."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.batch.rejected import Decided, rejected_layout, store_rejected
from lakehouse.delta.commits import Commit
from lakehouse.delta.ledger import Ledger
from lakehouse.settings import Settings
from lakehouse.tables.temperatures import temperatures
from lakehouse.topic.offsets import Incarnation, Plan

pytestmark = pytest.mark.invariant(8)

BATCH = Commit(kind="batch", number=1, attempt="a", table_version=0)


def store(folder: Path, commit: Commit, rows: int) -> bool:
    """Store what a batch decided, where a statement to Spark is an error."""
    none: Any = None
    layout = replace(rejected_layout(temperatures, Settings(home=folder)), uri=str(folder / "t"))
    write_deltalake(layout.uri, pa.table({"id": list(range(rows))}, pa.schema([("id", pa.int64())])))
    decided = Decided(none, Plan("t", Incarnation("c", "t"), ()), commit, Ledger("merged"))
    return store_rejected(none, layout, decided, committed=False)


def test_where_nothing_is_rejected_and_nothing_was_no_statement_is_made(tmp_path: Path) -> None:
    assert store(tmp_path, BATCH, 0) is False


@pytest.mark.parametrize(("rejected", "rows"), [(1, 0), (0, 1)])
def test_where_something_is_or_was_rejected_it_is_looked_at(tmp_path: Path, rejected: int, rows: int) -> None:
    with pytest.raises(AttributeError):
        store(tmp_path, BATCH.model_copy(update={"rejected": rejected}), rows)
