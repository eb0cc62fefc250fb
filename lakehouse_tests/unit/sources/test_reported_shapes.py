"""Inputs that people reported give the right rows: files of objects that follow one another."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakehouse.declaration import Column, Files, StreamTable, Time
from lakehouse.decoding.files.contents import chunk_hashes
from lakehouse.decoding.files.reader import FileForm, FilePart, read_part
from lakehouse_tests.helpers.places import ROOT

CASES = ROOT.parent / "shared" / "data" / "cases"
FIREHOSE = CASES / "05-firehose-concatenated-json"


def records_of(folder: Path, files: Files) -> list[bytes]:
    """The records of all files below a folder, in the order of their names."""
    records: list[bytes] = []
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        part = FilePart(str(file.parent), file.name, chunk_hashes(str(file.parent), file.name))
        for batch in read_part(part, FileForm(each=files.each)):
            assert batch.fault is None
            records += batch.values.to_pylist()
    return records


@pytest.mark.skipif(not FIREHOSE.is_dir(), reason=f"the files of Firehose are not at {FIREHOSE}")
def test_objects_of_firehose_are_rows() -> None:
    expected = json.loads((FIREHOSE / "expected.json").read_text())
    source = Files("clicks", each="element")
    clicks = StreamTable(
        name="clicks",
        doc="Clicks.",
        source=source,
        key=["event_id"],
        columns=[
            Column("event_id", "STRING", required=True, doc="Its id."),
            Column("at", "TIMESTAMP", required=True, written=Time("%Y-%m-%dT%H:%M:%SZ"), doc="When it happened."),
            Column("type", "STRING", required=True, doc="What happened."),
            Column("page", "STRING", source=("payload", "page"), doc="Where."),
            Column("total", "DECIMAL(10,2)", source=("payload", "total"), doc="Its price."),
            Column(
                "items", "ARRAY<STRUCT<sku: STRING, n: BIGINT>>", source=("payload", "items"), doc="What was bought."
            ),
        ],
    )
    records = records_of(FIREHOSE / "files", source)
    assert len(records) == expected["records"]
    rows = {row["event_id"]: row for row in map(clicks.decode, records)}
    assert [as_expected(row) for _, row in sorted(rows.items())] == expected["rows"]


def as_expected(row: dict[str, Any]) -> dict[str, Any]:
    total: Decimal | None = row["total"]
    return {
        **row,
        "at": f"{row['at']:%Y-%m-%d %H:%M:%S}",
        "total": None if total is None else f"{total:.2f}",
        "items": len(row["items"] or ()),
    }
