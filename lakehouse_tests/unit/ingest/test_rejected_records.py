"""Rejected records: what the log of their table shows without a statement to Spark."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest.rejected_records import _SAME_RECORD, DecodedBatch, rejected_layout, store_rejected
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, SourceId
from lakehouse.settings import Settings
from lakehouse.storage.stored_table import StoredTable

BATCH = Commit(kind="batch", number=1, attempt="a", table_version=0)


def store(folder: Path, commit: Commit, rows: int) -> bool:
    """Store the rejected records of a batch; a statement to Spark is an error here."""
    no_session: Any = None
    layout = replace(rejected_layout(temperatures, Settings(home=folder)), uri=str(folder / "t"))
    write_deltalake(layout.uri, pa.table({"id": list(range(rows))}, pa.schema([("id", pa.int64())])))
    batch = DecodedBatch(no_session, Plan("t", SourceId("kafka", "c/t"), ()), commit, Ledger("merged"))
    return store_rejected(temperatures, StoredTable(no_session, layout), batch, is_committed=False)


@pytest.mark.invariant("8.2")
def test_without_new_or_stored_rejected_records_no_statement_runs(tmp_path: Path) -> None:
    assert store(tmp_path, BATCH, 0) is False


@pytest.mark.parametrize(("rejected", "rows"), [(1, 0), (0, 1)])
def test_new_or_stored_rejected_records_need_a_statement(tmp_path: Path, rejected: int, rows: int) -> None:
    with pytest.raises(AttributeError):
        store(tmp_path, BATCH.model_copy(update={"rejected": rejected}), rows)


@pytest.mark.invariant("8.5")
@pytest.mark.parametrize(("consumed_version", "expected"), [(None, False), (0, False), (1, False), (2, True)])
def test_a_merged_table_without_the_consumed_version_went_back(
    tmp_path: Path, consumed_version: int | None, expected: bool
) -> None:
    """Another process may have committed since the ledger was read: at version 1 the table did not go back."""
    uri = str(tmp_path / "merged")
    for _ in range(2):
        write_deltalake(uri, pa.table({"id": [1]}), mode="append")
    ledger = Ledger(uri, exists=True, table_id=str(DeltaTable(uri).metadata().id), version=0)
    consumed = None if consumed_version is None else Consumed(table_id=ledger.table_id, version=consumed_version)
    assert Consumption(ledger, consumed).is_of_lost_version is expected
    assert not Consumption(ledger, Consumed(table_id="recreated since", version=9)).is_of_lost_version


NOON, ONE_O_CLOCK = "2024-01-01 12:00:00", "2024-01-01 13:00:00"


@pytest.mark.invariant("8.1")
@pytest.mark.parametrize(
    ("stored_time", "staged_time", "is_same"),
    [
        ((NOON, "too hot"), (NOON, None), True),
        ((NOON, None), (ONE_O_CLOCK, None), False),
        ((NOON, "its time is 9"), (None, "its time is 9"), False),
        ((None, "its time is 9"), (None, "its time is 9"), True),
        ((None, "its time is 9"), (None, "its time is 8"), False),
    ],
)
def test_the_time_in_its_column_or_in_the_detail_distinguishes_records_at_one_position(
    stored_time: tuple[str | None, str | None], staged_time: tuple[str | None, str | None], is_same: bool
) -> None:
    """A broker that was rolled back reuses offsets; only the detail has a time that is out of range."""
    position = "{'source': 'kafka:c/t', 'partition': 0, 'position': 7} AS position"
    t, s = f"(SELECT {position}, ? AS time, ? AS detail) AS t", f"(SELECT {position}, ? AS _time, ? AS _detail) AS s"
    with closing(duckdb.connect()) as sql:
        result = sql.execute(
            f"SELECT count(*) FROM {t} JOIN {s} ON {_SAME_RECORD.format(of='_')}", [*stored_time, *staged_time]
        )
        assert result.fetchone() == (is_same,)
