"""What a run of an export publishes: all rows or what changed, once, in files that its manifest names."""

import os
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from lakehouse.declaration import Day, Export, Hour, Month, View, Year
from lakehouse.errors import ConflictError, TableDamagedError, TableError
from lakehouse.exports import exporter as exporter_module
from lakehouse.exports.exporter import Exporter
from lakehouse.exports.manifests import manifest_path, publish, read_newest
from lakehouse.operations.materialize import Materialization
from lakehouse.settings import Settings
from lakehouse_tests.helpers.tables.exported import (
    append,
    data_files,
    day,
    exported_rows,
    manifests,
    read_file,
    read_version,
    rows_of_table,
)

WHOLE = Export("daily_sales", of="sales", by=Day("sold_at"))


def folder(settings: Settings, export: Export = WHOLE) -> Path:
    return settings.home_folder / "exports" / export.folder_name


def test_every_row_is_in_a_file_of_its_partition(settings: Settings) -> None:
    update = Exporter(settings, WHOLE).update("run-1")
    assert (update.version, update.kind, update.rows, update.files, update.lag) == (1, "whole", 3, 3, 0)
    newest = read_newest(folder(settings))
    assert newest is not None
    assert (newest.run, newest.consumed.version, newest.first) == ("run-1", 0, 1)
    assert {file.path.partition("/")[0]: file.rows for file in newest.files} == {
        "sold_day=2026-01-01": 1,
        "sold_day=2026-01-02": 1,
        "sold_day=__HIVE_DEFAULT_PARTITION__": 1,
    }
    assert exported_rows(folder(settings)) == rows_of_table(settings)


def test_a_second_run_without_news_writes_nothing(settings: Settings) -> None:
    first = Exporter(settings, WHOLE).update()
    files = data_files(folder(settings))
    assert Exporter(settings, WHOLE).find_news() is None
    second = Exporter(settings, WHOLE).update()
    assert (second.version, second.kind, second.rows, second.files) == (first.version, None, 0, 0)
    assert data_files(folder(settings)) == files


def test_news_is_a_new_version_and_readers_of_the_former_one_are_not_disturbed(settings: Settings) -> None:
    Exporter(settings, WHOLE).update()
    former_rows = read_version(folder(settings), 1)
    append(settings, ("d", 4.0, day(2)))
    assert Exporter(settings, WHOLE).update().version == 2
    assert exported_rows(folder(settings)) == rows_of_table(settings)
    assert read_version(folder(settings), 1) == former_rows
    append(settings, ("e", 5.0, day(3)))
    Exporter(settings, WHOLE).update()
    assert [manifest.version for manifest in manifests(folder(settings))] == [2, 3]
    named_files = {file.path for manifest in manifests(folder(settings)) for file in manifest.files}
    assert data_files(folder(settings)) == named_files


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_text_formats_have_exact_values(form: str, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, sync=False)
    columns = {
        "price": pa.array([Decimal("12.30"), None], pa.decimal128(18, 2)),
        "text": ["", 'a "b",\n\u2028'],
        "data": [b"\xff", b""],
        "tags": [["x", None], []],
        "sold_at": pa.array([day(1), None], pa.timestamp("us", "UTC")),
        "share": [float("nan"), 0.1],
    }
    write_deltalake(settings.table_uri("sales"), pa.table(columns))
    exporter = Exporter(settings, Export("sales_text", of="sales", format=form))  # type: ignore[arg-type]
    exporter.update()
    first_row, second_row = read_version(exporter.folder)
    if form == "jsonl":
        assert first_row == {
            "price": "12.30",
            "text": "",
            "data": "/w==",
            "tags": ["x", None],
            "sold_at": "2026-01-01T12:00:00Z",
            "share": "NaN",
        }
        assert (second_row["price"], second_row["text"], second_row["share"]) == (None, 'a "b",\n\u2028', 0.1)
        return
    assert first_row == {
        "price": "12.30",
        "text": "",
        "data": "/w==",
        "tags": '["x", null]',
        "sold_at": "2026-01-01 12:00:00+00:00",
        "share": "nan",
    }
    (file,) = data_files(exporter.folder)
    lines = (exporter.folder / file).read_text(encoding="utf-8").splitlines()
    assert lines[1].startswith('12.30,"",')
    assert lines[2].startswith(',"a ""b"",')


