"""Rows written without Spark: they are written once, on the version that they were planned on, or not at all."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.decoding.arrow_types import arrow_type
from lakehouse.decoding.staged import STALE
from lakehouse.errors import ConflictError, TableError
from lakehouse.ledger.ledger import app_id
from lakehouse.storage.delta_rs_writer import append_quickly, upsert_quickly, write_quickly
from lakehouse.storage.layout import TEXT_BOUND, Layout, TableColumn
from lakehouse.storage.spark_writer import write_alone
from lakehouse_tests.helpers.tables.plain_tables import (
    COLUMNS,
    FAR,
    NULL_PLACE,
    OSLO,
    PARIS,
    SCHEMA,
    create_table,
    next_commit,
    read_stored,
    rows,
)


@pytest.mark.invariant("1.1")
def test_an_append_is_one_commit_with_its_number_and_metadata(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    commit = next_commit(layout)
    entry = append_quickly(layout, rows(OSLO, NULL_PLACE), commit)
    assert (entry.version, entry.commit, entry.metrics.inserted) == (1, commit, 2)
    assert DeltaTable(layout.uri).transaction_version(app_id("t")) == commit.number == 1
    assert read_stored(layout) == sorted([PARIS, OSLO, NULL_PLACE], key=str)


def test_a_merge_deletes_updates_and_inserts_differing_rows_and_copies_all_others_unchanged(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS, NULL_PLACE, OSLO, ("Rome", Decimal(0), FAR, 4))
    new_rows = rows((*NULL_PLACE[:3], 7, False), (*OSLO, True), (*PARIS, False), ("Bern", None, FAR, 0, False))
    entry = upsert_quickly(layout, new_rows, ["place", "at"], "gone", next_commit(layout))
    metrics = entry.metrics
    assert (metrics.source_rows, metrics.inserted, metrics.updated, metrics.deleted) == (4, 1, 1, 1)
    expected = [PARIS, (*NULL_PLACE[:3], 7), ("Bern", None, FAR, 0), ("Rome", Decimal("0.000000"), FAR, 4)]
    assert read_stored(layout) == sorted(expected, key=str)


@pytest.mark.invariant("10.7")
@pytest.mark.parametrize("row", [(*NULL_PLACE, True), (*PARIS, False)])
def test_a_merge_that_changes_nothing_is_a_commit_without_a_file(tmp_path: Path, row: tuple[Any, ...]) -> None:
    """The commit records the consumed version."""
    layout = create_table(tmp_path, PARIS)
    files_before = DeltaTable(layout.uri).file_uris()
    entry = upsert_quickly(layout, rows(row), ["place", "at"], "gone", next_commit(layout))
    assert (entry.version, entry.metrics.inserted, entry.metrics.updated, entry.metrics.deleted) == (1, 0, 0, 0)
    assert DeltaTable(layout.uri).file_uris() == files_before and read_stored(layout) == [PARIS]


@pytest.mark.invariant("10.7")
def test_an_append_of_nothing_is_a_commit_without_a_file(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    files_before = DeltaTable(layout.uri).file_uris()
    assert append_quickly(layout, SCHEMA.empty_table(), next_commit(layout)).version == 1
    assert DeltaTable(layout.uri).file_uris() == files_before


def test_a_merge_rewrites_no_file_in_which_nothing_changes(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    append_quickly(layout, rows(OSLO), next_commit(layout))
    (unchanged_file,) = (
        f for f in DeltaTable(layout.uri).file_uris() if pq.read_table(f)["place"].to_pylist() == ["Paris"]
    )
    upsert_quickly(layout, rows((*PARIS, False), (*OSLO[:3], 2, False)), ["place", "at"], "gone", next_commit(layout))
    assert unchanged_file in DeltaTable(layout.uri).file_uris()
    assert read_stored(layout) == sorted([PARIS, (*OSLO[:3], 2)], key=str)


def test_every_tenth_version_is_a_checkpoint_that_needs_no_commit_before_it(tmp_path: Path) -> None:
    """Without checkpoints, every reader of the table reads up to a hundred commits one by one."""
    layout = create_table(tmp_path, PARIS)
    for _ in range(10):
        append_quickly(layout, rows(OSLO), next_commit(layout))
    log = Path(layout.uri, "_delta_log")
    assert [file.name for file in log.glob("*.checkpoint.parquet")] == [f"{10:020d}.checkpoint.parquet"]
    for version in range(10):
        (log / f"{version:020d}.json").unlink()
    assert DeltaTable(layout.uri).transaction_version(app_id("t")) == 10 and len(read_stored(layout)) == 11


def test_no_checksum_of_a_former_file_marks_a_new_file_as_damaged(tmp_path: Path) -> None:
    """Hadoop writes a checksum next to each of its files; in a restored log, checksums may be of other files."""
    layout = create_table(tmp_path, PARIS)
    log = Path(layout.uri, "_delta_log")
    names = (f"{10:020d}.json", f"{10:020d}.checkpoint.parquet", "_last_checkpoint")
    for name in names:
        (log / f".{name}.crc").write_bytes(b"crc\0 of another file")
    for _ in range(10):
        append_quickly(layout, rows(OSLO), next_commit(layout))
    assert all((log / name).exists() for name in names) and not list(log.glob(".*.crc"))


@pytest.mark.parametrize("kind", [RuntimeError, BaseException])
def test_a_commit_is_valid_if_its_checkpoint_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """A panic in deltalake is not an Exception."""

    def panic(_: DeltaTable) -> None:
        raise kind("no checkpoint today")

    monkeypatch.setattr(DeltaTable, "create_checkpoint", panic)
    layout = create_table(tmp_path, PARIS)
    for _ in range(10):
        append_quickly(layout, rows(OSLO), next_commit(layout))
    assert len(read_stored(layout)) == 11


@pytest.mark.invariant("3.2", "11.1")
def test_rows_that_were_planned_on_another_version_are_not_written(tmp_path: Path) -> None:
    """This includes a RESTORE, which does not conflict with an append by Spark."""
    layout = create_table(tmp_path, PARIS)
    commit = next_commit(layout)
    append_quickly(layout, rows(OSLO), next_commit(layout))
    DeltaTable(layout.uri).restore(0)
    with pytest.raises(ConflictError):
        append_quickly(layout, rows(OSLO), commit)
    with pytest.raises(ConflictError):
        upsert_quickly(layout, rows((*OSLO, False)), ["place", "at"], "gone", commit)
    assert read_stored(layout) == [PARIS]


@pytest.mark.invariant("3.2", "11.1")
def test_a_concurrent_commit_of_another_writer_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = create_table(tmp_path, PARIS)
    commit = next_commit(layout)
    table = DeltaTable(layout.uri)
    monkeypatch.setattr("lakehouse.storage.delta_rs_writer.open_uncached", lambda _: table)
    write_deltalake(layout.uri, rows(OSLO), mode="append")
    with pytest.raises(ConflictError):
        append_quickly(layout, rows(NULL_PLACE), commit)
    with pytest.raises(ConflictError):
        upsert_quickly(layout, rows((*NULL_PLACE, False)), ["place", "at"], "gone", commit)
    assert read_stored(layout) == sorted([PARIS, OSLO], key=str)


def test_an_error_of_the_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = create_table(tmp_path, PARIS)

    def raise_disk_full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lakehouse.storage.delta_rs_writer.write_deltalake", raise_disk_full)
    with pytest.raises(TableError, match="No space left"):
        append_quickly(layout, rows(OSLO), next_commit(layout))


def test_an_unreadable_data_file_is_not_reported_as_an_error_of_the_log(tmp_path: Path) -> None:
    layout = create_table(tmp_path, PARIS)
    (file,) = Path(layout.uri).glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[4 : len(content) // 2] = b"\xff" * (len(content) // 2 - 4)
    file.write_bytes(content)
    with pytest.raises(TableError, match="rows could not be written") as raised:
        upsert_quickly(layout, rows((*PARIS[:3], 9, False)), ["place", "at"], "gone", next_commit(layout))
    assert "log" not in str(raised.value)


def create_partitioned(folder: Path, *values: tuple[Any, ...]) -> Layout:
    """Create a table with partitions by month and a change feed, like the merged table."""
    columns = [TableColumn(name, COLUMNS[name], "d") for name in ("place", "n")]
    columns += [TableColumn("month", "DATE", "d"), TableColumn.struct("origin", "d", [TableColumn("base", "INT", "d")])]
    layout = Layout("t", str(folder / "t"), "d", columns, "month", statistics=("place",), change_data=True)
    write_deltalake(
        layout.uri,
        rows_by_month(*values),
        partition_by=["month"],
        configuration=layout.statistics_properties | layout.enforced_properties,
    )
    return layout


def rows_by_month(*values: tuple[Any, ...]) -> pa.Table:
    """Return rows of such a table; a fourth value says whether a row is stale."""
    fields = [("place", pa.string()), ("n", pa.int64()), ("month", pa.date32())]
    schema = pa.schema([*fields, ("origin", pa.struct([("base", pa.int32())]))])
    records = [{"place": row[0], "n": row[1], "month": row[2], "origin": {"base": None}} for row in values]
    table = pa.Table.from_pylist(records, schema=schema)
    return table.append_column(STALE, pa.array([row[3] for row in values])) if len(values[0]) > 3 else table


JANUARY, MARCH = date(2023, 1, 1), date(2023, 3, 1)


def contents(layout: Layout) -> list[tuple[Any, ...]]:
    rows_read = DeltaTable(layout.uri).to_pyarrow_table(columns=["place", "n", "month"]).to_pylist()
    return sorted((tuple(row.values()) for row in rows_read), key=str)


@pytest.mark.invariant("3.1", "4.6")
def test_rows_replace_stored_rows_with_their_keys_and_stale_rows_are_only_counted(tmp_path: Path) -> None:
    layout = create_partitioned(tmp_path, ("Paris", 1, JANUARY), ("Oslo", 1, JANUARY), ("Rome", 1, None))
    paris, oslo = ("Paris", 2, MARCH, False), ("Oslo", 2, JANUARY, True)
    new_rows = (paris, oslo, ("Bern", 2, None, False), ("Graz", 2, MARCH, True))
    entry = write_quickly(layout, rows_by_month(*new_rows), ["place"], None, next_commit(layout, "batch"))
    metrics = entry.metrics
    assert (metrics.source_rows, metrics.inserted, metrics.updated, metrics.deleted, entry.stale) == (4, 1, 1, 0, 2)
    expected = [("Paris", 2, MARCH), ("Oslo", 1, JANUARY), ("Rome", 1, None), ("Bern", 2, None)]
    assert contents(layout) == sorted(expected, key=str)
    changes = pa.table(DeltaTable(layout.uri).load_cdf(starting_version=1).read_all())
    kinds = [(row["place"], row["_change_type"], row["n"], row["month"]) for row in changes.to_pylist()]
    assert sorted(kinds) == [
        ("Bern", "insert", 2, None),
        ("Paris", "update_postimage", 2, MARCH),
        ("Paris", "update_preimage", 1, JANUARY),
    ]


MICROSECONDS = datetime(2023, 1, 1, 0, 0, 0, 123456, UTC)


@pytest.mark.invariant("13.4")
@pytest.mark.parametrize(
    ("type_", "key", "other_key"),
    [("BIGINT", 2**53 + 1, 7), ("TIMESTAMP", MICROSECONDS, FAR), ("DATE", date(1500, 1, 1), JANUARY), ("INT", -1, 0)],
)
def test_files_are_skipped_only_if_their_bounds_exclude_the_key(
    tmp_path: Path, type_: str, key: Any, other_key: Any
) -> None:
    """Bounds of times are rounded to milliseconds; the key is in the second of three files."""
    columns = [TableColumn("k", type_, "d"), TableColumn("n", "BIGINT", "d")]
    layout = Layout("t", str(tmp_path / "t"), "d", columns, statistics=("k",), change_data=True)
    tables = [
        pa.table({"k": pa.array([k], arrow_type(type_)), "n": pa.array([1])}) for k in (other_key, key, other_key)
    ]
    write_deltalake(layout.uri, tables[0], configuration=layout.statistics_properties | layout.enforced_properties)
    for table in tables[1:]:
        write_deltalake(layout.uri, table, mode="append")
    new_rows = pa.table({"k": tables[1]["k"], "n": pa.array([2]), STALE: pa.array([False])})
    metrics = write_quickly(layout, new_rows, ["k"], None, next_commit(layout, "batch")).metrics
    assert (metrics.updated, metrics.inserted) == (1, 0)
    assert sorted(DeltaTable(layout.uri).to_pyarrow_table()["n"].to_pylist()) == [1, 1, 2]


def test_a_partition_without_new_rows_is_not_read(tmp_path: Path) -> None:
    layout = create_partitioned(tmp_path, ("Paris", 1, JANUARY), ("Rome", 1, MARCH))
    (file,) = (Path(uri) for uri in DeltaTable(layout.uri).file_uris() if "2023-03-01" in uri)
    with write_alone(layout):
        pass  # the files on the disk are not checked again after this
    file.unlink()
    write_quickly(
        layout, rows_by_month(("Paris", 2, JANUARY, False)), ["place"], ["2023-01-01"], next_commit(layout, "batch")
    )
    assert DeltaTable(layout.uri).to_pyarrow_table(filters=[("month", "=", JANUARY)])["n"].to_pylist() == [2]


def test_no_commit_is_made_if_all_rows_are_stale(tmp_path: Path) -> None:
    layout = create_partitioned(tmp_path, ("Paris", 1, JANUARY))
    with pytest.raises(ConflictError):
        write_quickly(layout, rows_by_month(("Paris", 2, JANUARY, True)), ["place"], None, next_commit(layout, "batch"))
    assert DeltaTable(layout.uri).version() == 0


def test_the_log_has_only_the_first_characters_of_a_text_key(tmp_path: Path) -> None:
    layout, secret = create_partitioned(tmp_path, ("Paris", 1, JANUARY)), "secret " * 20
    write_quickly(layout, rows_by_month((secret, 2, JANUARY, False)), ["place"], None, next_commit(layout, "batch"))
    log = Path(layout.uri, "_delta_log", f"{1:020d}.json").read_text()
    assert secret[:TEXT_BOUND] in log and secret[: TEXT_BOUND + 1] not in log
