"""Files in a folder as the source of a table: each record is accounted for, also if files change or go away."""

import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.cli.rejected import _file_paths
from lakehouse.declaration import Column, Csv, Files, RecordHeader, StreamTable, Time
from lakehouse.decoding.files import contents
from lakehouse.errors import DataLossError, SourceError
from lakehouse.ingest.batches import merge_all
from lakehouse.ingest.outcomes import Outcome
from lakehouse.ingest.redrive import redrive
from lakehouse.ingest.replay import replay
from lakehouse.ledger.audit import audit
from lakehouse.operations.rejections import Reason, list_rejected
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse.sources.files import folder, listing, source
from lakehouse.sources.files.source import FilesSource
from lakehouse.storage.table_context import TableContext
from lakehouse_tests.helpers.brokers.streams import accept_gap

SOURCE = Files("heart", names="*.json*", each="element", settle=timedelta(0))
CSV = Files("heart", names="*.csv", header="mrn,name", settle=timedelta(0))
_COLUMNS = [
    Column("device_id", "INT", "Device.", required=True, written="text"),
    Column("time", "TIMESTAMP", "Time of the reading.", required=True, written=Time(epoch="seconds", written="text")),
    Column("heartrate", "DOUBLE", "Beats per minute.", written="text"),
]


@dataclass
class Landing:
    """A folder of files, and the table that reads it."""

    spark: SparkSession
    settings: Settings
    table: StreamTable

    @property
    def folder(self) -> Path:
        return Path(self.settings.files_root) / "heart"

    @property
    def context(self) -> TableContext:
        return TableContext(self.spark, self.settings, self.table)

    def land(self, name: str, content: bytes) -> Path:
        """Write a file elsewhere and rename it into the folder."""
        file, unfinished = self.folder / name, self.folder.parent / "unfinished"
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        return unfinished.rename(file)

    def merge_one_by_one(self) -> None:
        """Read one file in each batch."""
        self.table = replace(self.table, source=replace(SOURCE, batch_bytes=1))

    def merge(self) -> list[Outcome]:
        return merge_all(self.context)

    def rows(self) -> list[tuple[Any, ...]]:
        frame = self.context.merged.rows().select("device_id", "heartrate")
        return sorted((row[0], row[1]) for row in frame.collect())

    def reasons(self) -> list[Reason]:
        return list_rejected(self.settings, self.table)

    def rejected(self) -> list[tuple[str, str]]:
        rows = self.spark.read.format("delta").load(self.settings.table_uri(self.table.rejected_name)).collect()
        return sorted((row["reason"], row["detail"]) for row in rows)

    def assert_accounted(self) -> None:
        assert all(finding.passed for finding in audit(self.context.ledger()))


def reading(device: int, rate: float, second: float = 0.5) -> dict[str, str]:
    """One reading, with all fields as text."""
    return {"device_id": str(device), "mrn": "7", "time": str(1_578_301_316 + second), "heartrate": str(rate)}


def lines(*readings: object) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in readings)


def array(readings: Sequence[object]) -> bytes:
    return json.dumps(readings, indent=4).encode()


@pytest.fixture
def landing(spark: SparkSession, tmp_path: Path) -> Landing:
    settings = Settings(home=tmp_path / "home", files=str(tmp_path / "files"))
    (tmp_path / "files" / "heart").mkdir(parents=True)
    table = StreamTable(name="heart", doc="Readings.", columns=_COLUMNS, key=["device_id", "time"], source=SOURCE)
    return Landing(spark, settings, table)


def test_files_of_arrays_become_rows_and_a_second_run_and_a_replay_change_nothing(landing: Landing) -> None:
    landing.land("01.json", array([reading(1, 60.5), reading(2, 70)]))
    landing.land("02.json.gz", gzip.compress(array([reading(3, 80), {"device_id": "x"}])))
    assert status(landing.settings, landing.table).lag == 2
    start, outcome = landing.merge()
    assert (start.entry.commit.kind, outcome.entry.commit.read, outcome.entry.commit.rejected) == ("start", 4, 1)
    assert landing.rows() == [(1, 60.5), (2, 70.0), (3, 80.0)]
    assert _file_paths(landing.settings, landing.table, landing.reasons()) == {1: "02.json.gz"}
    assert (landing.merge(), status(landing.settings, landing.table).lag) == ([], 0)
    (replayed,) = replay(landing.context)
    assert (replayed.entry.commit.read, replayed.entry.metrics.inserted, replayed.entry.metrics.updated) == (4, 0, 0)
    landing.assert_accounted()


