"""The active files of a table and how many rows they hold, as its log tells them, without a JVM."""

# ruff: noqa: PLC0415 - pyarrow is slow to import, and most who count the rows of a table need none of it

from collections.abc import Collection
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from lakehouse.ledger.log import open_table
from lakehouse.ledger.table_failures import log_failures

if TYPE_CHECKING:
    import pyarrow as pa


def active_files(
    table: DeltaTable, uri: str, partition: str | None = None, values: Collection[str] | None = None
) -> "pa.Table":
    """The active files of an opened table: ``path`` in it, ``rows``, ``size`` in bytes, ``partition``.

    ``partition`` names the column by which it is partitioned; where ``values`` of it are told, only the files of these.
    Rows are NULL where the log does not tell them, the partition where there is none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    with log_failures(uri):
        told = pa.table(table.get_add_actions(flatten=True))
    of = told[f"partition.{partition}"].cast(pa.string()) if partition else pa.nulls(told.num_rows, pa.string())
    files = pa.table({"path": told["path"], "rows": told["num_records"], "size": told["size_bytes"], "partition": of})
    if partition is None or values is None:
        return files
    return files.filter(pc.is_in(files["partition"], pa.array(list(values), pa.string())))


def holds_files(uri: str) -> bool:
    """Whether a table is there and has an active file."""
    table = open_table(uri)
    with log_failures(uri):
        return table is not None and bool(table.get_add_actions().num_rows)


def count_rows(uri: str, partition: str | None = None, values: Collection[str] | None = None) -> int:
    """Count the rows of a table, from its log alone; 0 where there is no table.

    Where ``values`` of its partition column are told, only those rows in them. A file whose rows the log does not tell
    counts as 0.
    """
    table = open_table(uri)
    if table is None:
        return 0
    if partition is None or values is None:
        with log_failures(uri):
            return int(table.count())
    return sum(filter(None, active_files(table, uri, partition, values)["rows"].to_pylist()))
