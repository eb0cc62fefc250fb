"""A person is erased: nothing that is read again brings rows back, and no file keeps a value after maintenance."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Deletes, FieldIs, Upkeep
from lakehouse.derived.refresh import refresh_all
from lakehouse.errors import LakehouseError
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import read_again
from lakehouse.operations.erase_rows import Erasure, erase
from lakehouse.operations.maintain import maintain
from lakehouse.settings import Settings
from lakehouse_tests.helpers.brokers.streams import Stream
from lakehouse_tests.helpers.tables.rows import rows_of

pytestmark = pytest.mark.invariant("14.9")

COLUMNS = [
    Column("order_id", "BIGINT", required=True, doc=""),
    Column("person", "STRING", doc=""),
    Column("amount", "BIGINT", between=(0, 1000), doc=""),
]
ANN, BOB = "ann-of-the-hill", "bob"


def order(number: int, person: str, amount: int, **fields: Any) -> bytes:
    values = "".join(f', "{name}": "{value}"' for name, value in fields.items())
    return f'{{"order_id": {number}, "person": "{person}", "amount": {amount}{values}}}'.encode()


RECORDS = (
    order(1, ANN, 10),
    order(1, ANN, 11),
    order(2, BOB, 20),
    order(3, ANN, 30),
    order(4, ANN, 5000),
    order(5, ANN, 50),
    order(5, BOB, 51),
    order(6, BOB, 60, operation="DELETE"),
)


def new_stream(spark: SparkSession, broker: Settings, **changes: Any) -> Stream:
    options: dict[str, Any] = {"key": ["order_id"], "deletes": Deletes(when=FieldIs("operation", ["DELETE"]))} | changes
    upkeep = Upkeep(retention=timedelta(hours=1))
    stream = Stream.create(
        spark,
        broker,
        columns=COLUMNS,
        partition_by=None,
        base=None,
        rollups=[],
        references=[],
        upkeep=upkeep,
        **options,
    )
    stream.send_and_merge(*RECORDS[:6])
    stream.send_and_merge(*RECORDS[6:])
    refresh_all(stream.context)
    return stream


@pytest.fixture(scope="module")
def stream(spark: SparkSession, broker: Settings) -> Stream:
    return new_stream(spark, broker)


@pytest.fixture(scope="module")
def erasure(stream: Stream) -> Erasure:
    return erase(stream.context, f"person = '{ANN}'")


def orders(stream: Stream) -> list[tuple[Any, ...]]:
    rows = rows_of(stream.settings, stream.table.name)
    return sorted((row["order_id"], row["person"], row["amount"]) for row in rows)


def values_in(folder: Path) -> set[str]:
    """The texts in every data file below a folder, also in files that no version needs, as far as they name Ann."""
    found_files = set()
    for file in folder.rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            found_files |= {str(file.relative_to(folder)) for row in pq.read_table(file).to_pylist() if ANN in str(row)}
    return found_files


def test_an_erasure_counts_what_it_removed_from_each_table(stream: Stream, erasure: Erasure) -> None:
    name = stream.table.name
    # order 5 is Bob's by now, and was Ann's: only its changes go
    assert erasure.removed == {name: 2, f"{name}_deletes": 0, f"{name}_changes": 4, f"{name}_rejected": 1}
    assert erasure.unreadable == 0
    assert orders(stream) == [(2, BOB, 20), (5, BOB, 51)]
    assert not [row for row in rows_of(stream.settings, f"{name}_changes") if ANN in str(row)]
    assert not rows_of(stream.settings, f"{name}_rejected")


def test_records_that_are_read_again_bring_no_erased_row_back(stream: Stream, erasure: Erasure) -> None:
    (replayed,) = stream.replay()
    assert (replayed.entry.commit.erased, replayed.entry.metrics.inserted) == (4, 0)
    assert [outcome.entry.commit.erased for outcome in read_again(stream.context)] == [4]
    wider = replace(stream, table=replace(stream.table, columns=[*COLUMNS[:2], replace(COLUMNS[2], between=None)]))
    assert redrive(wider.context) == []
    (correction,) = read_again(wider.context)
    assert (correction.entry.commit.erased, correction.entry.metrics.inserted) == (4, 0)
    refresh_all(stream.context)
    assert orders(stream) == [(2, BOB, 20), (5, BOB, 51)]
    assert not [row for row in rows_of(stream.settings, stream.table.changes_name) if ANN in str(row)]
    stream.assert_accounted()


def test_a_later_record_of_an_erased_key_is_a_new_row(stream: Stream, erasure: Erasure) -> None:
    (outcome,) = stream.send_and_merge(order(3, BOB, 33))
    assert (outcome.entry.commit.erased, outcome.entry.metrics.inserted) == (0, 1)
    assert erase(stream.context, None).removed[stream.table.name] == 0
    assert orders(stream) == [(2, BOB, 20), (3, BOB, 33), (5, BOB, 51)]


def test_an_erasure_after_a_restore_removes_the_rows_again(stream: Stream, erasure: Erasure) -> None:
    version = next(entry.version for entry in stream.ledger.entries if entry.commit.kind == "erasure") - 1
    stream.context.merged.restore(version)
    assert (1, ANN, 11) in orders(stream)
    erase(stream.context, None)
    stream.merge()
    assert orders(stream) == [(2, BOB, 20), (3, BOB, 33), (5, BOB, 51)]
    stream.assert_accounted()


def test_no_file_has_a_value_of_the_person_once_its_retention_ended(stream: Stream, erasure: Erasure) -> None:
    folder = Path(stream.settings.tables_root)
    assert values_in(folder)
    maintain(stream.context)
    for log in folder.glob(f"{stream.table.name}*/_delta_log"):
        DeltaTable(log.parent).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    assert values_in(folder) == set()


def test_a_condition_that_cannot_be_computed_changes_nothing(stream: Stream, erasure: Erasure) -> None:
    version = stream.ledger.version
    with pytest.raises(LakehouseError, match="persn = 1.*cannot be computed.*Write a condition on columns"):
        erase(stream.context, "persn = 1")
    assert stream.ledger.version == version


def test_rows_of_a_log_table_are_erased_by_their_records(spark: SparkSession, broker: Settings) -> None:
    stream = new_stream(spark, broker, key=(), deletes=Deletes())
    removed = erase(stream.context, f"person = '{ANN}'").removed
    assert removed[stream.table.name] == 4
    (replayed,) = stream.replay()
    assert (replayed.entry.commit.erased, replayed.entry.metrics.inserted) == (5, 0), "one of them was rejected"
    assert [person for _, person, _ in orders(stream)] == [BOB] * 3