@pytest.mark.parametrize(
    ("period", "folders"),
    [
        (Hour("sold_at"), {"sold_hour=2026-01-01T12", "sold_hour=2026-01-02T12"}),
        (Month("sold_at"), {"sold_month=2026-01-01"}),
        (Year("sold_at"), {"sold_year=2026-01-01"}),
    ],
)
def test_partitions_are_named_by_the_start_of_their_period(
    period: Hour | Month | Year, folders: set[str], settings: Settings
) -> None:
    export = replace(WHOLE, by=period)
    Exporter(settings, export).update()
    null_folder = f"{period.name}=__HIVE_DEFAULT_PARTITION__"
    assert {path.partition("/")[0] for path in data_files(folder(settings))} == {*folders, null_folder}


def test_the_column_of_the_folders_is_not_repeated_in_the_files(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, sync=False)
    days = pa.array([day(1).date()], pa.date32())
    columns = {"sold_at": pa.array([day(1)], pa.timestamp("us", "UTC")), "sold_day": days, "_record": ["x"]}
    write_deltalake(settings.table_uri("sales"), pa.table(columns), partition_by=["sold_day"])
    exporter = Exporter(settings, WHOLE)
    exporter.update()
    (path,) = data_files(exporter.folder)
    assert list(read_file(exporter.folder / path)[0]) == ["sold_at"]
    rows = duckdb.sql(f"SELECT * FROM read_parquet('{exporter.folder / path}', hive_partitioning=true)")
    assert rows.columns == ["sold_at", "sold_day"]
    assert rows.fetchall()[0][1] == day(1).date()


def test_a_column_with_other_values_than_the_folders_of_its_name_is_not_left_out(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, sync=False)
    columns = {"sold_at": pa.array([day(1)], pa.timestamp("us", "UTC")), "sold_day": ["Thursday"]}
    write_deltalake(settings.table_uri("sales"), pa.table(columns))
    with pytest.raises(TableError, match="the folders would be named sold_day, as a column of sales"):
        Exporter(settings, WHOLE).update()


def test_a_materialized_view_is_exported_as_it_was_stored(settings: Settings) -> None:
    view = View("dear", "SELECT id FROM sales WHERE price > 1", "A dear sale.", materialized=True)
    Materialization(settings, view, (view,)).update()
    exporter = Exporter(settings, Export("dear_sales", of="dear"))
    assert exporter.update().rows == 1
    append(settings, ("d", 4.0, day(3)))
    assert exporter.update().kind is None
    Materialization(settings, view, (view,)).update()
    assert exporter.update().rows == 2


@pytest.mark.parametrize("lose", [Path.unlink, lambda file: os.truncate(file, 9)])
def test_a_missing_or_cut_file_of_all_rows_is_news(settings: Settings, lose: Callable[[Path], None]) -> None:
    Exporter(settings, WHOLE).update()
    name = sorted(data_files(folder(settings)))[0]
    lose(folder(settings) / name)
    assert Exporter(settings, WHOLE).find_news() == f"{name} of version 1 of the export is gone, or has other bytes"
    Exporter(settings, WHOLE).update()
    assert exported_rows(folder(settings)) == rows_of_table(settings)


