"""``lakehouse rejected``: what it lists, and that no content of a record can mislead the reader."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse.cli.peek import _decode_record
from lakehouse.declaration import Column, StreamTable
from lakehouse.decoding.fields import TIMELESS
from lakehouse.decoding.rules import Rules
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import Record, timeless_detail
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.positions import SourceId
from lakehouse_tests.helpers.commands import misuse_of, output_of, read_json_output
from lakehouse_tests.helpers.declaration_files import declare

HOSTILE = "\x1b[2J[red]rm -rf[/] \u202egnp.exe\nversion 9, 0 rejected\r\x9b1m".encode() + b"\xff\\"
AT = datetime(2026, 5, 1, 12, tzinfo=UTC)
HERE = SourceId("kafka", "c/t'\\")
SCHEMA = pa.schema(
    [
        (
            "position",
            pa.struct(
                [
                    ("source", pa.string()),
                    ("partition", pa.int32()),
                    ("position", pa.int64()),
                    ("sequence", pa.int64()),
                ]
            ),
        ),
        ("time", pa.timestamp("us", tz="UTC")),
        *[(name, pa.binary()) for name in ("key", "value")],
        *[(name, pa.string()) for name in ("reason", "detail")],
        ("resolved_number", pa.int64()),
        ("resolved_table_id", pa.string()),
    ]
)


def row(offset: int, reason: str = "truncated", **changes: Any) -> dict[str, Any]:
    position = {"source": changes.pop("source", HERE.text), "partition": changes.pop("partition", 0)}
    defaults = dict(time=AT, key=None, value=b"{", detail="cut", resolved_number=None, resolved_table_id=None)
    return {**defaults, "position": {**position, "position": offset}, "reason": reason, **changes}


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table merged up to offset 10 of partition 0, and its rejected records."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    uri = tmp_path / "tables" / "temperatures"
    write_deltalake(str(uri), pa.table({"id": [1]}))
    commit = Commit(kind="batch", number=1, attempt="a", table_version=0, source=HERE, progress={0: 10})
    properties = CommitProperties(custom_metadata={"userMetadata": commit.model_dump_json()})
    merge = DeltaTable(str(uri)).merge(pa.table({"id": [1]}), "s.id = t.id", "s", "t", commit_properties=properties)
    merge.when_matched_update_all().execute()
    return tmp_path / "tables"


def store(tables: Path, *rows: dict[str, Any]) -> None:
    write_deltalake(str(tables / "temperatures_rejected"), pa.Table.from_pylist(list(rows), SCHEMA))


def list_rejected(*options: str) -> dict[str, Any]:
    (table,) = read_json_output("rejected", *options)
    return table


def test_each_reason_has_a_count_and_its_newest_records(tables: Path) -> None:
    store(tables, *map(row, range(5)), row(7, "late", key=b"k", value=None))
    table = list_rejected("--limit", "2")
    assert table["rejected"] == 6
    reasons = {reason["reason"]: reason for reason in table["reasons"]}
    assert list(reasons) == ["truncated", "late"]
    assert [sample["offset"] for sample in reasons["truncated"]["samples"]] == [4, 3]
    (late,) = reasons["late"]["samples"]
    assert (late["time"], late["key"], late["value"]) == ("2026-05-01T12:00:00Z", "k", None)
    assert [reason["reason"] for reason in list_rejected("--reason", "late")["reasons"]] == ["late"]
    assert [reason["samples"] for reason in list_rejected("--limit", "0")["reasons"]] == [[], []]


@pytest.mark.invariant("8.6")
def test_pending_and_resolved_records_are_not_listed(tables: Path) -> None:
    """Pending: at or beyond the progress of its topic, or in a partition without progress."""
    pending = [row(10), row(0, partition=1)]
    table_id = str(DeltaTable(tables / "temperatures").metadata().id)
    resolved_rows = row(8, resolved_number=1, resolved_table_id=table_id)
    store(tables, row(9), *pending, resolved_rows, row(99, source="kafka:c/the one before"))
    (reason,) = list_rejected()["reasons"]
    assert sorted(sample["offset"] for sample in reason["samples"]) == [9, 99]


@pytest.mark.parametrize(("source", "noun"), [("files:abc", "file"), ("table:abc", "version")])
def test_a_record_of_a_file_or_of_a_version_has_its_place_in_it(tables: Path, source: str, noun: str) -> None:
    store(tables, row(2**36 * 3 + 7, source=source))
    (reason,) = list_rejected()["reasons"]
    assert [(sample[noun], sample["place"]) for sample in reason["samples"]] == [(3, 7)]


@pytest.mark.invariant("8.5")
@pytest.mark.parametrize("is_same_table", [False, True], ids=["a former table", "a missing commit"])
def test_a_record_that_was_resolved_in_what_no_longer_exists_is_listed(tables: Path, is_same_table: bool) -> None:
    """The merged table was recreated, or restored from a backup: then it has the same id, and uses numbers again."""
    table_id = str(DeltaTable(tables / "temperatures").metadata().id) if is_same_table else "the table before"
    store(tables, row(8, resolved_number=45 if is_same_table else 1, resolved_table_id=table_id))
    (reason,) = list_rejected()["reasons"]
    assert [sample["offset"] for sample in reason["samples"]] == [8]


@pytest.mark.invariant("13.5")
def test_the_content_of_a_record_cannot_mislead(tables: Path) -> None:
    store(tables, row(1, value=HOSTILE, key=b"[/]", detail="a\x1bb\nc"))
    output = output_of("rejected")
    assert all(character.isprintable() for line in output.split("\n") for character in line)
    joined_output = "".join(output.split())
    assert "\\x1b[2J[red]rm-rf[/]\\u202egnp.exe\\nversion9,0rejected\\r\\x9b1m\\xff" in joined_output
    (sample,) = list_rejected()["reasons"][0]["samples"]
    assert sample["value"].startswith("\\x1b[2J[red]rm -rf[/] \\u202egnp.exe\\nversion 9")
    assert sample["detail"] == "a\\x1bb\\nc"


def test_a_long_value_is_cut(tables: Path) -> None:
    store(tables, row(1, value=b"x" * 100_000))
    (sample,) = list_rejected()["reasons"][0]["samples"]
    assert sample["value"] == "x" * 200 + "…"


def test_without_a_table_there_are_no_rejected_records() -> None:
    assert output_of("rejected") == "temperatures: no rejected records.\n"


def test_resolved_records_are_counted_next_to_open_ones(tables: Path) -> None:
    """Pending records are neither."""
    table_id = str(DeltaTable(tables / "temperatures").metadata().id)
    resolved_rows = [row(offset, resolved_number=1, resolved_table_id=table_id) for offset in (3, 4, 5)]
    store(tables, row(9), row(10), *resolved_rows)
    assert list_rejected()["resolved"] == 3
    assert "temperatures: 1 rejected record. Resolved since: 3." in output_of("rejected")
    assert "Rejected records: 1 open (see: lakehouse rejected temperatures), 3 resolved." in output_of("status")
    (status,) = read_json_output("status")["tables"]
    assert status["rejected"] == {"open": 1, "resolved": 3}


def test_status_has_no_counts_of_rejected_records_that_only_spark_can_read(tables: Path) -> None:
    store(tables, row(9))
    first = tables / "temperatures_rejected" / "_delta_log" / f"{0:020d}.json"
    feature = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **feature}}
    first.write_text("\n".join(json.dumps(protocol if "protocol" in action else action) for action in actions))
    (status,) = read_json_output("status")["tables"]
    assert status["rejected"] is None


@pytest.mark.invariant("8.7")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_record_whose_time_is_beyond_any_timestamp_is_listed_without_a_time(tables, options):
    detail = timeless_detail(2**63 - 1)
    store(tables, row(1, TIMELESS, time=None, detail=detail), row(2, TIMELESS, time=None, detail=detail))
    output = " ".join(output_of("rejected", "temperatures", "--reason", TIMELESS, *options).split())
    assert "9223372036854775807" in output and TIMELESS in output


def test_a_record_with_a_time_in_microseconds_is_listed_with_its_time(tables):
    """Python has no times after year 9999."""
    records = pa.Table.from_pylist([row(1)], SCHEMA)
    records = records.set_column(
        1, SCHEMA.field("time"), pa.array([1_700_000_000_000_000_000], SCHEMA.field("time").type)
    )
    write_deltalake(str(tables / "temperatures_rejected"), records)
    assert "55840-11-08" in output_of("rejected", "temperatures")


@pytest.mark.invariant("8.7")
def test_peek_shows_that_a_record_whose_time_is_beyond_any_timestamp_is_rejected():
    record = Record(0, 1, 2**63 - 1, None, b"{}")
    (fields,) = _decode_record(record, Rules(temperatures.fields, None))
    assert (fields["row"], fields["reason"], fields["detail"]) == (None, TIMELESS, timeless_detail(2**63 - 1))


def test_peek_shows_each_row_of_a_record_with_many_rows() -> None:
    columns = [Column("sku", "STRING", "Article.")]
    rules = StreamTable("items", "items", "Items.", columns, [], rows_from="items").rules()
    value = b'{"items": [{"sku": "a"}, {"sku": 7}]}'
    first, second = _decode_record(Record(0, 1, 0, None, value), rules)
    assert (first["index"], first["row"]) == (0, {"sku": "a"})
    assert (second["index"], second["row"], second["reason"]) == (1, None, "wrong_type")
    (whole,) = _decode_record(Record(0, 1, 0, None, b"{}"), rules)
    assert (whole["index"], whole["row"], whole["reason"]) == (None, None, "empty")


def test_the_option_reason_accepts_reasons_of_the_formats_and_rules_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "from dataclasses import dataclass\n"
        "from lakehouse import Column, Reject, StreamTable\n"
        "from lakehouse_tests.helpers.barred_format import Barred\n"
        "@dataclass(frozen=True)\n"
        "class Bent(Barred):\n"
        "    reasons = ('bent',)\n"
        "columns = [Column('id', 'INT', '', required=True)]\n"
        "rules = [Reject('no_id', when='id < 0')]\n"
        "visits = StreamTable('visits', 'visits', '', columns, ['id'], format=Bent(('id',)), rejects=rules)\n"
    )
    declare(tmp_path, monkeypatch, visits=text)
    for reason in ("bent", "no_id"):
        output_of("rejected", "visits", "--reason", reason)
    assert "unreadable_file, bent, no_id" in misuse_of("rejected", "visits", "--reason", "rain")


def test_the_option_reason_accepts_the_reason_of_a_rule_that_is_no_longer_declared(tables: Path) -> None:
    store(tables, row(1, "no_rate"))
    (reason,) = list_rejected("--reason", "no_rate")["reasons"]
    assert (reason["reason"], reason["count"]) == ("no_rate", 1)
