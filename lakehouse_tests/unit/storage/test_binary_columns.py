"""Columns of bytes in tables written without Spark: exact bytes, no statistics, and a size like that of texts."""

import json
import secrets
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.decoding.staged import STALE
from lakehouse.storage.data_files import ROW_GROUP, writer_properties
from lakehouse.storage.delta_rs_writer import append_quickly, upsert_quickly, write_quickly
from lakehouse.storage.eligibility import MOST_ROWS, can_append_quickly, can_merge_quickly
from lakehouse.storage.layout import Layout, TableColumn
from lakehouse_tests.helpers.tables.plain_tables import next_commit

SCHEMA = pa.schema([("n", pa.int32()), ("photo", pa.binary())])
EVERY_BYTE = bytes(range(256))


def binary_table(folder: Path, *photos: bytes | None) -> Layout:
    """Create a table with one row for each photo, numbered from 0."""
    columns = [TableColumn("n", "INT", "d"), TableColumn("photo", "BINARY", "d")]
    layout = Layout("t", str(folder / "t"), "d", columns, statistics=("n",))
    write_deltalake(layout.uri, photo_rows(*enumerate(photos)), configuration=layout.statistics_properties)
    return layout


def photo_rows(*pairs: tuple[int, bytes | None]) -> pa.Table:
    return pa.Table.from_pylist([{"n": n, "photo": photo} for n, photo in pairs], schema=SCHEMA)


def photos_in(layout: Layout) -> dict[int, bytes | None]:
    return {row["n"]: row["photo"] for row in DeltaTable(layout.uri).to_pyarrow_table().to_pylist()}


def statistics_of(layout: Layout) -> list[set[str]]:
    logs = sorted(Path(layout.uri, "_delta_log").glob("*.json"))
    actions = [json.loads(line) for log in logs for line in log.read_text(encoding="utf-8").splitlines()]
    return [{*json.loads(action["add"]["stats"])["minValues"]} for action in actions if "add" in action]


def test_each_writer_stores_exact_bytes_and_no_statistics_of_them(tmp_path: Path) -> None:
    layout = binary_table(tmp_path, EVERY_BYTE, b"", None)
    append_quickly(layout, photo_rows((3, b"\xff\x00")), next_commit(layout))
    new_rows = photo_rows((0, b"new"), (1, b""), (4, EVERY_BYTE)).append_column("gone", pa.array([False, False, False]))
    upsert_quickly(layout, new_rows, ["n"], "gone", next_commit(layout))
    assert photos_in(layout) == {0: b"new", 1: b"", 2: None, 3: b"\xff\x00", 4: EVERY_BYTE}
    stale = pa.array([False, True])
    write_quickly(
        layout, photo_rows((2, EVERY_BYTE), (3, None)).append_column(STALE, stale), ["n"], None, next_commit(layout)
    )
    assert photos_in(layout) == {0: b"new", 1: b"", 2: EVERY_BYTE, 3: b"\xff\x00", 4: EVERY_BYTE}
    assert all(names == {"n"} for names in statistics_of(layout))


def test_a_merge_of_equal_bytes_writes_no_file(tmp_path: Path) -> None:
    layout = binary_table(tmp_path, EVERY_BYTE, b"", None)
    files_before = DeltaTable(layout.uri).file_uris()
    same_rows = photo_rows((0, EVERY_BYTE), (1, b""), (2, None)).append_column("gone", pa.array([False] * 3))
    upsert_quickly(layout, same_rows, ["n"], "gone", next_commit(layout))
    assert DeltaTable(layout.uri).file_uris() == files_before


def test_bytes_must_fit_into_memory_like_texts(tmp_path: Path) -> None:
    layout = binary_table(tmp_path, secrets.token_bytes(40_000))
    assert can_append_quickly(layout, 1_000) and can_merge_quickly(layout, 1_000)
    assert not can_append_quickly(layout, 50_000) and not can_append_quickly(layout, MOST_ROWS)
    assert not can_append_quickly(layout, 1_000, text=1_000 * 400_000)
    numbers = replace(layout, columns=layout.columns[:1], uri=str(tmp_path / "numbers"))
    write_deltalake(numbers.uri, photo_rows((0, b"")).select(["n"]), configuration=numbers.statistics_properties)
    assert can_append_quickly(numbers, MOST_ROWS)


def test_a_table_with_statistics_of_bytes_is_left_to_spark(tmp_path: Path) -> None:
    layout = binary_table(tmp_path, EVERY_BYTE)
    assert not can_append_quickly(replace(layout, statistics=("n", "photo")), 1)


@pytest.mark.parametrize("type_", [pa.binary(), pa.string()])
def test_a_row_group_of_bytes_has_no_more_bytes_than_one_of_spark(type_: pa.DataType) -> None:
    wide_rows = pa.table({"photo": pa.array([b"x" * (ROW_GROUP // 64)] * 65, type_)})
    assert writer_properties(wide_rows).max_row_group_size == 32 - 1
