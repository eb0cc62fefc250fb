"""Inputs that people reported give the right rows: objects that follow one another, and spreadsheets."""

import gzip
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakehouse.declaration import Column, Files, Regex, StreamTable, Time
from lakehouse.decoding.files.contents import chunk_hashes
from lakehouse.decoding.files.reader import FilePart, read_part
from lakehouse.errors import DeclarationError
from lakehouse.sources.files.listing import form_of
from lakehouse_tests.helpers.decoding.both_paths import rows_twice
from lakehouse_tests.helpers.places import ROOT

CASES = ROOT.parent / "shared" / "data" / "cases"
FIREHOSE = CASES / "05-firehose-concatenated-json"


def records_of(folder: Path, files: Files) -> list[bytes]:
    """The records of all files below a folder, in the order of their names."""
    records: list[bytes] = []
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        part = FilePart(str(file.parent), file.name, chunk_hashes(str(file.parent), file.name))
        for batch in read_part(part, form_of(files, "utf-8")):
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


SHEET = b"Sales 2026;;\r\nmade on 2026-03-01;;\r\n\r\nday;amount;who\r\n1;10,5;Ann\r\n2;20;Bob\r\nTotal;30,5;\r\n;;\r\n"


@pytest.mark.parametrize(
    ("totals", "records"), [(2, [b"1;10,5;Ann", b"2;20;Bob"]), (0, [b"1;10,5;Ann", b"2;20;Bob", b"Total;30,5;", b";;"])]
)
def test_lines_around_the_records_of_a_spreadsheet_are_left_out(
    tmp_path: Path, totals: int, records: list[bytes]
) -> None:
    (tmp_path / "sheet.csv").write_bytes(SHEET)
    files = Files("sheets", header="day;amount;who", title_lines=2, total_lines=totals)
    assert records_of(tmp_path, files) == records


@pytest.mark.parametrize("size", range(0, 40, 3))
def test_the_last_lines_are_left_out_however_the_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("lakehouse.decoding.files.lines.PIECE", size + 1)
    (tmp_path / "a.txt").write_bytes(b"".join(b"line %d\n" % number for number in range(7)))
    assert records_of(tmp_path, Files("a", title_lines=2, total_lines=3)) == [b"line 2", b"line 3"]
    assert records_of(tmp_path, Files("a", title_lines=5, total_lines=5)) == []


def test_a_file_that_ends_early_keeps_the_lines_before_its_end(tmp_path: Path) -> None:
    lines = b"".join(b"line %d %s\n" % (number, os.urandom(200).hex().encode()) for number in range(2_000))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(lines)[:-100_000])
    part = FilePart(str(tmp_path), "a.txt.gz", chunk_hashes(str(tmp_path), "a.txt.gz"))
    batches = [*read_part(part, form_of(Files("a", total_lines=3), "utf-8"))]
    read = [value for batch in batches[:-1] for value in batch.values.to_pylist()]
    assert batches[-1].fault and read == lines.splitlines()[: len(read)]
    whole = [*read_part(part, form_of(Files("a"), "utf-8"))]
    assert read == [value for batch in whole[:-1] for value in batch.values.to_pylist()]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"title_lines": -1}, "title_lines is -1"),
        ({"total_lines": 1, "each": "element"}, "total_lines is for lines, but each is 'element'"),
    ],
)
def test_lines_that_cannot_be_left_out_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(DeclarationError, match=problem):
        StreamTable(
            name="sheets", doc="", source=Files("sheets", **options), columns=[Column("a", "STRING", doc="")], key=[]
        )


ACCESS_LOG = CASES / "07-s3-access-logs"
OTHER, QUOTED = r"\S+", '(?:"[^"]*"|-)'
S3_ACCESS_LOG = (
    rf"{OTHER} {OTHER} \[(?P<at>[^\]]+)\] (?P<remote_ip>\S+) (?P<requester>\S+) (?P<request_id>\S+) (?P<operation>\S+)"
    r' (?P<key>\S+) (?:"(?P<request_uri>[^"]*)"|-) (?P<status>\S+) (?P<error_code>\S+) (?P<bytes_sent>\S+)'
    rf' (?P<object_size>\S+) (?P<total_ms>\S+) {OTHER} (?:"(?P<referer>[^"]*)"|-) (?:"(?P<user_agent>.*)"|-) {OTHER}'
    rf"(?: {OTHER} {OTHER} {OTHER} {OTHER} {OTHER} (?P<tls>\S+).*| .*)?"
)


@pytest.mark.skipif(not ACCESS_LOG.is_dir(), reason=f"the access logs are not at {ACCESS_LOG}")
def test_lines_of_access_logs_of_s3_are_rows() -> None:
    expected = json.loads((ACCESS_LOG / "expected.json").read_text())
    types = {"status": "INT", "bytes_sent": "BIGINT", "object_size": "BIGINT", "total_ms": "BIGINT"}
    names = [name for name in expected["rows"][0] if name != "at"]
    access = StreamTable(
        name="access",
        doc="Requests.",
        source=Files("access"),
        format=Regex(S3_ACCESS_LOG),
        columns=[
            Column("at", "TIMESTAMP", required=True, written=Time("%d/%b/%Y:%H:%M:%S %z"), doc="When it came."),
            *(Column(name, types.get(name, "STRING"), null_values=["-"], doc=name) for name in names),
        ],
        key=[],
    )
    records = records_of(ACCESS_LOG / "files", Files("access"))
    verdicts = rows_twice(records, access.rules())
    rows = [
        {"at": f"{verdict['at']:%Y-%m-%d %H:%M:%S}", **{name: verdict[name] for name in names}}
        for verdict in verdicts
        if verdict["_reason"] is None
    ]
    assert [verdict["_reason"] for verdict in verdicts if verdict["_reason"]] == ["no_match"]
    assert rows == expected["rows"]


@pytest.mark.parametrize(("text", "titles"), [("a;b\n1;2\n", 3), ("a;b\n1;2\n", 2), ("a;b\n1;2\n", 1), ("T\n", 2)])
def test_a_file_with_fewer_titles_is_a_rejected_record(tmp_path: Path, text: str, titles: int) -> None:
    (tmp_path / "sheet.csv").write_text(text)
    part = FilePart(str(tmp_path), "sheet.csv", chunk_hashes(str(tmp_path), "sheet.csv"))
    (batch,) = read_part(part, form_of(Files("sheets", header="a;b", title_lines=titles), "utf-8"))
    assert batch.fault is not None
    assert "title lines, and the header" in batch.fault or "expected the header 'a;b'" in batch.fault
