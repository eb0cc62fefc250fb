"""Data files that workers write: their statistics, and a disk that fails."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.decoding.arrow_types import RECORD_SCHEMA
from lakehouse.decoding.files.data_files import DataFileTarget, _statistics, write_valid
from lakehouse.decoding.files.lines import DataFileError
from lakehouse.decoding.staged import DETAIL, LATE, REASON, UNMAPPED_FIELDS, VERDICT


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (-12_219_292_800_000_001, "1582-10-14T23:59:59.999999Z"),
        (-62_135_596_800_000_000, "0001-01-01T00:00:00.000000Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_the_bounds_of_times_need_no_time_zones_of_the_system(tmp_path: Path, microseconds: int, text: str) -> None:
    """A small image has none, not even UTC. Arrow looks for a zone that it does not know in the same way."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC of a small image"))])
    target = DataFileTarget(str(tmp_path), "part-", schema, "_record", "", [("at",)], 32)
    rows = pa.table([pa.array([microseconds, None], schema.field("at").type)], schema=schema)
    expected = {"minValues": {"at": text}, "maxValues": {"at": text}, "nullCount": {"at": 1}}
    assert _statistics(rows, target) == expected


@pytest.mark.parametrize("error", [OSError("Couldn't deserialize thrift"), pa.ArrowInvalid("not a parquet file")])
def test_a_file_that_cannot_be_read_back_is_a_failure_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Arrow gives such an error no number, but the driver explains failures of a disk by theirs."""
    texts = [(name, pa.string()) for name in (UNMAPPED_FIELDS, REASON, DETAIL)]
    verdict = pa.struct([*texts, (LATE, pa.bool_()), ("id", pa.int32())])
    batch = pa.RecordBatch.from_pylist([{VERDICT: {"id": 1}}], pa.schema([*RECORD_SCHEMA, (VERDICT, verdict)]))
    target = DataFileTarget(str(tmp_path), "part-", pa.schema([("id", pa.int32())]), "_record", "", [("id",)], 32)

    def fail(_: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(pq, "read_metadata", fail)
        with pytest.raises(DataFileError, match="errno 5"):
            list(write_valid(iter([batch]), target))
    assert not list(tmp_path.iterdir())
    assert len(list(write_valid(iter([batch]), target))) == len(list(tmp_path.iterdir())) == 1
