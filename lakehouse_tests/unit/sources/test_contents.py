"""The contents of files: compressed, damaged, changed, and rows of tables."""

import gzip
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from lakehouse.decoding.files.contents import chunk_hashes
from lakehouse.decoding.files.lines import FileChangedError
from lakehouse.decoding.files.reader import FileForm, FilePart, read_part


def hashes_of(file: Path) -> list[str]:
    return chunk_hashes(str(file.parent), file.name)


LINE = FileForm()
LINES = b"".join(b'{"a": %d}\n' % number for number in range(1000))


def read(file: Path, form: FileForm = LINE, hashes: list[str] | None = None) -> list[tuple[bytes | None, str | None]]:
    part = FilePart(str(file.parent), file.name, hashes_of(file) if hashes is None else hashes)
    return [(value.as_py(), records.fault) for records in read_part(part, form) for value in records.values]


@pytest.mark.parametrize(
    ("name", "compress"), [("a.gz", gzip.compress), ("a.zst", zstandard.compress), ("a.json", bytes)]
)
def test_compressed_parts_are_read_one_after_the_other(name: str, compress: Any, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(compress(LINES) + compress(LINES))
    assert [value for value, _ in read(file)] == LINES.splitlines() * 2


@pytest.mark.parametrize(("name", "compress"), [("a.gz", gzip.compress), ("a.zst", zstandard.compress)])
@pytest.mark.parametrize(("cut", "word"), [(slice(None, -5), "ends early"), (slice(3, None), "is damaged")])
def test_damaged_contents_end_with_a_fault(name: str, compress: Any, cut: slice, word: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(compress(LINES)[cut])
    *values, (last_value, fault) = read(file)
    assert last_value is None and fault and word in fault
    assert [value for value, _ in values] == LINES.splitlines()[: len(values)]


def test_other_bytes_than_those_that_were_numbered_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(LINES)
    hashes = hashes_of(file)
    file.write_bytes(LINES.replace(b"7", b"8"))
    with pytest.raises(FileChangedError, match="not those that were numbered"):
        read(file, hashes=hashes)
    file.write_bytes(b"")
    with pytest.raises(FileChangedError):
        read(file, hashes=hashes)
    file.unlink()
    with pytest.raises(FileChangedError, match="gone"):
        read(file, hashes=hashes)


def test_rows_of_parquet_keep_their_values(tmp_path: Path) -> None:
    file, at = tmp_path / "a.parquet", datetime(2026, 1, 31, 10, 15, 30, 123456)
    columns = {
        "big": pa.array([2**60], pa.int64()),
        "short": pa.array([0.1], pa.float32()),
        "exact": pa.array([Decimal("1.10")], pa.decimal128(38, 2)),
        "at": pa.array([at], pa.timestamp("us", "Europe/Berlin")),
        "local": pa.array([at], pa.timestamp("us")),
        "nanos": pa.array([1], pa.timestamp("ns")),
        "day": pa.array([date(2026, 1, 31)]),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        "none": pa.array([[]], pa.map_(pa.string(), pa.int32())),
        "bytes": pa.array([b"\x00x"]),
        "list": pa.array([[{"q": 'ä"'}]]),
        "null": pa.nulls(1),
    }
    pq.write_table(pa.table(columns), file)
    assert [value for value, _ in read(file, FileForm("row"))] == [
        '{"big":1152921504606846976,"short":0.1,"exact":1.10,"at":"2026-01-31T10:15:30.123456Z",'
        '"local":"2026-01-31T10:15:30.123456","nanos":"1970-01-01T00:00:00.000000001","day":"2026-01-31","map":{"k":1},'
        '"none":{},"bytes":"AHg=","list":[{"q":"ä\\""}],"null":null}'.encode()
    ]


def test_rows_of_avro_are_read_up_to_the_damage(tmp_path: Path) -> None:
    file = tmp_path / "a.avro"
    time = {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}}
    schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, time]})
    rows = [{"a": number, "t": datetime(2026, 1, 31, tzinfo=UTC)} for number in range(3)]
    with file.open("wb") as out:
        fastavro.writer(out, schema, rows, sync_interval=1)
    values = read(file, FileForm("row"))
    assert values[0] == (b'{"a":0,"t":"2026-01-31T00:00:00Z"}', None) and len(values) == 3
    file.write_bytes(file.read_bytes()[:-20])
    *values, (last_value, fault) = read(file, FileForm("row"))
    assert (len(values), last_value) == (2, None) and fault and "beyond row 2" in fault


def test_a_file_without_its_header_is_one_fault(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\r\n")
    assert read(file, FileForm(header="a,b")) == [(b"1,2", None)]
    file.write_bytes(b"b,a\n1,2\n")
    assert read(file, FileForm(header="a,b")) == [(None, "the first line is 'b,a', expected the header 'a,b'")]


def test_the_header_is_in_the_encoding_of_the_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes("größe\n1\n".encode("cp1252"))
    assert read(file, FileForm(header="größe", encoding="cp1252")) == [(b"1", None)]
    ((_, fault),) = read(file, FileForm(header="grösse", encoding="cp1252"))
    assert fault == "the first line is 'größe', expected the header 'grösse'"


def test_times_of_old_parquet_files_keep_their_year(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    times = pa.table({"at": pa.array([datetime(9999, 12, 31), datetime(1, 1, 1)], pa.timestamp("us"))})
    pq.write_table(times, file, use_deprecated_int96_timestamps=True)
    assert [value for value, _ in read(file, FileForm("row"))] == [
        b'{"at":"9999-12-31T00:00:00"}',
        b'{"at":"0001-01-01T00:00:00"}',
    ]


def test_a_row_that_has_no_text_is_rejected_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"at": pa.array([0, 2**60, 1], pa.int64()).cast(pa.timestamp("ms"))}), file)
    (first, _), (wrong_row, _), (last, _) = read(file, FileForm("row"))
    assert (first, last) == (b'{"at":"1970-01-01T00:00:00"}', b'{"at":"1970-01-01T00:00:00.001000"}')
    assert wrong_row and wrong_row.startswith(b"a row that has no text: ")


def test_two_columns_of_one_name_are_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), file)
    assert read(file, FileForm("row")) == [(None, "two columns of the Parquet file are named 'a'")]


def test_a_small_file_that_becomes_large_is_read_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "a.zst"
    file.write_bytes(zstandard.compress(b"x\n" * 30_000_000))
    part = FilePart(str(tmp_path), file.name, hashes_of(file))
    sizes = [len(records.values) for records in read_part(part, FileForm())]
    assert (sum(sizes), max(sizes)) == (30_000_000, 100_000)
