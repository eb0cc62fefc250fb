"""Rows replaced in their slots: one commit on the version that was compared, or none, and no other row changes."""

import json
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from lakehouse.decoding.staged import MATCHED_ROW, REMOVES, SLOT, STALE
from lakehouse.errors import ConflictError, TableDamagedError, TableError
from lakehouse.ledger.durability import require_undamaged
from lakehouse.ledger.ledger import app_id
from lakehouse.ledger.versions import count_rows, files_within
from lakehouse.storage.delta_rs_writer import append_quickly, restore_version
from lakehouse.storage.eligibility import can_copy_files
from lakehouse.storage.layout import VECTORS, Layout
from lakehouse.storage.slot_files import remove_drafts
from lakehouse.storage.slot_writer import write_slots
from lakehouse_tests.helpers.tables.plain_tables import FAR, OSLO, PARIS, SCHEMA, create_table, next_commit, rows

ROME, BERN = ("Rome", Decimal("41.900000"), FAR, 4), ("Bern", Decimal("46.950000"), None, 5)
KEY = ("place", "at")
Row = tuple[Any, ...]


@pytest.fixture(params=[False, True], ids=["copied files", "deletion vectors"])
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> Layout:
    """A table with a file of three rows and a file of one."""
    properties = {VECTORS: "true"} if request.param else {}
    layout = create_table(tmp_path, PARIS, OSLO, ROME, **{"delta.enableChangeDataFeed": "true"}, **properties)
    layout = replace(layout, change_data=True, deletion_vectors=request.param)
    append_quickly(layout, rows(BERN), next_commit(layout))
    return layout


def met_type() -> pa.StructType:
    slot_type = pa.struct([("file", pa.string()), ("index", pa.int64())])
    return pa.struct([*(field for field in SCHEMA if field.name not in KEY), (SLOT, slot_type)])


def compared(layout: Layout, changes: Iterable[tuple[Row | None, Row]], *, stale: bool = False) -> pa.Table:
    """Rows as a comparison returns them: each stored row, ``None`` to insert, and the row that replaces it.

    A row that ends with ``gone`` removes the stored one.
    """
    slots = {
        tuple(row.values()): {"file": Path(file).as_uri(), "index": index}
        for file in DeltaTable(layout.uri).file_uris()
        for index, row in enumerate(pq.read_table(file).to_pylist())
    }
    values = []
    for stored_row, row in changes:
        values_by_name = dict(zip(SCHEMA.names, row[:4], strict=True))
        met = None if stored_row is None else {"last": stored_row[2], "n": stored_row[3], SLOT: slots[stored_row]}
        values.append({**values_by_name, STALE: stale, REMOVES: row[4:] == ("gone",), MATCHED_ROW: met})
    return pa.Table.from_pylist(
        values, pa.schema([*SCHEMA, (STALE, pa.bool_()), (REMOVES, pa.bool_()), (MATCHED_ROW, met_type())])
    )


def stored_rows(layout: Layout) -> list[Row]:
    return sorted(pl.read_delta(layout.uri).select(SCHEMA.names).rows(), key=str)


def in_order(*expected: Row) -> list[Row]:
    frame = pl.from_arrow(rows(*expected))
    assert isinstance(frame, pl.DataFrame)
    return sorted(frame.rows(), key=str)


def changes_of(layout: Layout, version: int) -> list[tuple[str, str, int | None]]:
    entry = Path(layout.uri, "_delta_log", f"{version:020d}.json").read_text().splitlines()
    files = [action["cdc"]["path"] for action in map(json.loads, entry) if "cdc" in action]
    read = [row for file in files for row in pq.read_table(Path(layout.uri, file)).to_pylist()]
    return sorted((row["place"], row["_change_type"], row["n"]) for row in read)


CHANGES = [(PARIS, (*PARIS[:3], 7)), (ROME, (*ROME, "gone")), (None, ("Graz", Decimal("47.070000"), FAR, 9))]


@pytest.mark.invariant("1.1")
def test_rows_are_replaced_removed_and_inserted_in_one_commit(layout: Layout) -> None:
    commit = next_commit(layout)
    entry = write_slots(layout, compared(layout, CHANGES), KEY, commit)
    metrics = entry.metrics
    assert (entry.version, metrics.source_rows) == (2, 3)
    assert (metrics.inserted, metrics.updated, metrics.deleted) == (1, 1, 1)
    assert stored_rows(layout) == in_order((*PARIS[:3], 7), OSLO, BERN, ("Graz", Decimal("47.070000"), FAR, 9))
    assert DeltaTable(layout.uri).transaction_version(app_id("t")) == commit.number
    assert changes_of(layout, 2) == [
        ("Graz", "insert", 9),
        ("Paris", "update_postimage", 7),
        ("Paris", "update_preimage", 3),
        ("Rome", "delete", 4),
    ]
    assert count_rows(layout.uri) == 4


