"""The metadata of a commit: its form has a version, and a newer form is never taken for a foreign commit."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pydantic import BaseModel

from lakehouse.errors import LedgerError
from lakehouse.ledger.commit_infos import UnreadableMetadata, entry_of, parse_metadata
from lakehouse.ledger.commit_values import Consumed, LastRecord, OtherSource, RecordOrder, Totals
from lakehouse.ledger.commits import VERSION, Commit, Metrics, Upkeep
from lakehouse.ledger.ledger import app_id, read_ledger
from lakehouse.ledger.positions import Range, SourceId

COMMIT = json.loads(Commit(kind="batch", number=1, attempt="a", table_version=0).model_dump_json())


def newer_metadata(**changes: Any) -> str:
    return json.dumps({**COMMIT, "metadata": VERSION + 1, **changes})


def table_with(folder: Path, *metadata: str) -> str:
    """Return a table with one commit for each metadata, numbered from 1."""
    uri = str(folder / "readings")
    write_deltalake(uri, pa.table({"id": [1]}))
    for number, text in enumerate(metadata, start=1):
        properties = CommitProperties(
            custom_metadata={"userMetadata": text}, app_transactions=[Transaction(app_id("readings"), number)]
        )
        merge = DeltaTable(uri).merge(pa.table({"id": [1]}), "s.id = t.id", "s", "t", commit_properties=properties)
        merge.when_matched_update_all().execute()
    return uri


@pytest.mark.invariant("1.10")
@pytest.mark.parametrize("whole", [True, False])
def test_a_commit_of_a_newer_lakehouse_stops_an_older_process(tmp_path, whole):
    uri = table_with(
        tmp_path, Commit(kind="batch", number=1, attempt="a", table_version=0).model_dump_json(), newer_metadata()
    )
    with pytest.raises(LedgerError, match=f"Version 2 was committed by a newer lakehouse .metadata {VERSION + 1}"):
        read_ledger(uri, "readings", whole=whole)


@pytest.mark.invariant("1.10")
@pytest.mark.parametrize("changes", [{"number": "seven"}, {"kind": "compaction"}, {"another": 1}])
def test_a_newer_commit_is_recognised_no_matter_what_else_it_contains(changes):
    metadata = parse_metadata(newer_metadata(**changes))
    assert isinstance(metadata, UnreadableMetadata) and metadata.metadata > VERSION


@pytest.mark.invariant("1.11")
@pytest.mark.parametrize("metadata", range(1, VERSION))
@pytest.mark.parametrize("kind", ["batch", "upkeep"])
def test_a_table_from_before_the_first_release_has_to_be_loaded_again(tmp_path, metadata, kind):
    uri = table_with(tmp_path, json.dumps(COMMIT | {"metadata": metadata, "kind": kind}))
    with pytest.raises(LedgerError, match=f"before 0.1.0 .metadata {metadata}; .* load the table again"):
        read_ledger(uri, "readings")


@pytest.mark.invariant("1.10")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"another": 1}, "another: "),
        ({"totals_before": {"another": 1}}, "totals_before.another: "),
        ({"number": "seven"}, "number: "),
        ({"kind": "upkeep"}, "run: "),
    ],
)
def test_unreadable_metadata_stops_a_process_and_is_newer_only_by_its_version(tmp_path, changes, problem):
    """An unknown field would be lost when the other fields are carried on."""
    text = json.dumps({name: value for name, value in COMMIT.items() if name != "run"} | changes)
    metadata = parse_metadata(text)
    assert (
        isinstance(metadata, UnreadableMetadata)
        and metadata.metadata <= VERSION
        and metadata.problem.startswith(problem)
    )
    with pytest.raises(LedgerError, match=f"commit of version 1 cannot be read .{problem}.*1.json") as raised:
        read_ledger(table_with(tmp_path, text), "readings")
    assert "newer" not in str(raised.value)


@pytest.mark.invariant("1.3")
@pytest.mark.parametrize(
    "metadata", ["", "text", "[1]", "3", "null", '{"kind": 1}', '{"metadata": 9}', '{"kind": "job", "job": 1}']
)
def test_metadata_of_another_program_is_foreign(metadata):
    assert parse_metadata(metadata) is None


def test_written_metadata_is_read_back():
    commit = Commit(kind="batch", number=1, attempt="a", table_version=0, source=SourceId("kafka", "c/t"))
    assert parse_metadata(commit.model_dump_json()) == commit
    assert parse_metadata(Upkeep(run="r").model_dump_json()) == Upkeep(run="r")


@pytest.mark.invariant("1.3")
@pytest.mark.parametrize(("kind", "counts"), [("derived", True), ("batch", True), ("load", True), ("replay", False)])
def test_only_derived_tables_batches_and_loads_append_and_their_rows_are_counted(kind, counts):
    metadata = Commit(kind=kind, number=1, attempt="a", table_version=0).model_dump_json()
    info = {"version": 1, "operation": "WRITE", "userMetadata": metadata, "operationMetrics": {"numOutputRows": "7"}}
    entry = entry_of(info)
    assert (entry.metrics if entry else None) == (Metrics(source_rows=7, inserted=7) if counts else None)
    without_rows = entry_of(info | {"operationMetrics": {"num_added_rows": "0"}})
    assert without_rows and without_rows.metrics == Metrics()


def field_names(model: type[BaseModel]) -> str:
    return " ".join(model.model_fields)


@pytest.mark.invariant("1.10")
def test_the_form_of_version_19_is_unchanged():
    """A different form needs a new version: raise ``VERSION``, and correct this test."""
    assert VERSION == 19
    assert field_names(Upkeep) == "metadata kind run"
    assert field_names(Commit) == (
        "metadata kind number attempt table_version follows rows_version declaration meaning run stream source ranges"
        " progress reached left_out last_records versions_before other_sources undone_sources awaited outdated gap"
        " read empty rows_read filtered rejected superseded late times_back rounded equal_versions erased"
        " deletes_without_row corrected withdrawn totals_before snapshot_position snapshot_end origins truncate"
        " purged consumed consumed_tables deletes_table rejected_table folder reconciled unaccounted accepted"
        " reason"
    )
    assert field_names(Totals) == (
        "batches read empty rows_read filtered erased rejected superseded rounded equal_versions inserted updated"
        " deleted deletes_without_row stale times_back"
    )
    assert [field.name for field in fields(SourceId)] == ["kind", "identity"]
    assert [field.name for field in fields(Range)] == ["partition", "start", "end"]
    assert field_names(Consumed) == "table_id version commit"
    assert field_names(OtherSource) == "stream progress left_out last_records"
    assert field_names(LastRecord) == "position time checksum greatest_time caught_up"
    assert field_names(RecordOrder) == "version version_column source partition position sequence time"
