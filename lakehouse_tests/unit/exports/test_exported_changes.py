"""What changed since the last version of an export: its rows, and when the changes cannot be continued."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.declaration import Day, Export
from lakehouse.errors import TableError
from lakehouse.exports.exporter import Exporter
from lakehouse.exports.manifests import manifest_path, read_manifest
from lakehouse.exports.progress import export_status
from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.exported import (
    append,
    apply_changes,
    data_files,
    day,
    delete,
    manifests,
    merge,
    read_version,
    rows_of_table,
)

WHOLE = Export("daily_sales", of="sales", by=Day("sold_at"))
CHANGES = replace(WHOLE, name="sales_changed", changes=True)


def test_maintenance_of_the_table_is_no_news(settings: Settings) -> None:
    append(settings, ("d", 4.0, day(2)))
    Exporter(settings, CHANGES).update()
    DeltaTable(settings.table_uri("sales")).optimize.compact()
    assert Exporter(settings, CHANGES).update().kind is None


def test_compaction_between_changes_is_no_change(settings: Settings) -> None:
    exporter = Exporter(settings, CHANGES)
    exporter.update()
    append(settings, ("d", 4.0, day(2)))
    DeltaTable(settings.table_uri("sales")).optimize.compact()
    append(settings, ("e", 5.0, day(3)))
    exporter.update()
    assert sorted(row["id"] for row in read_version(exporter.folder)) == ["d", "e"]


@pytest.mark.invariant("10.12")
def test_changes_of_every_kind_lead_a_reader_to_the_rows_of_the_table(settings: Settings) -> None:
    exporter = Exporter(settings, CHANGES)
    assert exporter.update().kind == "whole"
    merge(settings, ("a", 1.5, day(1)), ("d", 4.0, day(3)))
    merge(settings, ("a", 1.75, day(5)))
    update = exporter.update()
    assert (update.kind, update.source_version, update.rows) == ("changes", 2, 5)
    assert [row["_change_type"] for row in read_version(exporter.folder)].count("update_preimage") == 2
    assert apply_changes(exporter.folder) == rows_of_table(settings)
    delete(settings, "id = 'b'")
    append(settings, ("e", 5.0, None), ("e", 5.0, None))
    DeltaTable(settings.table_uri("sales")).optimize.compact()
    delete(settings, "true")
    append(settings, ("f", 6.0, day(6)))
    exporter.update()
    assert apply_changes(exporter.folder) == rows_of_table(settings)
    assert [manifest.since_version for manifest in manifests(exporter.folder)] == [None, 0, 2]


def test_each_change_has_its_version_and_the_time_of_the_commit(settings: Settings) -> None:
    exporter = Exporter(settings, CHANGES)
    exporter.update()
    append(settings, ("d", 4.0, day(3)))
    append(settings, ("e", 4.0, day(3)))
    exporter.update()
    changes = {row["id"]: row for row in read_version(exporter.folder)}
    times = {info["version"]: info["timestamp"] for info in DeltaTable(settings.table_uri("sales")).history()}
    for name, version in (("d", 1), ("e", 2)):
        assert (changes[name]["_change_type"], changes[name]["_commit_version"]) == ("insert", version)
        assert round(changes[name]["_commit_timestamp"].timestamp() * 1000) == times[version]


def test_changes_of_a_partitioned_table_have_the_value_of_the_partition(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, sync=False)
    days = pa.array([day(1).date(), None], pa.date32())
    rows = pa.table({"id": ["a", "b"], "sold_day": days})
    uri, configuration = settings.table_uri("sales"), {"delta.enableChangeDataFeed": "true"}
    write_deltalake(uri, rows, partition_by=["sold_day"], configuration=configuration)
    exporter = Exporter(settings, Export("sales_changed", of="sales", changes=True))
    exporter.update()
    DeltaTable(uri).update(updates={"id": "'c'"}, predicate="id = 'a'")
    write_deltalake(uri, rows, mode="append")
    exporter.update()
    changes = {(row["id"], row["sold_day"], row["_change_type"]) for row in read_version(exporter.folder)}
    first_day = day(1).date()
    assert changes == {
        ("a", first_day, "update_preimage"),
        ("c", first_day, "update_postimage"),
        ("a", first_day, "insert"),
        ("b", None, "insert"),
    }


def test_a_removed_file_without_the_values_of_its_partition_stops_the_changes(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, sync=False)
    uri, configuration = settings.table_uri("sales"), {"delta.enableChangeDataFeed": "true"}
    rows = pa.table({"id": ["a"], "sold_day": pa.array([day(1).date()], pa.date32())})
    write_deltalake(uri, rows, partition_by=["sold_day"], configuration=configuration)
    exporter = Exporter(settings, Export("sales_changed", of="sales", changes=True))
    exporter.update()
    DeltaTable(uri).delete()
    commit = Path(uri, "_delta_log", f"{1:020d}.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        action.get("remove", {}).pop("partitionValues", None)  # the protocol allows it
    commit.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(TableError, match="version 1 has a file without the values of its partition .* Start again"):
        exporter.update()


def test_a_column_that_was_added_is_null_in_older_changes(settings: Settings) -> None:
    exporter = Exporter(settings, CHANGES)
    exporter.update()
    append(settings, ("d", 4.0, day(3)))
    row = pa.table({"id": ["e"], "shop": ["Oslo"]})
    write_deltalake(settings.table_uri("sales"), row, mode="append", schema_mode="merge")
    exporter.update()
    assert {row["id"]: row["shop"] for row in read_version(exporter.folder)} == {"d": None, "e": "Oslo"}


def test_nested_values_and_columns_of_lakehouse_are_written_if_they_are_named(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, sync=False)
    record = pa.array([{"partition": 1, "position": 7}])
    uri, configuration = settings.table_uri("sales"), {"delta.enableChangeDataFeed": "true"}
    write_deltalake(uri, pa.table({"id": ["a"], "_record": record}), configuration=configuration)
    exporter = Exporter(settings, Export("e", of="sales", columns=["_record", "id"], changes=True))
    exporter.update()
    write_deltalake(uri, pa.table({"id": ["b"], "_record": record}), mode="append")
    exporter.update()
    rows = [row for version in (1, 2) for row in read_version(exporter.folder, version)]
    assert [(row["id"], row["_record"]) for row in rows] == [(name, {"partition": 1, "position": 7}) for name in "ab"]


def restore(settings: Settings) -> None:
    append(settings, ("d", 4.0, day(3)))
    DeltaTable(settings.table_uri("sales")).restore(0)


def recreate(settings: Settings) -> None:
    table = Path(settings.table_uri("sales"))
    table.rename(table.with_name("former"))
    append(settings, ("a", 1.0, day(1)))


def vacuum(settings: Settings) -> None:
    merge(settings, ("a", 1.5, day(1)))
    for path in Path(settings.table_uri("sales"), "_change_data").iterdir():
        path.unlink()


def expire_log(settings: Settings) -> None:
    append(settings, ("d", 4.0, day(3)))
    append(settings, ("e", 4.0, day(3)))
    table = DeltaTable(settings.table_uri("sales"))
    table.create_checkpoint()
    for version in (0, 1):
        Path(settings.table_uri("sales"), "_delta_log", f"{version:020d}.json").unlink()


def file_of(folder: Path, version: int) -> Path:
    """Return the first file of a version."""
    return folder / read_manifest(folder, version).files[0].path


@pytest.mark.invariant("10.12")
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    ("lose", "message"),
    [
        (lambda *place: file_of(*place).unlink(), "of version {} of the export is gone, or has other bytes"),
        (lambda *place: os.truncate(file_of(*place), 9), "of version {} of the export is gone, or has other bytes"),
        (lambda *place: manifest_path(*place).unlink(), "manifest of version {} of the export is gone"),
        (
            lambda *place: os.truncate(manifest_path(*place), 99),
            "manifest of version {} of the export cannot be read",
        ),
    ],
)
def test_changes_whose_readers_lack_a_file_or_a_manifest_stop_until_a_whole_run(
    settings: Settings, lose: Callable[[Path, int], object], message: str, version: int
) -> None:
    exporter = Exporter(settings, CHANGES)
    for number in range(4):
        exporter.update()
        append(settings, (f"n{number}", 4.0, day(3)))
    assert exporter.find_news()
    assert export_status(settings, CHANGES, timedelta(days=7)).problem is None
    lose(exporter.folder, version)
    for look in (exporter.find_news, exporter.update):
        with pytest.raises(TableError, match=f"{message.format(version)} .* Start again"):
            look()
    problem = export_status(settings, CHANGES, timedelta(days=7)).problem or ""
    assert message.format(version).casefold() in problem.casefold()
    assert "lakehouse export sales_changed --whole" in problem
    assert exporter.update(whole=True).version == 5
    append(settings, ("z", 9.0, day(9)))
    exporter.update()
    assert apply_changes(exporter.folder) == rows_of_table(settings)
    assert exporter.find_news() is None
    assert [manifest.version for manifest in manifests(exporter.folder)] == [5, 6]


@pytest.mark.invariant("10.12")
@pytest.mark.parametrize(
    ("upset", "message"),
    [
        (restore, "version 2 is a RESTORE"),
        (recreate, "sales was created again, or restored from a backup"),
        (vacuum, "a file with changes of version 1 is gone: VACUUM removed it"),
        (expire_log, "the log no longer holds version 1"),
    ],
)
def test_changes_that_cannot_be_continued_stop_until_a_whole_run(upset, message: str, settings: Settings) -> None:
    exporter = Exporter(settings, CHANGES)
    exporter.update()
    upset(settings)
    before = data_files(exporter.folder)
    for _ in range(2):
        with pytest.raises(TableError, match=f"{message}.* Start again .*: lakehouse export sales_changed --whole"):
            exporter.update()
    assert data_files(exporter.folder) == before
    update = exporter.update(whole=True)
    assert (update.kind, update.version) == ("whole", 2)
    assert apply_changes(exporter.folder) == rows_of_table(settings)
    append(settings, ("z", 9.0, day(9)))
    assert exporter.update().kind == "changes"
    assert apply_changes(exporter.folder) == rows_of_table(settings)
    assert [manifest.version for manifest in manifests(exporter.folder)] == [2, 3]


def test_another_declaration_is_news_of_all_rows_but_stops_changes(settings: Settings) -> None:
    for export in (WHOLE, CHANGES):
        Exporter(settings, export).update()
    assert Exporter(settings, replace(WHOLE, format="csv")).update().kind == "whole"
    with pytest.raises(TableError, match="its declaration changed after version 1 of the export"):
        Exporter(settings, replace(CHANGES, format="csv")).update()