@pytest.mark.slow
def test_a_file_that_lands_later_is_merged_alone(landing: Landing) -> None:
    landing.land("a/01.json", array([reading(1, 60)]))
    landing.merge()
    landing.land("b/01.json", array([reading(1, 61), reading(2, 70)]))
    (outcome,) = landing.merge()
    assert (outcome.entry.commit.read, landing.rows()) == (2, [(1, 61.0), (2, 70.0)])


@pytest.mark.slow
def test_a_file_that_cannot_be_read_to_its_end_is_one_rejected_record(landing: Landing) -> None:
    landing.land("01.json", array([reading(1, 60), reading(2, 70)])[:-20])
    landing.land("02.json.gz", gzip.compress(array([reading(3, 80)]))[:-9])
    _, outcome = landing.merge()
    assert (outcome.entry.commit.read, landing.rows()) == (3, [(1, 60.0)])
    reasons = landing.rejected()
    assert [reason for reason, _ in reasons] == ["unreadable_file", "unreadable_file"]
    assert "element 1, which begins at byte" in reasons[0][1] or "element 1, which begins at byte" in reasons[1][1]
    assert redrive(landing.context) == []
    landing.assert_accounted()


@pytest.mark.invariant("8.10")
def test_a_bad_record_is_rejected_also_if_a_column_has_the_path_of_its_file(landing: Landing) -> None:
    path_column = Column("file", "STRING", source=RecordHeader("file"), doc="Path of the file.")
    landing.table = replace(landing.table, columns=[*landing.table.columns, path_column])
    landing.land("01.json", array([reading(1, 60), {"device_id": "x"}]))
    landing.land("02.json", array([reading(2, 70)])[:-1])
    landing.merge()
    rows = landing.context.merged.rows().select("device_id", "file").collect()
    assert sorted(map(tuple, rows)) == [(1, "01.json"), (2, "02.json")]
    assert len(landing.rejected()) == 2
    assert "unreadable_file" in dict(landing.rejected())
    redrive(landing.context)
    assert len(landing.rejected()) == 2


@pytest.mark.slow
def test_a_changed_file_is_a_new_file(landing: Landing) -> None:
    landing.land("01.json", array([reading(1, 60)]))
    landing.merge()
    landing.land("01.json", array([reading(1, 61), reading(2, 70)]))
    (outcome,) = landing.merge()
    assert (outcome.entry.commit.read, landing.rows()) == (2, [(1, 61.0), (2, 70.0)])
    (replayed,) = replay(landing.context)
    assert (replayed.entry.commit.read, landing.rows()) == (2, [(1, 61.0), (2, 70.0)])