def test_a_file_without_replaced_rows_stays(layout: Layout) -> None:
    files_before = set(DeltaTable(layout.uri).file_uris())
    write_slots(layout, compared(layout, CHANGES), KEY, next_commit(layout))
    kept_files = files_before & set(DeltaTable(layout.uri).file_uris())
    assert len(kept_files) == (2 if layout.deletion_vectors else 1)


def test_rows_are_replaced_again_in_files_with_replaced_rows(layout: Layout) -> None:
    write_slots(layout, compared(layout, [(PARIS, (*PARIS[:3], 7))]), KEY, next_commit(layout))
    write_slots(layout, compared(layout, [(OSLO, (*OSLO[:3], 8))]), KEY, next_commit(layout))
    write_slots(layout, compared(layout, [((*PARIS[:3], 7), (*PARIS[:3], 9))]), KEY, next_commit(layout))
    assert stored_rows(layout) == in_order((*PARIS[:3], 9), (*OSLO[:3], 8), ROME, BERN)
    assert count_rows(layout.uri) == 4


def test_a_file_of_which_no_row_is_left_is_removed(layout: Layout) -> None:
    write_slots(layout, compared(layout, [(BERN, (*BERN, "gone"))]), KEY, next_commit(layout))
    assert len(DeltaTable(layout.uri).file_uris()) == 1 and stored_rows(layout) == in_order(PARIS, OSLO, ROME)


def test_stale_rows_are_counted_in_a_commit_without_a_file(layout: Layout) -> None:
    files_before = DeltaTable(layout.uri).file_uris()
    entry = write_slots(layout, compared(layout, [(PARIS, PARIS)], stale=True), KEY, next_commit(layout))
    assert (entry.metrics.source_rows, entry.metrics.updated) == (1, 0)
    assert DeltaTable(layout.uri).file_uris() == files_before


@pytest.mark.invariant("3.2")
def test_nothing_is_written_on_another_version_than_the_compared_one(layout: Layout) -> None:
    compared_rows, commit = compared(layout, CHANGES), next_commit(layout)
    write_deltalake(layout.uri, rows(OSLO), mode="append")
    files_before = sorted(Path(layout.uri).rglob("*.parquet"))
    with pytest.raises(ConflictError):
        write_slots(layout, compared_rows, KEY, commit)
    assert sorted(Path(layout.uri).rglob("*.parquet")) == files_before


