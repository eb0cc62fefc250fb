"""The versions of a table: the active files and rows of one, and the version that a reader asks for."""

# ruff: noqa: PLC0415 - pyarrow is slow to import, and most callers that count rows do not need it

import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from lakehouse.errors import TableError
from lakehouse.ledger.added_files import hiding_files, may_hide_rows
from lakehouse.ledger.commit_infos import committed_at
from lakehouse.ledger.log import open_table, open_version, read_commit, read_history
from lakehouse.ledger.table_failures import log_failures

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.compute import Expression
    from pyarrow.dataset import Scanner

Point = int | datetime
"""The number of a version, or a time with a zone: it means the newest version that was committed by then."""
_SCANNED_ROWS = 16_384  # in a batch: a row may be as large as a record
_TIME_EXAMPLE = "2026-11-01T00:00:00Z"


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


def files_within(table: DeltaTable, bounds: Mapping[str, tuple[str, str]]) -> "pa.Array":
    """Return the paths of the active files that may have a row whose columns are within bounds, given as texts.

    Statistics of times are less exact, and decide nothing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    files = pa.table(table.get_add_actions(flatten=True))
    for name, texts in bounds.items():
        if not {f"min.{name}", f"max.{name}"} <= {*files.column_names}:
            continue
        lows, highs = files[f"min.{name}"], files[f"max.{name}"]
        if pa.types.is_string(lows.type) or pa.types.is_integer(lows.type) or pa.types.is_date(lows.type):
            low_key, high_key = (pa.scalar(text).cast(lows.type) for text in texts)
            is_within = pc.and_kleene(pc.less_equal(lows, high_key), pc.greater_equal(highs, low_key))
            files = files.filter(pc.fill_null(is_within, True))
    return files["path"].combine_chunks()


def scan_rows(table: DeltaTable, names: Sequence[str], condition: "Expression | None" = None) -> "Scanner":
    """Return a scanner of columns of the rows of an opened table that meet a condition; one that can be used once.

    If the table may have deletion vectors, which pyarrow does not know, deltalake reads it.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import QueryBuilder

    if not may_hide_rows(table):
        return table.to_pyarrow_dataset().scanner(list(names), filter=condition, batch_size=_SCANNED_ROWS)
    columns = ", ".join(f'"{name}"' for name in names)
    rows = QueryBuilder().register("t", table).execute(f"SELECT {columns} FROM t")
    return ds.Scanner.from_batches(pa.RecordBatchReader.from_stream(rows), filter=condition)


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
        return TableSize(count_rows_in(table, uri), sum(sizes.to_pylist()))


def holds_files(uri: str) -> bool:
    """Whether a table exists and has an active file."""
    table = open_table(uri)
    with log_failures(uri):
        return table is not None and bool(table.get_add_actions().num_rows)


def count_rows(uri: str, partition: str | None = None, values: Collection[str] | None = None) -> int:
    """Count the rows of a table from its log alone; 0 if there is no table.

    ``values`` limits the count to these values of its partition column; it then includes rows that deletion vectors
    hide. A file without a row count in the log counts as 0.
    """
    table = open_table(uri)
    if table is None:
        return 0
    if partition is None or values is None:
        return count_rows_in(table, uri)
    return sum(filter(None, active_files(table, uri, partition, values)["rows"].to_pylist()))


def count_rows_in(table: DeltaTable, uri: str) -> int:
    """Count the rows of an opened table from its log alone, without those that deletion vectors hide."""
    with log_failures(uri):
        count = int(table.count())
    return count - sum(int(add["deletionVector"]["cardinality"]) for add in hiding_files(table, uri))


@dataclass(frozen=True)
class TableVersion:
    """One version of a table. ``committed_at`` is in UTC, and ``None`` if its commit has expired."""

    table: str
    uri: str
    number: int
    committed_at: datetime | None

    def __str__(self) -> str:
        """Name the table, the version and its time."""
        time = f", committed at {_time_text(self.committed_at)}" if self.committed_at else ""
        return f"{self.table}, version {self.number}{time}"


def parse_point(text: str) -> Point:
    """Return the number of a version, or a time in ISO 8601 with a zone; ``ValueError`` says what is wrong."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else parse_time(text)


def parse_time(text: str) -> datetime:
    """Return a time in ISO 8601, or as ``audit`` shows it; ``ValueError`` if it is anything else or has no zone."""
    try:
        time = datetime.fromisoformat(re.sub(" UTC$", "+00:00", text))
    except ValueError:
        raise ValueError(f"{text!r} is not a time in ISO 8601, for example {_TIME_EXAMPLE}") from None
    require_zone(time)
    return time


def require_zone(time: datetime) -> None:
    """Raise ``ValueError`` if a time may mean several, because it has no zone."""
    if time.utcoffset() is None:
        raise ValueError(f"{time} has no time zone; write, for example, {_TIME_EXAMPLE}")


def find_version(uri: str, name: str, point: Point | None = None) -> TableVersion:
    """Find a version of a table, without a JVM; the newest one by default.

    Raises ``TableError`` if the table does not exist, and if the log does not show the version or is younger than the
    time; the error names the versions that it shows. The files of the version may be gone. Times are those of
    ``audit``; a commit whose clock was behind the commit before it counts as committed together with that one.
    """
    table = open_table(uri)
    if table is None:
        raise TableError(f"Table {name} does not exist", where=uri, action="First run the command that creates it.")
    newest = int(table.version())
    number = newest if point is None else point
    if isinstance(number, datetime):
        number, newest = _version_at(uri, name, number)
    is_shown = number == newest or (0 <= number < newest and _shows(uri, number))
    if not is_shown:
        raise _missing_version(uri, name, number, newest)
    info = read_commit(uri, number)
    return TableVersion(name, uri, number, committed_at(info) if info else None)


def _version_at(uri: str, name: str, time: datetime) -> tuple[int, int]:
    """Return the newest version that was committed by a time, and the newest of all."""
    history = read_history(uri)[::-1]
    times = list(map(committed_at, history))
    newer = next((number for number, commit_time in enumerate(times) if commit_time > time), len(times))
    if newer == 0:
        oldest = f"version {history[0]['version']}, committed at {_time_text(times[0])}"
        problem = f"Table {name} has no version of {time.isoformat()}: the oldest commit in its log is {oldest}"
        raise TableError(problem, where=uri, action="Choose a later time.")
    return history[newer - 1]["version"], history[-1]["version"]


def _shows(uri: str, number: int) -> bool:
    """Whether the log still shows a version that is not newer than the table."""
    try:
        open_version(uri, number)
    except TableError as error:
        if type(error) is TableError:
            return False
        raise  # the store or a damaged file: no other version can be read either
    return True


def _missing_version(uri: str, name: str, number: int, newest: int) -> TableError:
    oldest = bisect_left(range(newest), True, key=lambda version: _shows(uri, version))
    problem = "has expired from the log" if 0 <= number < oldest else "does not exist"
    versions = f"{oldest} to {newest}" if oldest < newest else f"only {newest}"
    return TableError(
        f"Version {number} of {name} {problem}", where=uri, action=f"Choose another; the log shows {versions}."
    )


def _time_text(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
