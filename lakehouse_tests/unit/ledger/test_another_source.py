"""A source other than a Kafka topic works the same in plans, the ledger, gaps and the accounting."""

import json
from datetime import UTC, datetime

import pytest

from lakehouse.errors import LedgerError
from lakehouse.ingest.gaps import gap_commit, plan_next_of
from lakehouse.ledger.accounting import describe_entry, differences
from lakehouse.ledger.commit_infos import UnreadableMetadata, parse_metadata
from lakehouse.ledger.commits import Commit, Entry, Metrics
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.planning import Bounds
from lakehouse.ledger.positions import Progress, Range, SourceId
from lakehouse_tests.helpers.tables.lines import Lines

FOLDER = SourceId("lines", "first:/a")
NO_BOUNDS = Bounds()


@pytest.fixture
def lines() -> Lines:
    folder = Lines(FOLDER.identity)
    folder.write(0, *((number, b"{}") for number in range(3)))
    folder.write(7, (9, b"{}"))
    return folder


def merge(ledger: Ledger, lines: Lines, bounds: Bounds = NO_BOUNDS) -> Ledger:
    """Return the ledger after one more batch, whose commit is written and read back."""
    plan = plan_next_of(ledger, lines.read_state(), bounds)
    assert plan.gap is None
    read = {"ranges": plan.ranges, "progress": dict(plan.progress.positions), "read": plan.span}
    commit = ledger.next_commit("batch", "run").with_fields(stream=plan.stream, source=plan.source, **read)
    return add_commit(ledger, commit)


def add_commit(ledger: Ledger, commit: Commit) -> Ledger:
    parsed = parse_metadata(commit.model_dump_json())
    assert parsed == commit
    metrics = Metrics(source_rows=commit.read, inserted=commit.read)
    entry = Entry(commit.table_version + 1, datetime.now(UTC), parsed, metrics)
    return Ledger("uri", True, "id", entry.version, commit.number, entries=(entry, *ledger.entries))


@pytest.mark.invariant("1.1", "2.2", "7.9")
def test_a_batch_begins_where_the_ledger_ends(lines: Lines) -> None:
    ledger = merge(Ledger("uri"), lines, Bounds(max_records=2))
    assert ledger.progress == Progress(FOLDER, {0: 1, 7: 1})
    lines.write(8, (10, b"{}"))
    ledger = merge(ledger, lines)
    assert ledger.newest.commit.ranges == (Range(0, 1, 3), Range(7, 1, 1), Range(8, 0, 1))
    assert ledger.reached == {"lines:first:/a": {0: 3, 7: 1, 8: 1}}
    assert differences(ledger.entries) == []


@pytest.mark.invariant("1.10")
def test_a_commit_names_the_kind_and_the_identity_of_its_source(lines: Lines) -> None:
    metadata = json.loads(merge(Ledger("uri"), lines).newest.commit.model_dump_json())
    assert metadata["source"] == {"kind": "lines", "identity": "first:/a"}
    assert metadata["stream"] == "the folder"
    assert metadata["ranges"][0] == {"partition": 0, "start": 0, "end": 3}
    for changes in ({"source": metadata["source"] | {"epoch": 1}}, {"ranges": [metadata["ranges"][0] | {"epoch": 1}]}):
        assert isinstance(parse_metadata(json.dumps(metadata | changes)), UnreadableMetadata), "the field would be lost"


@pytest.mark.invariant("9.1", "9.6")
def test_records_that_are_gone_are_described_in_words_of_the_source_and_skipped(lines: Lines) -> None:
    ledger = merge(Ledger("uri"), lines)
    lines.write(0, *((number, b"{}") for number in range(3, 9)))
    lines.deleted[0] = 5
    del lines.files[7]
    plan = plan_next_of(ledger, lines.read_state(), NO_BOUNDS)
    assert plan.gap.ranges == (Range(0, 3, 5), Range(7, 1, 1))
    assert plan.gap.facts[1] == "Partition 7 no longer exists, and its records from position 1 on are gone"
    after_gap = add_commit(ledger, gap_commit(ledger, plan, "run"))
    assert "skipped positions that are gone, partition 0 3 to 5" in describe_entry(after_gap.entries[0])
    assert merge(after_gap, lines).progress == Progress(FOLDER, {0: 9})


@pytest.mark.invariant("9.1")
def test_a_folder_with_a_new_id_is_another_source_with_its_own_positions(lines: Lines) -> None:
    ledger = merge(Ledger("uri"), lines)
    lines.identity = "second"
    plan = plan_next_of(ledger, lines.read_state(), NO_BOUNDS)
    assert plan.gap.facts == (
        "Another source was merged: it was lines:first:/a and is lines:second; unmerged records of the old one are"
        " not available: partition 0 from position 3, partition 7 from position 1",
    )
    after_gap = merge(add_commit(ledger, gap_commit(ledger, plan, "run")), lines)
    assert after_gap.reached == {"lines:first:/a": {0: 3, 7: 1}, "lines:second": {0: 3, 7: 1}}
    assert differences(after_gap.entries) == []


def test_a_topic_with_the_id_of_a_folder_is_another_source() -> None:
    assert SourceId("kafka", "first:/a") != FOLDER == SourceId.parse(FOLDER.text)


@pytest.mark.parametrize("text", [None, "", "lines", "lines:", ":first"])
def test_a_text_without_a_kind_or_an_identity_is_not_a_source(text: str | None) -> None:
    with pytest.raises(LedgerError, match=r"is not a source: .* Restore the version of the table before it"):
        SourceId.parse(text)