@pytest.mark.invariant("4.1")
def test_a_later_file_replaces_rows_also_if_the_clock_was_set_back(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing.land("01.json", array([reading(1, 60)]))
    landing.merge()
    monkeypatch.setattr(folder, "time", SimpleNamespace(time_ns=lambda: 10**15))
    landing.land("02.json", array([reading(1, 61)]))
    landing.merge()
    assert landing.rows() == [(1, 61.0)]


@pytest.mark.invariant("9.11")
def test_a_file_that_was_numbered_and_removed_before_it_was_merged_is_a_gap(landing: Landing) -> None:
    landing.merge_one_by_one()
    landing.land("01.json", array([reading(1, 60)]))
    second = landing.land("02.json", array([reading(2, 70)]))
    landing.land("03.json", array([reading(3, 80)]))
    seen: list[Outcome] = []

    def remove_after_the_first(outcome: Outcome) -> None:
        seen.append(outcome)
        if outcome.entry.commit.kind == "batch":
            second.unlink(missing_ok=True)

    with pytest.raises(DataLossError, match=r"1 file was removed before being merged: 02\.json"):
        merge_all(landing.context, on_batch=remove_after_the_first)
    assert landing.rows() == [(1, 60.0)]
    assert "02.json" in (status(landing.settings, landing.table).loss or "")
    accept_gap(landing.context)
    landing.merge()
    assert landing.rows() == [(1, 60.0), (3, 80.0)]
    landing.assert_accounted()


@pytest.mark.slow
@pytest.mark.invariant("9.10")
def test_bytes_that_change_without_a_trace_stop_the_batch_and_get_a_number_of_their_own(landing: Landing) -> None:
    file = landing.land("01.json", array([reading(1, 60)]))
    landing.merge_one_by_one()
    landing.land("02.json", array([reading(2, 70)]))
    stat = file.stat()

    def forge(outcome: Outcome) -> None:
        if outcome.entry.commit.kind == "start":
            file.write_bytes(array([reading(1, 99)]))
            os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    merge_all(landing.context, on_batch=forge)
    landing.merge()
    assert landing.rows() == [(1, 99.0), (2, 70.0)]
    landing.assert_accounted()


@pytest.mark.slow
@pytest.mark.invariant("9.10")
def test_a_file_that_changes_while_it_is_hashed_gets_its_number_in_the_next_run(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing.table = replace(landing.table, key=[])
    file, hash_chunks = landing.land("01.json", array([reading(1, 60)])), contents.chunk_hashes

    def hash_and_change(folder: str, path: str) -> list[str]:
        hashes = hash_chunks(folder, path)
        file.write_bytes(array([reading(1, 60), reading(2, 70)]))
        return hashes

    with monkeypatch.context() as patch:
        patch.setattr(folder, "chunk_hashes", hash_and_change)
        landing.merge()
    assert landing.rows() == []
    landing.merge()
    assert landing.rows() == [(1, 60.0), (2, 70.0)]
    landing.assert_accounted()


@pytest.mark.slow
def test_each_batch_lists_the_folder_once(landing: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    listings, list_files = list[str](), listing.list_files

    def count_listing(folder: str, files: Files) -> listing.Listing:
        listings.append(folder)
        return list_files(folder, files)

    monkeypatch.setattr(source, "list_files", count_listing)
    landing.merge_one_by_one()
    for number in range(3):
        landing.land(f"{number}.json", array([reading(number, 60)]))
    outcomes = landing.merge()
    assert ([outcome.entry.commit.kind for outcome in outcomes], len(listings)) == (["start", *["batch"] * 3], 4)


@pytest.mark.slow
def test_a_file_that_loses_its_read_rights_stops_the_merge_and_is_merged_later(
    landing: Landing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Root may read any file, so a folder in the place of the file fails to open."""
    file = landing.land("01.json", array([reading(1, 60)]))
    (landing.folder / "caf\udce9.json").write_bytes(b"{}")
    read, times, is_root = FilesSource.read, file.stat(), os.geteuid() == 0

    def read_without_rights(*arguments: Any) -> Any:
        if is_root:
            file.unlink()
            file.mkdir()
        else:
            file.chmod(0)
        return read(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(FilesSource, "read", read_without_rights)
        with pytest.raises(SourceError, match=r"File 01\.json cannot be read: (Is a dir|Permission).*nothing is lost"):
            landing.merge()
    assert [r.getMessage() for r in caplog.records if "left out" in r.getMessage()] == [
        "1 path in the folder heart is left out: caf\\xe9.json (its name is not UTF-8)"
    ]
    if is_root:
        file.rmdir()
        file.write_bytes(array([reading(1, 60)]))
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    file.chmod(0o644)
    landing.merge()
    assert landing.rows() == [(1, 60.0)]
    landing.assert_accounted()


@pytest.mark.slow
def test_lines_of_csv_with_a_header_become_a_log_table(landing: Landing) -> None:
    columns = [Column("mrn", "BIGINT", "Patient.", required=True), Column("name", "STRING", "Name.")]
    landing.table = replace(landing.table, columns=columns, key=[], format=Csv(columns=["mrn", "name"]), source=CSV)
    landing.land("patients.csv", b'mrn,name\r\n1,Ann\r\n2,"B, ob"\r\n2,"B, ob"\r\n')
    landing.land("other.csv", b"name,mrn\nAnn,1\n")
    landing.merge()
    rows = sorted(tuple(row)[:2] for row in landing.context.merged.rows().collect())
    assert rows == [(1, "Ann"), (2, "B, ob"), (2, "B, ob")]
    assert [reason for reason, _ in landing.rejected()] == ["unreadable_file"]
    (replayed,) = replay(landing.context)
    assert (replayed.entry.metrics.inserted, landing.merge()) == (0, [])
    landing.table = replace(landing.table, source=replace(CSV, header="name,mrn"), format=Csv(columns=["name", "mrn"]))
    (replayed,) = replay(landing.context)
    assert replayed.entry.metrics.inserted == 1, "the file whose header was declared wrongly"
    landing.assert_accounted()
