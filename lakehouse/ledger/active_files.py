"""The active files of a table and their row counts, from its log, without a JVM."""

# ruff: noqa: PLC0415 - pyarrow is slow to import, and most callers that count rows do not need it

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from lakehouse.ledger.log import open_table
from lakehouse.ledger.table_failures import log_failures

if TYPE_CHECKING:
    import pyarrow as pa


def active_files(
    table: DeltaTable, uri: str, partition: str | None = None, values: Collection[str] | None = None
) -> "pa.Table":
    """Return the active files of an opened table: relative ``path``, ``rows``, ``size`` in bytes, ``partition``.

    ``partition`` names the partition column; ``values`` limits the files to these values of it. ``rows`` is NULL if the
    log has no count, ``partition`` if the table has no partition column.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    with log_failures(uri):
        add_actions = pa.table(table.get_add_actions(flatten=True))
    value = (
        add_actions[f"partition.{partition}"].cast(pa.string())
        if partition
        else pa.nulls(add_actions.num_rows, pa.string())
    )
    columns = {
        "path": add_actions["path"],
        "rows": add_actions["num_records"],
        "size": add_actions["size_bytes"],
        "partition": value,
    }
    files = pa.table(columns)
    if partition is None or values is None:
        return files
    return files.filter(pc.is_in(files["partition"], pa.array(list(values), pa.string())))


@dataclass(frozen=True)
class TableSize:
    """The rows of a table, and the bytes of its active files."""

    rows: int
    bytes: int


def measure(uri: str) -> TableSize:
    """Count the rows and the bytes of a table from its log alone; both are 0 if there is no table."""
    table = open_table(uri)
    if table is None:
        return TableSize(0, 0)
    with log_failures(uri):
        sizes = table.get_add_actions(flatten=False)["size_bytes"]
        return TableSize(int(table.count()), sum(sizes.to_pylist()))


def holds_files(uri: str) -> bool:
    """Whether a table exists and has an active file."""
    table = open_table(uri)
    with log_failures(uri):
        return table is not None and bool(table.get_add_actions().num_rows)


def count_rows(uri: str, partition: str | None = None, values: Collection[str] | None = None) -> int:
    """Count the rows of a table from its log alone; 0 if there is no table.

    ``values`` limits the count to these values of its partition column. A file without a row count in the log counts
    as 0.
    """
    table = open_table(uri)
    if table is None:
        return 0
    if partition is None or values is None:
        with log_failures(uri):
            return int(table.count())
    return sum(filter(None, active_files(table, uri, partition, values)["rows"].to_pylist()))
