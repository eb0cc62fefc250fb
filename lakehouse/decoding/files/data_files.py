"""The valid records of a batch → data files of a table. Runs in the workers that decode the records.

Nothing reads a data file before a commit of the table names it. A worker that dies leaves files that no commit names:
VACUUM deletes them.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from errno import EIO
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.decoding.files.lines import DataFileError
from lakehouse.decoding.staged import (
    DETAIL,
    LATE,
    PARTITION,
    POSITION,
    REASON,
    ROUNDED,
    SEQUENCE,
    TIME,
    UNMAPPED_FIELDS,
    VERDICT,
    WRITTEN,
)

_MOST_BYTES = 64 * 1024 * 1024  # of the rows of one file, in memory
_PLACES = {"partition": PARTITION, "position": POSITION, "sequence": SEQUENCE, "time": TIME}


class DataFileTarget(NamedTuple):
    """Where rows are written: the folder and the columns of a table, and what its files must say.

    ``record_name`` is the column with the record of a row, which is in ``source``. ``bounded`` are the paths of the
    columns for which the log of the table has bounds; of a text, only if it has at most ``most_characters``. The names
    of the files begin with ``prefix``.
    """

    folder: str
    prefix: str
    schema: pa.Schema
    record_name: str
    source: str
    bounded: Sequence[tuple[str, ...]]
    most_characters: int


def write_valid(batches: Iterator[pa.RecordBatch], target: DataFileTarget) -> Iterator[pa.RecordBatch]:
    """Write the valid records of decoded batches, and yield the others, with a row for each file that was written.

    The verdict of that row has ``WRITTEN`` in place of a reason, and a detail: the path, size, rows and statistics of
    the file, how many rows are late or rounded, and the counts of unmapped fields, as JSON. Raises ``DataFileError`` if
    the disk fails.
    """
    pending = _PendingRows(target)
    for batch in batches:
        is_valid = pc.is_null(batch.column(VERDICT).field(REASON))
        pending.add(batch.filter(is_valid))
        if pending.rows and pending.size >= _MOST_BYTES:
            yield _describe(pending.write(), batch.schema)
        invalid_records = batch.filter(pc.invert(is_valid))
        if invalid_records.num_rows:
            yield invalid_records
        schema = batch.schema
    if pending.rows:
        yield _describe(pending.write(), schema)


def _describe(facts: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of one row that describes a file."""
    verdict = {REASON: WRITTEN, DETAIL: json.dumps(facts)}
    return pa.RecordBatch.from_pylist([{VERDICT: verdict}], schema)


class _PendingRows:
    """Rows of the next file, and what the log or the ledger will say about them."""

    def __init__(self, target: DataFileTarget) -> None:
        self._target = target
        self._start()

    def _start(self) -> None:
        self.rows, self.size = list[pa.RecordBatch](), 0
        self._late, self._rounded, self._unmapped_fields = 0, 0, Counter[str]()

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            verdicts = batch.column(VERDICT)
            self._late += pc.sum(verdicts.field(LATE)).as_py() or 0
            if verdicts.type.get_field_index(ROUNDED) >= 0:
                self._rounded += pc.sum(verdicts.field(ROUNDED)).as_py() or 0
            for counts in verdicts.field(UNMAPPED_FIELDS).drop_null().to_pylist():
                self._unmapped_fields.update(json.loads(counts))
            self.rows.append(_to_rows(batch, self._target))
            self.size += self.rows[-1].nbytes

    def write(self) -> dict[str, Any]:
        """Write the rows as one file, and start the next one."""
        target, rows = self._target, pa.Table.from_batches(self.rows)
        name = f"{target.prefix}{uuid4()}.snappy.parquet"
        path = os.path.join(target.folder, name)  # noqa: PTH118 - a worker needs no other module for it
        try:
            pq.write_table(rows, path, row_group_size=len(rows), compression="snappy", store_decimal_as_integer=True)
            size, stored_rows = os.stat(path).st_size, pq.read_metadata(path).num_rows  # noqa: PTH116
        except (OSError, pa.ArrowInvalid) as error:  # the latter, and some of the first, have no number
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108
            raise DataFileError(f"errno {getattr(error, 'errno', None) or EIO}") from error
        facts = {"path": name, "size": size, "rows": len(rows), "stored_rows": stored_rows}
        facts |= {"stats": {"numRecords": stored_rows, **_statistics(rows, target)}}
        facts |= {"late": self._late, "rounded": self._rounded, "unmapped_fields": dict(self._unmapped_fields)}
        self._start()
        return facts


def _to_rows(batch: pa.RecordBatch, target: DataFileTarget) -> pa.RecordBatch:
    """Return valid records as rows of the table; those of files are ordered by their own time."""
    verdicts = batch.column(VERDICT)
    fixed_parts = {"source": pa.repeat(pa.scalar(target.source, pa.string()), batch.num_rows)}
    fixed_parts["order_time"] = pa.nulls(batch.num_rows)
    columns = []
    for column in target.schema:
        if column.name == target.record_name:
            places = [
                batch.column(_PLACES[part.name]) if part.name in _PLACES else fixed_parts[part.name]
                for part in column.type
            ]
            parts = [place.cast(part.type) for place, part in zip(places, column.type, strict=True)]
            columns.append(pa.StructArray.from_arrays(parts, fields=list(column.type)))
        else:
            columns.append(verdicts.field(column.name).cast(column.type))
    return pa.RecordBatch.from_arrays(columns, schema=target.schema)


def _statistics(rows: pa.Table, target: DataFileTarget) -> dict[str, Any]:
    """Return the statistics of columns as the log of a table has them: counts of NULL, and bounds that are exact."""
    lowest, highest, null_counts = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for path in target.bounded:
        column = rows[path[0]]
        for name in path[1:]:
            column = pc.struct_field(column, name)
        _put(null_counts, path, column.null_count)
        bounds = pc.min_max(column)
        values = [_bound(bounds[name], target.most_characters) for name in ("min", "max")]
        if None not in values:
            _put(lowest, path, values[0])
            _put(highest, path, values[1])
    return {"minValues": lowest, "maxValues": highest, "nullCount": null_counts}


def _put(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


def _bound(value: pa.Scalar, most_characters: int) -> Any:
    """Return a value as the log has it; ``None`` if there is none, or if a text is too long."""
    if not value.is_valid or pa.types.is_boolean(value.type):
        return None
    if pa.types.is_timestamp(value.type):
        # a time with a zone needs the system's time zones, which a small image may not have
        return value.cast(pa.timestamp("us")).cast(pa.string()).as_py().replace(" ", "T") + "Z"
    if pa.types.is_date(value.type):
        return value.cast(pa.string()).as_py()
    if pa.types.is_decimal(value.type):
        return float(value.as_py())
    return None if pa.types.is_string(value.type) and len(value.as_py()) > most_characters else value.as_py()
