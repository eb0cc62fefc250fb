"""Base files for tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa


def base_folder(
    folder: Path, values: dict[str, float | None], name: str = "a.json", missing_names: Sequence[str] = ()
) -> Path:
    """Write a base file of one place into a folder; the ``missing_names`` columns have no values."""
    folder.mkdir(exist_ok=True)
    content = {
        "latitude": 13.0,
        "longitude": 77.600006,
        "elevation": 910.0,
        "hourly_units": {"time": "iso8601", "temperature_2m": "°C"},
        "hourly": {
            "time": list(values),
            "temperature_2m": list(values.values()),
            **{column: [None] * len(values) for column in missing_names},
        },
    }
    (folder / name).write_text(json.dumps(content))
    return folder


def base_archive(**changes: Any) -> dict[str, Any]:
    """Return an archive of two hours in London."""
    hourly = {"time": ["2022-01-01T00:00", "2022-01-01T01:00"], "temperature_2m": [4.2, None]}
    return {"latitude": 51.5, "longitude": -0.099990845, "utc_offset_seconds": 0, "hourly": hourly} | changes


def base_table(**changes: Any) -> pa.Table:
    """Return the same hours as a Parquet table; a column that is ``None`` is omitted."""
    columns = {
        "latitude": [51.5, 51.5],
        "longitude": [-0.099990845, -0.099990845],
        "time": ["2022-01-01T00:00", "2022-01-01T01:00"],
        "temperature_2m": [4.2, None],
    }
    return pa.table({name: column for name, column in (columns | changes).items() if column is not None})
