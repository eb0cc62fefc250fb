"""A person is erased: nothing that is read again brings rows back, and no file keeps a value after maintenance."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse.declaration import Column, Deletes, Explode, Export, FieldExists, FieldIs, Json, Upkeep
from lakehouse.derived.refresh import refresh_all
from lakehouse.errors import LakehouseError
from lakehouse.exports.exporter import Exporter
from lakehouse.ingest import merge
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import read_again
from lakehouse.operations import erase_rows
from lakehouse.operations.erase_rows import Erasure, erase
from lakehouse.operations.maintain import maintain
from lakehouse.operations.rebuild_tables import Places, build_copies
from lakehouse.settings import Settings
from lakehouse_tests.helpers.attacks.dying_deletes import DiedError, dying_after_deletes
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
def exports(stream: Stream) -> list[Export]:
    name = stream.table.name
    return [
        Export(f"{name}_whole", of=name, format="jsonl"),
        Export(f"{name}_changed", of=name, format="csv", changes=True),
        Export(f"{name}_fed", of=f"{name}_changes", format="csv"),
        Export(f"{name}_never", of=name),
    ]


@pytest.fixture(scope="module")
def erasure(stream: Stream, exports: list[Export]) -> Erasure:
    for export in exports[:3]:
        Exporter(stream.settings, export).update()
    (disabled,) = [replace(export, enabled=False) for export in exports[2:3]]
    return erase(stream.context, f"person = '{ANN}'", [*exports[:2], disabled, exports[3]])


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


def test_exports_are_written_again_without_their_former_versions(
    stream: Stream, exports: list[Export], erasure: Erasure
) -> None:
    whole, changed, fed, _ = exports
    assert {name: bool(reason) for name, reason in erasure.exports.items()} == {
        whole.name: False,
        changed.name: False,
        fed.name: True,
    }
    assert "is disabled" in str(erasure.exports[fed.name])
    for export in (whole, changed):
        texts = [file.read_text() for file in Exporter(stream.settings, export).folder.rglob("*") if file.is_file()]
        assert any(BOB in text for text in texts)
        assert not any(ANN in text for text in texts), "also not in the file of the former version"
        assert Exporter(stream.settings, export).find_news() is None
    # an erasure that died before this one: the next run of the export completes it
    exporter = Exporter(stream.settings, fed)
    assert exporter.find_news() == f"rows of {fed.of} were erased, and a former version has them"
    assert exporter.update().kind == "whole"
    assert not [file for file in exporter.folder.rglob("*.csv") if ANN in file.read_text()]
    assert exporter.find_news() is None


def test_records_that_are_read_again_bring_no_erased_row_back(stream: Stream, erasure: Erasure) -> None:
    (replayed,) = stream.replay()
    assert (replayed.entry.commit.erased, replayed.entry.metrics.inserted) == (5, 0)
    assert [outcome.entry.commit.erased for outcome in read_again(stream.context)] == [5]
    wider = replace(stream, table=replace(stream.table, columns=[*COLUMNS[:2], replace(COLUMNS[2], between=None)]))
    assert redrive(wider.context) == []
    (correction,) = read_again(wider.context)
    assert (correction.entry.commit.erased, correction.entry.metrics.inserted) == (5, 0)
    refresh_all(stream.context)
    assert orders(stream) == [(2, BOB, 20), (5, BOB, 51)]
    assert not [row for row in rows_of(stream.settings, stream.table.changes_name) if ANN in str(row)]
    stream.assert_accounted()


def test_a_rule_that_rejects_records_of_an_erased_key_stores_none_of_them(stream: Stream, erasure: Erasure) -> None:
    columns = [*COLUMNS[:2], replace(COLUMNS[2], between=(0, 5))]
    narrower = replace(stream, table=replace(stream.table, columns=columns))
    (replayed,) = narrower.replay()
    assert (replayed.entry.commit.erased, replayed.entry.commit.rejected) == (5, 2), "the other two are Bob's"
    assert not [row for row in rows_of(stream.settings, stream.table.rejected_name) if ANN in str(row)]
    redrive(stream.context)
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


def test_another_record_of_a_key_does_not_become_its_row_because_its_newer_one_is_rejected(
    spark: SparkSession, broker: Settings
) -> None:
    stream = new_stream(spark, broker)
    erase(stream.context, f"person = '{ANN}'")
    narrow = [*COLUMNS[:2], replace(COLUMNS[2], between=(0, 50))]
    stream.table = replace(stream.table, columns=narrow)
    read_again(stream.context)
    assert orders(stream) == [(2, BOB, 20)]


def test_a_record_that_is_merged_during_an_erasure_stays(
    spark: SparkSession, broker: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = new_stream(spark, broker)
    remove, merged_between = erase_rows._remove, list[Any]()

    def merge_and_remove(stored_table: Any, run: str, erased: Any, on: str) -> int:
        def find(rows: Any) -> Any:
            if stored_table.layout.name == stream.table.name and not merged_between:
                merged_between.extend(stream.send_and_merge(order(1, BOB, 12)))
            return erased(rows)

        return remove(stored_table, run, find, on)

    monkeypatch.setattr(erase_rows, "_remove", merge_and_remove)
    erase(stream.context, f"person = '{ANN}'")
    assert merged_between
    assert orders(stream) == [(1, BOB, 12), (2, BOB, 20), (5, BOB, 51)]


def test_an_erased_delete_does_not_count_again_after_a_batch_that_died(spark: SparkSession, broker: Settings) -> None:
    stream = new_stream(spark, broker)
    assert erase(stream.context, "order_id = 6").removed[stream.table.deletes_name] == 1
    stream.send(order(2, BOB, 20, operation="DELETE"))
    with dying_after_deletes(), pytest.raises(DiedError):
        stream.merge()
    stream.merge()
    deletes = rows_of(stream.settings, stream.table.deletes_name)
    assert [row["order_id"] for row in deletes] == [2]


def test_the_other_elements_of_a_record_with_an_erased_one_stay(spark: SparkSession, broker: Settings) -> None:
    stream = Stream.create(
        spark,
        broker,
        columns=COLUMNS,
        key=["order_id"],
        rows_from="orders",
        partition_by=None,
        base=None,
        rollups=[],
        references=[],
    )
    stream.send_and_merge(b'{"orders": [' + order(1, ANN, 5000) + b", " + order(2, BOB, 20) + b"]}")
    stream.send_and_merge(b'{"orders": [' + order(3, ANN, 30) + b", " + order(4, BOB, 5000) + b"]}")
    erase(stream.context, f"person = '{ANN}'")
    assert not [row for row in rows_of(stream.settings, stream.table.rejected_name) if ANN in str(row["value"])]
    outcomes = read_again(stream.context)
    assert [outcome.entry.commit.erased for outcome in outcomes] == [3], "the bytes of Bob's rejected one have Ann's"
    assert orders(stream) == [(2, BOB, 20)]
    assert not rows_of(stream.settings, stream.table.rejected_name)


def test_a_condition_that_cannot_be_computed_changes_nothing(stream: Stream, erasure: Erasure) -> None:
    version = stream.ledger.version
    with pytest.raises(LakehouseError, match="persn = 1.*cannot be computed.*Write a condition on columns"):
        erase(stream.context, "persn = 1")
    assert stream.ledger.version == version


def test_rows_of_a_log_table_are_erased_by_their_records(
    spark: SparkSession, broker: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = new_stream(spark, broker, key=(), deletes=Deletes())
    removed = erase(stream.context, f"person = '{ANN}'").removed
    assert removed[stream.table.name] == 4
    (replayed,) = stream.replay()
    assert (replayed.entry.commit.erased, replayed.entry.metrics.inserted) == (5, 0), "one of them was rejected"
    assert [person for _, person, _ in orders(stream)] == [BOB] * 3
    monkeypatch.setattr(merge, "MANY_BYTES", 0)  # workers write the files of every batch, if they may
    build_copies(stream.context)
    rebuilt = stream.settings.model_copy(update={"tables": str(Places.of(stream.settings, stream.table).rebuilt)})
    assert {row["person"] for row in rows_of(rebuilt, stream.table.name)} == {BOB}


def test_a_record_whose_key_cannot_be_read_by_now_keeps_no_bytes(spark: SparkSession, broker: Settings) -> None:
    stream = new_stream(spark, broker, format=Json(duplicate_names="last"))
    twice = order(7, ANN, 70).replace(b'"amount"', b'"amount": 1, "amount"')
    stream.send_and_merge(twice, order(8, BOB, 80), b"{")
    erase(stream.context, f"person = '{ANN}'")
    stream.table = replace(stream.table, format=Json())
    stream.replay()
    rows = {row["reason"]: row for row in rows_of(stream.settings, stream.table.rejected_name)}
    assert rows["duplicate_name"]["value"] is None
    assert rows["duplicate_name"]["detail"].startswith("its key cannot be read, and keys were erased")
    assert ANN not in str(rows.values())
    assert rows["truncated"]["value"] == b"{", "it was stored before the erasure"
    assert redrive(stream.context) == []
    reasons = [row["reason"] for row in rows_of(stream.settings, stream.table.rejected_name)]
    assert sorted(reasons) == sorted(rows)
    assert (8, BOB, 80) in orders(stream)
    stream.assert_accounted()


@pytest.mark.slow
def test_bytes_with_an_element_of_another_kind_of_an_erased_key_are_removed(
    spark: SparkSession, broker: Settings
) -> None:
    stream = Stream.create(
        spark,
        broker,
        columns=[Column("id", "BIGINT", required=True, doc=""), Column("a", "BIGINT", doc="")],
        key=["id"],
        rows_from=Explode("items", where=FieldExists("a")),
        partition_by=None,
        base=None,
        rollups=[],
        references=[],
    )
    secret = b'{"items": [{"id": 1, "a": 1}, {"id": 2, "b": "SECRET"}, {"id": 3, "a": "bad"}]}'
    stream.send_and_merge(b'{"items": [{"id": 2, "a": 5}, {"id": 9, "a": 9}]}', secret)
    assert [row["reason"] for row in rows_of(broker, stream.table.rejected_name)] == ["wrong_type"]
    erase(stream.context, "id = 2")
    assert {row["id"] for row in rows_of(broker, stream.table.name)} == {1, 9}
    assert b"SECRET" not in b"".join(row["value"] or b"" for row in rows_of(broker, stream.table.rejected_name))
