"""Rejected records: what their table's log tells without a statement."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.rejected_records import _SAME, Decided, rejected_layout, store_rejected, went_back
from lakehouse.ledger.commits import Commit, Consumed
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, SourceId
from lakehouse.settings import Settings
from lakehouse.storage.stored_table import StoredTable

pytestmark = pytest.mark.invariant(8)

BATCH = Commit(kind="batch", number=1, attempt="a", table_version=0)


def store(folder: Path, commit: Commit, rows: int) -> bool:
    """Store what a batch decided, where a statement to Spark is an error."""
    none: Any = None
    layout = replace(rejected_layout(temperatures, Settings(home=folder)), uri=str(folder / "t"))
    write_deltalake(layout.uri, pa.table({"id": list(range(rows))}, pa.schema([("id", pa.int64())])))
    decided = Decided(none, Plan("t", SourceId("kafka", "c/t"), ()), commit, Ledger("merged"))
    return store_rejected(StoredTable(none, layout), decided, committed=False)


def test_where_nothing_is_rejected_and_nothing_was_no_statement_is_made(tmp_path: Path) -> None:
    assert store(tmp_path, BATCH, 0) is False


@pytest.mark.parametrize(("rejected", "rows"), [(1, 0), (0, 1)])
def test_where_something_is_or_was_rejected_it_is_looked_at(tmp_path: Path, rejected: int, rows: int) -> None:
    with pytest.raises(AttributeError):
        store(tmp_path, BATCH.model_copy(update={"rejected": rejected}), rows)


@pytest.mark.parametrize(("seen", "told"), [(None, False), (0, False), (1, False), (2, True)])
def test_a_merged_table_went_back_where_less_is_there_than_was_seen(
    tmp_path: Path, seen: int | None, told: bool
) -> None:
    """Another process may have committed since the ledger was read: version 1 is no way back."""
    uri = str(tmp_path / "merged")
    for _ in range(2):
        write_deltalake(uri, pa.table({"id": [1]}), mode="append")
    here = Ledger(uri, exists=True, table_id=str(DeltaTable(uri).metadata().id), version=0)
    assert went_back(None if seen is None else Consumed(table_id=here.table_id, version=seen), here) is told
    assert not went_back(Consumed(table_id="made anew since", version=9), here)


NOON, LATER = "2024-01-01 12:00:00", "2024-01-01 13:00:00"


@pytest.mark.parametrize(
    ("stored", "now", "same"),
    [
        ((NOON, "too hot"), (NOON, None), True),
        ((NOON, None), (LATER, None), False),
        ((NOON, "its time is 9"), (None, "its time is 9"), False),
        ((None, "its time is 9"), (None, "its time is 9"), True),
        ((None, "its time is 9"), (None, "its time is 8"), False),
    ],
)
def test_records_at_one_position_are_told_apart_by_their_time_wherever_it_is_told(
    stored: tuple[str | None, str | None], now: tuple[str | None, str | None], same: bool
) -> None:
    """A broker that was rolled back gives an offset again; a time beyond any timestamp is told by the detail alone."""
    place = "{'source': 'kafka:c/t', 'partition': 0, 'position': 7} AS position"
    t, s = f"(SELECT {place}, ? AS time, ? AS detail) AS t", f"(SELECT {place}, ? AS _time, ? AS _detail) AS s"
    with closing(duckdb.connect()) as sql:
        joined = sql.execute(f"SELECT count(*) FROM {t} JOIN {s} ON {_SAME.format(of='_')}", [*stored, *now])
        assert joined.fetchone() == (same,)
