"""``lakehouse peek`` of records with many rows: few of them are printed, and all are in the JSON."""

import json
from pathlib import Path
from uuid import uuid4

import pytest

from lakehouse.cli import main
from lakehouse.kafka import Record

TABLE = """
from lakehouse import Column, StreamTable
items = StreamTable("items", "items", "", [Column("sku", "STRING", "")], [], rows_from="items")
"""


def value(first: int, count: int) -> bytes:
    """A record with rows, of which every fifth is rejected."""
    rows = [{"sku": number if number % 5 == 4 else f"s{number}"} for number in range(first, first + count)]
    return json.dumps({"items": rows}).encode()


def test_only_the_first_rows_of_a_record_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / f"lake_{uuid4().hex}"
    folder.mkdir()
    (folder / "items.py").write_text(TABLE)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", str(folder))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    records = [Record(0, offset, 0, None, text) for offset, text in enumerate((value(0, 500), value(600, 4)))]
    monkeypatch.setattr("lakehouse.kafka.newest_records", lambda *_: records)
    assert main.run(["peek", "items", "--json"]) == main.DONE
    assert len(json.loads(capsys.readouterr().out)["records"]) == 504
    assert main.run(["peek", "items"]) == main.DONE
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines if "sku = " in line] == [
        "s0",
        "s1",
        "s2",
        "s600",
        "s601",
        "s602",
        "s603",
    ]
    assert "497 more rows, 100 of them rejected: --json shows them" in " ".join(lines)
