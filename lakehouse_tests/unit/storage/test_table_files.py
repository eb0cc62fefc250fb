"""The files that may be read by their paths: Spark must derive the partition that the log records."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.ledger.versions import active_files
from lakehouse.storage.data_files import _is_in_partition_folder
from lakehouse.storage.layout import Layout, TableColumn

MONTH = "2023-01-01"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    columns = [TableColumn("place", "STRING", "d"), TableColumn("month", "DATE", "d")]
    return Layout("t", str(tmp_path / "t"), "d", columns, "month", statistics=("place",))


def test_the_files_of_some_partitions_are_found_with_their_row_counts(layout: Layout) -> None:
    days = pa.array([date(2023, 1, 1), date(2023, 1, 1), date(2023, 2, 1), None])
    write_deltalake(layout.uri, pa.table({"place": list("abcd"), "month": days}), partition_by=["month"])
    table = DeltaTable(layout.uri)
    assert sorted(active_files(table, layout.uri, "month")["partition"].to_pylist(), key=str) == [
        MONTH,
        "2023-02-01",
        None,
    ]
    (january,) = active_files(table, layout.uri, "month", [MONTH, "2099-01-01"]).to_pylist()
    assert (january["partition"], january["rows"]) == (MONTH, 2) and january["size"] > 0
    assert active_files(table, layout.uri, "month", []).num_rows == 0


@pytest.mark.parametrize(
    ("path", "partition", "is_readable"),
    [
        ("month=2023-01-01/a.parquet", MONTH, True),
        ("month=__HIVE_DEFAULT_PARTITION__/a.parquet", None, True),
        ("month=2023-02-01/a.parquet", MONTH, False),
        ("a.parquet", MONTH, False),
        ("aB/month=2023-01-01/a.parquet", MONTH, False),
        ("month=2023-01-01/_a.parquet", MONTH, False),
        ("month=2023-01-01/.a.parquet", MONTH, False),
        ("month=2023-01-01/a[1].parquet", MONTH, False),
    ],
)
def test_a_file_is_read_by_its_path_if_its_folder_names_its_partition(
    layout: Layout, path: str, partition: str | None, is_readable: bool
) -> None:
    file = Path(layout.uri, path)
    assert not _is_in_partition_folder(layout, path, partition), "the file does not exist"
    file.parent.mkdir(parents=True)
    file.touch()
    assert _is_in_partition_folder(layout, path, partition) == is_readable


def test_a_file_of_a_table_without_partitions_must_be_in_the_folder_of_the_table(layout: Layout) -> None:
    flat_layout, file = replace(layout, partition_by=None), Path(layout.uri, "a.parquet")
    file.parent.mkdir()
    file.touch()
    assert _is_in_partition_folder(flat_layout, "a.parquet", None)