@pytest.mark.invariant("10.11")
def test_of_two_writers_only_one_publishes_a_version(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the lock does not work, as on some network disks."""

    def publish_second(*arguments, **options) -> None:
        publish(*arguments, **options)
        publish(arguments[0], arguments[1].with_fields(attempt="f" * 32, rows=0, files=()), **options)

    monkeypatch.setattr(exporter_module, "publish", publish_second)
    with pytest.raises(ConflictError, match="Another run published version 1 of export daily_sales first"):
        Exporter(settings, WHOLE).update()
    monkeypatch.undo()
    assert Exporter(settings, WHOLE).update().kind is None
    assert exported_rows(folder(settings)) == rows_of_table(settings)


def test_files_of_others_stay(settings: Settings) -> None:
    own_folder = folder(settings)
    foreign_names = ["notes.txt", "daily_sales.parquet", "other-1-ab-00000.parquet", "sold_day=2026-01-01/mine.parquet"]
    for name in foreign_names:
        (own_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (own_folder / name).write_text("mine")
    (own_folder / "daily_sales-7-ab-00000.parquet").write_text("of a run that died")
    for number in range(4):
        append(settings, (f"n{number}", 1.0, day(1)))
        Exporter(settings, WHOLE).update()
    (own_folder / "daily_sales-4-ab-00000.parquet").write_text("of a run that another one preceded")
    assert Exporter(settings, WHOLE).update().kind is None
    assert [(own_folder / name).read_text() for name in foreign_names] == ["mine"] * 4
    named_files = {file.path for manifest in manifests(own_folder) for file in manifest.files}
    assert data_files(own_folder) - {"other-1-ab-00000.parquet"} == named_files


def test_folders_of_others_stay(settings: Settings) -> None:
    for name in ("region=north", "_export/spill-reports"):
        (folder(settings) / name).mkdir(parents=True)
    (folder(settings) / "sold_month=2026-01-01").mkdir()
    Exporter(settings, WHOLE).update()
    names = {path.name for path in folder(settings).rglob("*") if path.is_dir()}
    assert names >= {"region=north", "spill-reports"}
    assert "sold_month=2026-01-01" not in names


@pytest.mark.parametrize("changes", [False, True])
def test_a_manifest_under_the_number_of_another_one_removes_nothing(settings: Settings, *, changes: bool) -> None:
    exporter = Exporter(settings, replace(WHOLE, changes=changes))
    exporter.update()
    append(settings, ("d", 4.0, day(2)))
    exporter.update()
    before = data_files(exporter.folder)
    manifest_path(exporter.folder, 7).write_bytes(manifest_path(exporter.folder, 1).read_bytes())
    for _ in range(2):
        with pytest.raises(TableDamagedError, match="it is a copy of that of version 1 .* move the folder .* away"):
            exporter.update(whole=True)
    assert data_files(exporter.folder) == before
    manifest_path(exporter.folder, 7).unlink()
    assert exporter.update().kind is None


def test_a_manifest_of_another_form_stops_the_export(settings: Settings) -> None:
    exporter = Exporter(settings, WHOLE)
    exporter.update()
    place = manifest_path(exporter.folder, 1)
    place.write_text(place.read_text().replace('"manifest": 1', '"manifest": 2'))
    with pytest.raises(TableDamagedError, match="it is not a manifest of this lakehouse"):
        exporter.update()


def test_a_large_partition_has_several_files(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakehouse.exports.files._MAX_ROWS", 2)
    append(settings, *((f"n{number}", 1.0, day(1)) for number in range(6)))
    update = Exporter(settings, replace(WHOLE, by=Month("sold_at"))).update()
    assert (update.rows, update.files) == (9, 5)
    assert exported_rows(folder(settings)) == rows_of_table(settings)


@pytest.mark.parametrize("changes", [False, True])
def test_large_rows_are_held_in_memory_only_some_thousands_at_a_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, *, changes: bool
) -> None:
    exporter = Exporter(settings, replace(WHOLE, by=None, changes=changes))
    group_counts = []
    for group_bytes in (2**26, 1):
        monkeypatch.setattr("lakehouse.exports.files._GROUP_BYTES", group_bytes)
        append(settings, *((f"n{number}", 1.0, day(1)) for number in range(5_000)))
        exporter.update()
        append(settings, *((f"m{number}", 1.0, day(1)) for number in range(5_000)))
        exporter.update()
        (path,) = [file.path for file in manifests(exporter.folder)[-1].files]
        group_counts.append(pq.ParquetFile(exporter.folder / path).num_row_groups)
    assert group_counts[0] == 1
    assert group_counts[1] >= 3


def test_a_folder_of_another_export_and_wrong_places_are_refused(settings: Settings) -> None:
    Exporter(settings, WHOLE).update()
    with pytest.raises(TableError, match="belongs to export daily_sales"):
        Exporter(settings, replace(WHOLE, name="other", folder="daily_sales")).update()
    with pytest.raises(TableError, match="is in the folder of the tables"):
        Exporter(settings, replace(WHOLE, folder=f"{settings.tables_root}/x")).update()
    other_table = settings.home_folder / "other"
    write_deltalake(other_table, pa.table({"id": [1]}))
    settings.home_folder.joinpath("link").symlink_to(other_table)
    for place in (other_table, other_table / "x", settings.home_folder / "link" / "x" / "y"):
        with pytest.raises(TableError, match="is in a Delta table, whose VACUUM would remove the files"):
            Exporter(settings, replace(WHOLE, folder=str(place))).update()
    settings.home_folder.joinpath("loop").symlink_to("loop")
    with pytest.raises(TableError, match="Export daily_sales cannot be written: Too many levels of symbolic links"):
        Exporter(settings, replace(WHOLE, folder=str(settings.home_folder / "loop"))).update()
    with pytest.raises(TableError, match="Export daily_sales is disabled"):
        Exporter(settings, replace(WHOLE, enabled=False)).update()
    with pytest.raises(TableError, match="is of prices, which does not exist yet"):
        Exporter(settings, replace(WHOLE, of="prices", folder="prices")).update()
    assert not (settings.home_folder / "exports" / "prices").exists()
    with pytest.raises(TableError, match="unknown column sold_a .* Did you mean sold_at"):
        Exporter(settings, replace(WHOLE, by=None, columns=["sold_a"])).update()
