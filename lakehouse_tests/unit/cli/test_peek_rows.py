"""``lakehouse peek`` of records with many rows: few of them are printed, and all are in the JSON."""

import json
from pathlib import Path

import pytest

from lakehouse.kafka import Record
from lakehouse_tests.helpers.commands import failure_of, notices_of, output_of, read_json_output
from lakehouse_tests.helpers.declaration_files import declare

TABLE = """
from lakehouse import Column, ElementIndex, StreamTable
items = StreamTable("items", "items", "", [Column("sku", "STRING", "")], [], rows_from="items")
"""


def value(first: int, count: int) -> bytes:
    """A record with rows, of which every fifth is rejected."""
    rows = [{"sku": number if number % 5 == 4 else f"s{number}"} for number in range(first, first + count)]
    return json.dumps({"items": rows}).encode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for declarations."""
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    return declare(tmp_path, monkeypatch)


def set_records(monkeypatch: pytest.MonkeyPatch, *values: bytes) -> None:
    records = [Record(0, offset, 0, None, text) for offset, text in enumerate(values)]
    monkeypatch.setattr("lakehouse.kafka.newest_records", lambda *_: records)


INDEX = ', Column("place", "INT", "", required=True, source=ElementIndex())'


@pytest.mark.parametrize(
    ("options", "is_warned"), [(("", '"sku"'), True), (("", ""), False), ((INDEX, '"sku", "place"'), False)]
)
def test_two_rows_of_one_record_with_the_same_key_are_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, str], is_warned: bool
) -> None:
    text = TABLE.replace('"sku", "STRING", ""', '"sku", "STRING", "", required=True')
    (folder / "items.py").write_text(text.replace(")], []", f"){options[0]}], [{options[1]}]"))
    set_records(monkeypatch, value(0, 2), value(0, 2), b'{"items": [{"sku": "a"}, {"sku": 1}, {"sku": "a"}]}')
    notice = notices_of("peek", "items", "--json")
    assert ("Two rows of one record have the same key (sku = a): only one" in notice) is is_warned


def test_only_the_first_rows_of_a_record_are_printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "items.py").write_text(TABLE)
    set_records(monkeypatch, value(0, 500), value(600, 4))
    assert len(read_json_output("peek", "items")["records"]) == 504
    lines = output_of("peek", "items").splitlines()
    assert " ".join(line.split()[-1] for line in lines if "sku = " in line) == "s0 s1 s2 s600 s601 s602 s603"
    assert "497 more rows, 100 of them rejected: --json shows them" in " ".join(lines)


VERSIONED = """
from lakehouse import Column, StreamTable, Version
columns = [Column("id", "INT", "", required=True), Column("n", "INT", "")]
items = StreamTable("items", "items", "", columns, ["id"], version={})
"""


@pytest.mark.parametrize(("nulls", "word"), [("oldest", "older"), ("newest", "newer")])
def test_rows_without_a_version_are_named_with_what_they_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, nulls: str, word: str
) -> None:
    (folder / "items.py").write_text(VERSIONED.format(f'Version("n", nulls="{nulls}")'))
    set_records(monkeypatch, b'{"id": 1}', b'{"id": 2, "n": 3}', b'{"id": 3, "n": null}')
    notice = notices_of("peek", "items", "--json")
    assert f"Rows whose version is NULL: 2 (n). Each is {word} than every row of its key with a version." in notice


def test_plan_names_a_version_that_may_be_null_without_a_choice(folder: Path) -> None:
    (folder / "items.py").write_text(VERSIONED.format('"n"'))
    notice = failure_of("plan", "--quick")
    assert "version n may be NULL, and nothing says what a record without a version is" in notice
