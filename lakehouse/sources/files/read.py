"""The records of numbered files as a Spark DataFrame. Workers read the files, a part of a file each."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle

from lakehouse import decoding
from lakehouse.declaration.files import Files
from lakehouse.decoding import staged
from lakehouse.decoding.files.contents import CHUNK
from lakehouse.decoding.files.fault import FileChangedError
from lakehouse.decoding.files.reader import FileForm, FilePart, FileRecords, read_part
from lakehouse.decoding.record_parts import FAULT_HEADER, FILE_HEADER
from lakehouse.ledger.positions import FILE_PLACES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART_CHUNKS = 2  # chunks of a large file that one task reads
_FEW_TASKS = 4  # for fewer, Spark divides the parts by itself
_COMPRESSED = (".gz", ".zst", ".zstd")
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_HEADERS = pa.list_(_HEADER)
_NAMES = [*staged.PLACE, *staged.RAW]
_TYPE = (
    f"{staged.TIME} TIMESTAMP, {staged.PARTITION} INT, {staged.POSITION} BIGINT, {staged.SEQUENCE} BIGINT,"
    f" {staged.KEY} BINARY, {staged.VALUE} BINARY, {staged.HEADERS} ARRAY<STRUCT<key STRING, value BINARY>>"
)


_PART = pa.schema(
    {
        "number": pa.int64(),
        "seen": pa.timestamp("us", "UTC"),
        "path": pa.string(),
        "hashes": pa.list_(pa.string()),
        "first": pa.int32(),
        "chunks": pa.int32(),
    }
)


def read_files(spark: "SparkSession", rows: pa.Table, folder: str, files: Files, *, with_names: bool) -> "DataFrame":
    """Return the records of numbered files: one row for each, with the columns of ``staged.PLACE`` and ``staged.RAW``.

    The time of a record is that at which its file was numbered. With ``with_names``, a header has the path of the file.
    A file that cannot be read to its end gives a last record without a value, with the reason in a header. If a file is
    not the one that was numbered, the action that reads the DataFrame fails.
    """
    cloudpickle.register_pickle_by_value(decoding)  # type: ignore[no-untyped-call]
    parts = pa.Table.from_pylist([part for row in rows.to_pylist() for part in _parts_of(row, files)], _PART)
    frame = spark.createDataFrame(parts)
    tasks = sum(rows["size"].to_pylist()) // (_PART_CHUNKS * CHUNK)
    frame = frame.repartition(min(tasks, len(parts))) if tasks > _FEW_TASKS else frame
    return frame.mapInArrow(_reader(folder, files, with_names=with_names), _TYPE)


def _parts_of(row: dict[str, Any], files: Files) -> Iterator[dict[str, Any]]:
    """Yield the parts of a file that are read separately: its chunks, if lines can be found in each of them."""
    fields = {name: row[name] for name in ("number", "seen", "path", "hashes")}
    is_whole = files.each != "line" or files.quoted_line_breaks or row["path"].endswith(_COMPRESSED)
    if is_whole or len(row["hashes"]) <= _PART_CHUNKS:
        yield fields | {"first": 0, "chunks": None}
        return
    for first in range(0, len(row["hashes"]), _PART_CHUNKS):
        yield fields | {"first": first, "chunks": min(_PART_CHUNKS, len(row["hashes"]) - first)}


def _reader(folder: str, files: Files, *, with_names: bool) -> Any:
    """Build the function that Spark ships to its workers, which need only the package of decoding."""
    form = FileForm(files.each, files.header, files.quoted_line_breaks, FILE_PLACES)
    # locals: this module is not shipped
    names, places, fault_header, file_header = _NAMES, FILE_PLACES, FAULT_HEADER, FILE_HEADER
    headers_type, read, changed_error = _HEADERS, read_part, FileChangedError

    def to_batch(part: dict[str, Any], records: FileRecords) -> pa.RecordBatch:
        count = len(records.values)
        headers = [{"key": file_header, "value": part["path"].encode()}] if with_names else []
        headers += [{"key": fault_header, "value": records.fault.encode()}] if records.fault else []
        columns = [
            pa.repeat(pa.scalar(part["seen"], pa.timestamp("us", "UTC")), count),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            pa.array(records.places + part["number"] * places, pa.int64()),
            pa.nulls(count, pa.int64()),
            pa.nulls(count, pa.binary()),
            records.values,
            pa.repeat(pa.scalar(headers, headers_type), count) if headers else pa.nulls(count, headers_type),
        ]
        return pa.RecordBatch.from_arrays(columns, names)

    def read_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.to_pylist():
                file_part = FilePart(folder, part["path"], part["hashes"], part["first"], part["chunks"])
                try:
                    yield from (to_batch(part, records) for records in read(file_part, form) if len(records.values))
                except changed_error as error:
                    raise changed_error(f"file {part['number']}, {part['path']}: {error}") from None

    return read_batches
