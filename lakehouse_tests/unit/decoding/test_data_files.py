"""The statistics of data files that workers write."""

from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.decoding.files.data_files import DataFileTarget, _statistics


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
    target = DataFileTarget(str(tmp_path), schema, "_record", "", [("at",)], 32)
    rows = pa.table([pa.array([microseconds, None], schema.field("at").type)], schema=schema)
    expected = {"minValues": {"at": text}, "maxValues": {"at": text}, "nullCount": {"at": 1}}
    assert _statistics(rows, target) == expected
