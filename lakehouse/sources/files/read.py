"""The records of numbered files as a Spark DataFrame. Workers read and decode the files, a part of a file each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.compute import if_else
from pyspark import cloudpickle

from lakehouse import decoding
from lakehouse.declaration.sources import Files
from lakehouse.decoding import staged
from lakehouse.decoding.arrow_types import HEADERS_TYPE, RECORD_SCHEMA, RECORD_TYPE, TIME_TYPE
from lakehouse.decoding.files.contents import CHUNK
from lakehouse.decoding.files.lines import FileChangedError, FileUnreadableError
from lakehouse.decoding.files.reader import FileForm, FilePart, FileRecords, read_part
from lakehouse.decoding.record_parts import FAULT_HEADER, FILE_HEADER, TIME
from lakehouse.ledger.positions import FILE_PLACES
from lakehouse.sources.files.listing import form_of
from lakehouse.sources.source import Judge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART_CHUNKS = 2  # chunks of a large file that one task reads
_FEW_TASKS = 4  # for fewer, Spark divides the parts by itself
_COMPRESSED = (".gz", ".zst", ".zstd")
_PART = pa.schema(
    {
        "number": pa.int64(),
        "seen": TIME_TYPE,
        "path": pa.string(),
        "hashes": pa.list_(pa.string()),
        "first": pa.int32(),
        "chunks": pa.int32(),
    }
)


@dataclass(frozen=True)
class NumberedFiles:
    """The records of numbered files, whose ``rows`` in the log these are. Workers read and decode them.

    The time of a record is that at which its file was numbered. With ``with_names``, a header has the path of the file.
    A file that cannot be read to its end gives a last record without a value, with the reason in a header. If a file is
    not the one that was numbered, or a disk does not let it be read, the action that reads the DataFrame fails.
    """

    spark: "SparkSession"
    rows: pa.Table
    folder: str
    files: Files
    with_names: bool
    encoding: str = "utf-8"

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(self.rows["size"].to_pylist())

    def judged(self, judge: Judge) -> "DataFrame":
        """Return a row for each record, as ``Undecoded.judged`` does."""
        cloudpickle.register_pickle_by_value(decoding)  # type: ignore[no-untyped-call]
        parts = pa.Table.from_pylist(
            [part for row in self.rows.to_pylist() for part in _parts_of(row, self.files)], _PART
        )
        frame = self.spark.createDataFrame(parts)
        tasks = self.size // (_PART_CHUNKS * CHUNK)
        frame = frame.repartition(min(tasks, len(parts))) if tasks > _FEW_TASKS else frame
        files = self.files
        form = form_of(files, self.encoding)
        read = _reader(self.folder, form, with_names=self.with_names)
        return frame.mapInArrow(_decoding_reader(read, judge), f"{RECORD_TYPE}, {staged.VERDICT} {judge.type}")


def _parts_of(row: dict[str, Any], files: Files) -> Iterator[dict[str, Any]]:
    """Yield the parts of a file that are read separately: its chunks, if lines can be found in each of them."""
    fields = {name: row[name] for name in ("number", "seen", "path", "hashes")}
    needs_all = files.each != "line" or files.quoted_line_breaks or files.total_lines
    is_whole = needs_all or row["path"].endswith(_COMPRESSED)
    if is_whole or len(row["hashes"]) <= _PART_CHUNKS:
        yield fields | {"first": 0, "chunks": None}
        return
    for first in range(0, len(row["hashes"]), _PART_CHUNKS):
        yield fields | {"first": first, "chunks": min(_PART_CHUNKS, len(row["hashes"]) - first)}


def _decoding_reader(read: Any, judge: Judge) -> Any:
    """Build the function that reads the parts of files, and decodes their records batch by batch."""
    parts_of, with_verdicts = _parts_reader(judge.parts), _verdict_adder(judge)
    decode, finish = judge.decode, judge.finish  # locals

    def read_and_decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        unjudged: list[pa.RecordBatch] = []

        def inputs() -> Iterator[Any]:
            for part in (part for batch in batches for part in batch.to_pylist()):
                for records in read(part):
                    unjudged[:] = [records]
                    yield parts_of(records, part["path"])

        for verdicts in decode(inputs()):
            (batch,) = unjudged
            yield with_verdicts(batch.slice(0, len(verdicts)), verdicts)
            unjudged[:] = [batch.slice(len(verdicts))]

    return (lambda batches: finish(read_and_decode(batches))) if finish else read_and_decode


def _parts_reader(parts: Sequence[str]) -> Any:
    """Build the function that returns the values of a batch, with the other parts of its records if there are any."""
    value_place, time_place, time_part = *map(RECORD_SCHEMA.names.index, (staged.VALUE, staged.TIME)), TIME  # locals

    def parts_of(batch: pa.RecordBatch, path: str) -> Any:
        times = batch.column(time_place).cast(pa.int64())
        paths = pa.repeat(pa.scalar(path.encode(), pa.binary()), batch.num_rows)
        values = batch.column(value_place)
        return (values, *(times if part == time_part else paths for part in parts)) if parts else values

    return parts_of


def _verdict_adder(judge: Judge) -> Any:
    """Build the function that adds the verdicts to a batch, and removes the raw parts that nothing needs."""
    names, first, reason = [*RECORD_SCHEMA.names, staged.VERDICT], len(staged.PLACE), staged.REASON  # locals
    needs_raw = judge.needs_raw

    def with_verdicts(batch: pa.RecordBatch, verdicts: pa.Array) -> pa.RecordBatch:
        columns = batch.columns
        if not needs_raw:
            is_valid = verdicts.field(reason).is_null()
            columns[first:] = [if_else(is_valid, pa.scalar(None, raw.type), raw) for raw in columns[first:]]
        return pa.RecordBatch.from_arrays([*columns, verdicts], names)

    return with_verdicts


def _reader(folder: str, form: FileForm, *, with_names: bool) -> Any:
    """Build the function that reads a part of a file: batches of records."""
    # locals: this module is not shipped
    names, places, fault_header, file_header = RECORD_SCHEMA.names, FILE_PLACES, FAULT_HEADER, FILE_HEADER
    headers_type, time_type, read = HEADERS_TYPE, TIME_TYPE, read_part
    changed_error, unreadable_error = FileChangedError, FileUnreadableError

    def to_batch(part: dict[str, Any], records: FileRecords) -> pa.RecordBatch:
        count = len(records.values)
        headers = [{"key": file_header, "value": part["path"].encode()}] if with_names else []
        headers += [{"key": fault_header, "value": records.fault.encode()}] if records.fault else []
        columns = [
            pa.repeat(pa.scalar(part["seen"], time_type), count),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            pa.array(records.places + part["number"] * places, pa.int64()),
            pa.nulls(count, pa.int64()),
            pa.nulls(count, pa.binary()),
            records.values,
            pa.repeat(pa.scalar(headers, headers_type), count) if headers else pa.nulls(count, headers_type),
        ]
        return pa.RecordBatch.from_arrays(columns, names)

    def read_batches(part: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        file_part = FilePart(folder, part["path"], part["hashes"], part["first"], part["chunks"])
        try:
            yield from (to_batch(part, records) for records in read(file_part, form) if len(records.values))
        except changed_error as error:
            raise changed_error(f"file {part['number']}: {error}") from None
        except OSError as error:
            detail = error.strerror or str(error)
            raise unreadable_error(f"file {part['number']}: {detail}") from None

    return read_batches
