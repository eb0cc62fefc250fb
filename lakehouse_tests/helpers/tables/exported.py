"""Tables to export, changed without Spark, and what a reader of an export finds in its files."""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from lakehouse.exports.manifests import Manifest, list_versions, read_manifest, read_newest
from lakehouse.settings import Settings

Row = tuple[str, float | None, datetime | None]
SCHEMA = pa.schema(
    [("id", pa.string()), ("price", pa.float64()), ("sold_at", pa.timestamp("us", "UTC"))]  # a table of sales
)
CHANGES = {"delta.enableChangeDataFeed": "true"}


def day(number: int, hour: int = 12) -> datetime:
    """A time in January 2026, UTC."""
    return datetime(2026, 1, number, hour, tzinfo=UTC)


def sales(*rows: Row) -> pa.Table:
    """Rows: id, price and time."""
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def append(settings: Settings, *rows: Row, name: str = "sales") -> None:
    """Append rows to the table, which is created with change data."""
    write_deltalake(settings.table_uri(name), sales(*rows), mode="append", configuration=CHANGES)


def merge(settings: Settings, *rows: Row) -> None:
    """Insert or update rows by their id, as a merge does."""
    table = DeltaTable(settings.table_uri("sales"))
    merger = table.merge(sales(*rows), "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()


def delete(settings: Settings, condition: str) -> None:
    """Delete rows of the table."""
    DeltaTable(settings.table_uri("sales")).delete(condition)


def rows_of_table(settings: Settings, name: str = "sales") -> Counter[str]:
    """The rows of the newest version of a table."""
    rows = DeltaTable(settings.table_uri(name)).to_pyarrow_table().to_pylist()
    return Counter(map(str, ({name: row[name] for name in SCHEMA.names} for row in rows)))


def read_file(path: Path) -> list[dict[str, Any]]:
    """The rows of one file, without the values of its folder; texts, if its format has only them."""
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read().to_pylist()
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_version(folder: Path, version: int | None = None) -> list[dict[str, Any]]:
    """The rows of the files that the manifest of a version names, by default of the newest one."""
    manifest = read_newest(folder) if version is None else read_manifest(folder, version)
    assert manifest is not None
    rows = [row for file in manifest.files for row in read_file(folder / file.path)]
    assert len(rows) == manifest.rows == sum(file.rows for file in manifest.files)
    assert all((folder / file.path).stat().st_size == file.bytes for file in manifest.files)
    return rows


def exported_rows(folder: Path) -> Counter[str]:
    """The rows of the newest version of an export of all rows."""
    return Counter(map(str, ({name: row[name] for name in SCHEMA.names} for row in read_version(folder))))


def manifests(folder: Path) -> list[Manifest]:
    """All manifests, oldest first."""
    return [read_manifest(folder, version) for version in list_versions(folder)]


def apply_changes(folder: Path) -> Counter[str]:
    """The rows that a reader has who applies every version since the last whole one, in order, each once."""
    newest = read_newest(folder)
    assert newest is not None
    rows: Counter[str] = Counter()
    source_version = None
    for version in range(newest.first, newest.version + 1):
        manifest = read_manifest(folder, version)
        assert (manifest.kind == "whole") == (version == newest.first)
        assert manifest.since_version == source_version
        source_version = manifest.consumed.version
        _apply(rows, read_version(folder, version))
    return rows


def _apply(rows: Counter[str], changes: Iterable[Mapping[str, Any]]) -> None:
    for version in sorted({change["_commit_version"] for change in changes}):
        of_version = [change for change in changes if change["_commit_version"] == version]
        for change in sorted(
            of_version, key=lambda change: change["_change_type"] not in ("delete", "update_preimage")
        ):
            is_gone = change["_change_type"] in ("delete", "update_preimage")
            text = str({name: change[name] for name in SCHEMA.names})
            rows[text] += -1 if is_gone else 1
            assert rows[text] >= 0, f"{text} is removed, but was never there"
    for text in [text for text, count in rows.items() if not count]:
        del rows[text]


def data_files(folder: Path) -> set[str]:
    """The paths of all data files in the folder of an export, whether a manifest names them or not."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*-*-*-*.*") if path.is_file()}
