"""Rules that reject records by the values of their rows: counted, stored with their bytes, and redriven."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.declaration import (
    Column,
    Computed,
    Deletes,
    FieldIs,
    Files,
    Json,
    Late,
    ParentField,
    Reject,
    StreamTable,
)
from lakehouse.errors import BaseFileError
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.load import load_base
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.ingest.sources import OpenMeteoFiles
from lakehouse.settings import Settings
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.tables.heart_rates import Clinic

PATIENTS = b"mrn,name\n7,Ann\n"


def reading(device: int, rate: str, mrn: int = 7) -> dict[str, str]:
    return {"device_id": str(device), "heartrate": rate, "mrn": str(mrn), "time": "1578301316.5"}


def array(*readings: object) -> bytes:
    return json.dumps(readings).encode()


@pytest.fixture
def clinic(spark: SparkSession, tmp_path: Path) -> Clinic:
    return Clinic.of(spark, tmp_path, PATIENTS)


def devices(clinic: Clinic) -> list[int]:
    return sorted(device for (device,) in clinic.stored_rows(clinic.table.name, "device_id"))


@pytest.mark.invariant("8.16", "7.1")
def test_records_that_a_rule_rejects_are_stored_and_enter_once_it_no_longer_applies(
    clinic: Clinic, tmp_path: Path
) -> None:
    clinic.land("01.json", array(reading(1, "60"), reading(2, "-3.5"), reading(3, "70", mrn=8), reading(4, "0", mrn=8)))
    (_, outcome) = merge_all(clinic.context)
    assert (outcome.entry.commit.read, outcome.entry.commit.rejected, devices(clinic)) == (4, 3, [1])
    assert clinic.rejected() == [
        ("no_rate", "it meets heartrate <= 0: 'heartrate' is -3.5"),
        ("no_rate", "it meets heartrate <= 0: 'heartrate' is 0.0"),
        ("unknown_patient", "unknown in patients: 'mrn' is 8"),
    ]
    values = {json.loads(value)["device_id"] for (value,) in clinic.stored_rows(clinic.table.rejected_name, "value")}
    assert values == {"2", "3", "4"}
    assert redrive(clinic.context) == []
    (tmp_path / "patients.csv").write_bytes(PATIENTS + b"8,Bob\n")
    (entered,) = redrive(clinic.context)
    assert (entered.entry.metrics.inserted, devices(clinic)) == (1, [1, 3])
    clinic.table = replace(clinic.table, rejects=[Reject("no_rate", when="heartrate < -1")])
    redrive(clinic.context)
    assert devices(clinic) == [1, 3, 4]
    (replayed,) = replay(clinic.context)
    assert (replayed.entry.commit.rejected, replayed.entry.metrics.inserted) == (1, 0)
    clinic.assert_accounted()


@pytest.mark.slow
def test_a_late_record_has_the_reason_of_the_rule_and_counts_as_late(clinic: Clinic) -> None:
    late = Late("recorded_at", after=timedelta(days=30))
    rules = [Reject("no_rate", when="heartrate <= 0 AND recorded_on < DATE '2021-01-01'")]
    clinic.table = replace(clinic.table, late=late, rejects=rules)
    clinic.land("01.json", array(reading(1, "60"), reading(2, "0"), {**reading(3, "5"), "time": "x"}))
    (_, outcome) = merge_all(clinic.context)
    assert (outcome.entry.commit.rejected, outcome.entry.commit.late, devices(clinic)) == (3, 2, [])
    assert [reason for reason, _ in clinic.rejected()] == ["late", "no_rate", "wrong_type"]
    clinic.table = replace(clinic.table, late=None)
    redrive(clinic.context)
    assert devices(clinic) == [1]
    clinic.assert_accounted()


@pytest.mark.slow
def test_merging_stops_if_the_file_of_a_reference_that_a_rule_needs_was_never_loaded(
    clinic: Clinic, tmp_path: Path
) -> None:
    clinic.land("01.json", array(reading(1, "60")))
    (tmp_path / "patients.csv").rename(tmp_path / "elsewhere.csv")
    with pytest.raises(BaseFileError, match=r"cannot be read.*patients\.csv"):
        merge_all(clinic.context)
    (tmp_path / "elsewhere.csv").rename(tmp_path / "patients.csv")
    merge_all(clinic.context)
    (tmp_path / "patients.csv").unlink()
    clinic.land("02.json", array(reading(2, "60")))
    merge_all(clinic.context)
    assert devices(clinic) == [1, 2]


ITEMS = StreamTable(
    name="items",
    doc="Items of orders.",
    source=Files("orders", settle=timedelta(0)),
    rows_from="items",
    columns=[
        Column("id", "INT", "Order.", source=ParentField("id"), required=True),
        Column("sku", "STRING", "Article.", required=True),
        Column("pieces", "INT", "Pieces."),
        Computed("many", "BOOLEAN", sql="pieces > 100", doc="Whether there are many."),
    ],
    key=["id", "sku"],
    format=Json(),
    deletes=Deletes(when=FieldIs("gone", [True])),
    rejects=[Reject("no_pieces", when="pieces <= 0"), Reject("too_many", when="many")],
)


def item(sku: str, pieces: int | None, **fields: Any) -> dict[str, Any]:
    return {"sku": sku, "pieces": pieces, **fields}


@pytest.mark.slow
@pytest.mark.invariant("8.15", "8.16")
def test_elements_are_judged_one_by_one_and_the_bytes_stay_with_the_first_rejected_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path / "home", files=str(tmp_path))
    orders = [
        {"id": 1, "items": [item("a", 5), item("b", 0), item("c", None), item("d", 101), item("e", 0, gone=True)]},
        {"id": 2, "items": [item("a", 1)]},
        {"id": 3, "items": [item("a", 0), 5]},
    ]
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.json").write_text("".join(json.dumps(order) + "\n" for order in orders))
    context = TableContext(spark, settings, ITEMS)
    merge_all(context)

    def stored_rows(name: str, *columns: str) -> list[Any]:
        rows = spark.read.format("delta").load(settings.table_uri(name)).selectExpr(*columns).collect()
        return sorted(tuple(row) for row in rows)

    assert stored_rows("items", "id", "sku") == [(1, "a"), (1, "c"), (2, "a")]
    rejected = stored_rows("items_rejected", "position.position", "position.index", "reason", "value IS NOT NULL")
    assert [row[1:] for row in rejected] == [
        (1, "no_pieces", True),
        (3, "too_many", False),
        (0, "no_pieces", True),
        (1, "not_an_object", False),
    ]
    relaxed = replace(context, table=replace(ITEMS, rejects=[Reject("too_many", when="many")]))
    redrive(relaxed)
    assert stored_rows("items", "id", "sku") == [(1, "a"), (1, "b"), (1, "c"), (2, "a"), (3, "a")]


@pytest.mark.slow
@pytest.mark.invariant("6.5")
def test_a_base_row_that_a_rule_rejects_stops_the_load(spark: SparkSession, tmp_path: Path, table: StreamTable) -> None:
    hourly = {"time": ["2022-01-01T00:00", "2022-01-01T01:00"], "temperature_2m": [5.0, -99.0]}
    archive = {"latitude": 1.0, "longitude": 2.0, "utc_offset_seconds": 0, "hourly": hourly}
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "a.json").write_text(json.dumps(archive))
    rules = [Reject("broken", when="temperature_2m < -90"), Reject("no_place", unknown="places", by=["latitude"])]
    places = replace(table.references[0], name="places", file=tmp_path / "places.jsonl")
    (tmp_path / "places.jsonl").write_text('{"latitude": 7, "longitude": 2, "name": "x"}\n')
    base = OpenMeteoFiles(tmp_path / "base")
    judged = replace(table, name="judged", base=base, references=[places], rollups=[], rejects=rules)
    context = TableContext(spark, Settings(home=tmp_path / "home"), judged)
    with pytest.raises(BaseFileError, match=r"Row 0: no_place, unknown in places: 'latitude' is 1\.000000"):
        load_base(context)
    (tmp_path / "places.jsonl").write_text('{"latitude": 1, "longitude": 2, "name": "x"}\n')
    with pytest.raises(BaseFileError, match=r"Row 1: broken, it meets temperature_2m < -90: 'temperature_2m' is -99"):
        load_base(context)
    assert load_base(replace(context, table=replace(judged, rejects=rules[1:]))).rows == 2
