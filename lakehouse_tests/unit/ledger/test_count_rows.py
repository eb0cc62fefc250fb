"""The row counts of a table and of its partitions, from the log alone."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.ledger.versions import TableSize, count_rows, measure

JANUARY, MARCH = date(2023, 1, 1), date(2023, 3, 1)
BY_MONTH = "observed_month"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with three rows of January, in two files, and one of March."""
    for months in ([JANUARY, MARCH], [JANUARY, JANUARY]):
        rows = pa.table({"id": range(2), BY_MONTH: pa.array(months, pa.date32())})
        write_deltalake(tmp_path / "t", rows, partition_by=[BY_MONTH], mode="append")
    return str(tmp_path / "t")


@pytest.mark.parametrize(
    ("months", "rows"),
    [(["2023-01-01"], 3), (["2023-03-01", "2023-02-01"], 1), (["2023-01-01", "2023-03-01"], 4), ([], 0), (None, 4)],
)
def test_the_rows_of_partitions_are_counted_from_their_files(uri, months, rows):
    assert count_rows(uri, BY_MONTH, months) == rows


def test_a_table_without_partitions_is_counted_as_a_whole(uri):
    assert count_rows(uri) == count_rows(uri, None, ["2023-01-01"]) == 4


def test_the_size_of_a_table_is_that_of_its_active_files(uri):
    write_deltalake(uri, pa.table({"id": [7], BY_MONTH: pa.array([MARCH])}), partition_by=[BY_MONTH], mode="overwrite")
    (file,) = DeltaTable(uri).file_uris()
    assert measure(uri) == TableSize(1, Path(file).stat().st_size)


def test_a_missing_table_has_no_rows(tmp_path):
    assert measure(str(tmp_path / "none")) == TableSize(0, 0)
    assert count_rows(str(tmp_path / "none"), BY_MONTH, ["2023-01-01"]) == 0