def test_a_version_that_is_taken_at_the_last_moment_is_not_overwritten(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared_rows, commit = compared(layout, CHANGES), next_commit(layout)
    link = Path.hardlink_to

    def commit_before(self: Path, target: Path) -> None:
        write_deltalake(layout.uri, rows(OSLO), mode="append")
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", commit_before)
    with pytest.raises(ConflictError):
        write_slots(layout, compared_rows, KEY, commit)
    assert stored_rows(layout) == in_order(PARIS, OSLO, ROME, BERN, OSLO)
    assert not list(Path(layout.uri, "_delta_log").glob("*.tmp"))


def test_a_slot_with_another_row_is_refused_before_anything_is_committed(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS, OSLO)
    compared_rows = compared(layout, [(PARIS, PARIS)]).to_pylist()
    compared_rows[0][MATCHED_ROW][SLOT]["index"] = 1
    wrong_rows = pa.Table.from_pylist(compared_rows, compared(layout, [(PARIS, PARIS)]).schema)
    with pytest.raises(TableError, match="other rows of t than the ones that were compared"):
        write_slots(layout, wrong_rows, KEY, next_commit(layout))
    assert DeltaTable(layout.uri).version() == 0


def test_what_a_killed_writer_left_is_removed_by_the_next_one_and_by_maintenance(layout: Layout) -> None:
    draft, entry = Path(layout.uri, "_draft-killed"), Path(layout.uri, "_delta_log", f".{'a' * 32}.tmp")
    for remove in (
        lambda: write_slots(layout, compared(layout, CHANGES), KEY, next_commit(layout)),
        lambda: remove_drafts(layout),
    ):
        draft.mkdir()
        entry.touch()
        remove()
        assert not draft.exists() and not entry.exists()


def test_a_version_whose_deletion_vector_is_gone_is_not_restored(tmp_path: Path) -> None:
    layout = replace(create_table(tmp_path, PARIS, OSLO, **{VECTORS: "true"}), deletion_vectors=True)
    write_slots(layout, compared(layout, [(PARIS, (*PARIS[:3], 7))]), KEY, next_commit(layout))
    (former_vector,) = Path(layout.uri).glob("*.bin")
    write_slots(layout, compared(layout, [(OSLO, (*OSLO[:3], 8))]), KEY, next_commit(layout))
    restore_version(layout, 0, 2)
    former_vector.unlink()
    with pytest.raises(TableError, match="VACUUM has deleted files of it"):
        restore_version(layout, 1, 3)
    assert DeltaTable(layout.uri).version() == 3


def test_a_file_whose_values_cannot_be_converted_is_left_to_spark(tmp_path: Path) -> None:
    layout = replace(create_table(tmp_path, PARIS), sync=False)
    changes = compared(layout, [(PARIS, PARIS)])
    (file,) = (Path(name) for name in DeltaTable(layout.uri).file_uris())
    texts = pq.read_table(file).set_column(3, "n", pa.array(["many"]))
    pq.write_table(texts, file)
    with pytest.raises(ConflictError):
        write_slots(layout, changes, KEY, next_commit(layout))
    assert DeltaTable(layout.uri).version() == 0


def test_files_in_a_store_are_left_to_spark(tmp_path: Path) -> None:
    """deltalake panics if it reads a file of a store while it writes another one."""
    layout = replace(create_table(tmp_path, PARIS), uri="s3://bucket/t")
    assert not can_copy_files(layout, ["s3://bucket/t/part.parquet"]) and can_copy_files(layout, [])


def test_a_checkpoint_keeps_hidden_rows_hidden(layout: Layout) -> None:
    write_slots(layout, compared(layout, CHANGES), KEY, next_commit(layout))
    while DeltaTable(layout.uri).version() < 11:
        append_quickly(layout, SCHEMA.empty_table(), next_commit(layout))
    log = Path(layout.uri, "_delta_log")
    for version in range(10):
        (log / f"{version:020d}.json").unlink()
    graz = ("Graz", Decimal("47.070000"), FAR, 9)
    write_slots(layout, compared(layout, [(OSLO, (*OSLO[:3], 8))]), KEY, next_commit(layout))
    assert stored_rows(layout) == in_order((*PARIS[:3], 7), (*OSLO[:3], 8), BERN, graz)
    assert count_rows(layout.uri) == 4


@pytest.mark.parametrize("content", [None, b"\x01", b""], ids=["missing", "short", "empty"])
def test_a_deletion_vector_that_a_power_failure_cut_is_found(tmp_path: Path, content: bytes | None) -> None:
    layout = replace(create_table(tmp_path, PARIS, OSLO, **{VECTORS: "true"}), deletion_vectors=True, sync=False)
    write_slots(layout, compared(layout, [(PARIS, (*PARIS[:3], 7))]), KEY, next_commit(layout))
    (vector,) = Path(layout.uri).glob("*.bin")
    vector.unlink() if content is None else vector.write_bytes(content)
    with pytest.raises(TableDamagedError, match="incomplete"):
        require_undamaged(layout.uri)


def test_a_damaged_deletion_vector_is_not_replaced(tmp_path: Path) -> None:
    layout = replace(create_table(tmp_path, PARIS, OSLO, **{VECTORS: "true"}), deletion_vectors=True)
    write_slots(layout, compared(layout, [(PARIS, (*PARIS[:3], 7))]), KEY, next_commit(layout))
    changes = compared(layout, [(OSLO, (*OSLO[:3], 8))])
    (vector,) = Path(layout.uri).glob("*.bin")
    content = bytearray(vector.read_bytes())
    content[-1] ^= 1
    vector.write_bytes(content)
    with pytest.raises(ConflictError):
        write_slots(layout, changes, KEY, next_commit(layout))
    assert DeltaTable(layout.uri).version() == 1


def test_a_batch_opens_the_files_whose_bounds_it_meets(tmp_path: Path) -> None:
    """Times have no exact bounds in the log, and a file without statistics may hold any row."""
    layout = create_table(tmp_path, PARIS, ROME)
    write_deltalake(layout.uri, rows(BERN, OSLO), mode="append")
    table = DeltaTable(layout.uri)
    newest, oldest = table.get_add_actions()["path"].to_pylist()
    assert files_within(table, {"place": ("A", "Bern")}).to_pylist() == [newest]
    assert files_within(table, {"place": ("Pa", "Z")}).to_pylist() == [oldest]
    assert files_within(table, {"place": ("Oslo", "Paris")}).to_pylist() == [newest, oldest]
    assert files_within(table, {"place": ("X", "Z")}).to_pylist() == []
    assert files_within(table, {"last": ("X", "Z"), "n": ("7", "9")}).to_pylist() == [newest, oldest]


def test_a_table_with_two_files_of_one_name_is_left_to_spark(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    (name,) = (Path(file).name for file in DeltaTable(layout.uri).file_uris())
    other_file = Path(layout.uri, "other", name)
    other_file.parent.mkdir()
    pq.write_table(rows(OSLO), other_file)
    add = AddAction(f"other/{name}", other_file.stat().st_size, {}, 0, True, '{"numRecords": 1}')
    DeltaTable(layout.uri).create_write_transaction([add], "append", DeltaTable(layout.uri).schema())
    met = pa.array([{"last": PARIS[2], "n": 3, SLOT: {"file": other_file.as_uri(), "index": 0}}], met_type())
    changes = rows(PARIS).append_column(STALE, pa.array([False])).append_column(MATCHED_ROW, met)
    with pytest.raises(ConflictError):
        write_slots(layout, changes, KEY, next_commit(layout))
    assert DeltaTable(layout.uri).version() == 1
