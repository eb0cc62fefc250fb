"""A source that is no topic of Kafka goes through plan, ledger, gap and accounts as one does."""

import json
from datetime import UTC, datetime

import pytest

from lakehouse.errors import LedgerError
from lakehouse.ingest.gaps import gap_commit, plan_next_of
from lakehouse.ledger.accounting import sentence
from lakehouse.ledger.commits import Commit, Entry, Metrics, NotUnderstood, said_in
from lakehouse.ledger.differences import differences
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Bounds, Progress, Range, SourceId
from lakehouse_tests.helpers.tables.lines import Lines

pytestmark = pytest.mark.invariant(1, 2, 9)

FIRST = SourceId("lines", "first:/a")
ALL = Bounds()


@pytest.fixture
def lines() -> Lines:
    folder = Lines(FIRST.identity)
    folder.write(0, *((number, b"{}") for number in range(3)))
    folder.write(7, (9, b"{}"))
    return folder


def merged(ledger: Ledger, lines: Lines, bounds: Bounds = ALL) -> Ledger:
    """The ledger after one more batch, whose commit was written and read back."""
    plan = plan_next_of(ledger, lines.look(), bounds)
    assert plan.gap is None
    read = {"ranges": plan.ranges, "progress": dict(plan.progress.positions), "read": plan.span}
    return then(ledger, ledger.next_commit("batch", "run").with_fields(stream=plan.stream, source=plan.source, **read))


def then(ledger: Ledger, said: Commit) -> Ledger:
    written = said_in(said.model_dump_json())
    assert written == said
    counted = Metrics(source_rows=said.read, inserted=said.read)
    entry = Entry(said.table_version + 1, datetime.now(UTC), written, counted)
    return Ledger("uri", True, "id", entry.version, said.number, entries=(entry, *ledger.entries))


def test_lines_are_read_on_from_where_the_ledger_ends(lines: Lines) -> None:
    ledger = merged(Ledger("uri"), lines, Bounds(max_records=2))
    assert ledger.progress == Progress(FIRST, {0: 1, 7: 1})
    lines.write(8, (10, b"{}"))
    ledger = merged(ledger, lines)
    assert ledger.newest.commit.ranges == (Range(0, 1, 3), Range(7, 1, 1), Range(8, 0, 1))
    assert ledger.reached == {"lines:first:/a": {0: 3, 7: 1, 8: 1}}
    assert differences(ledger.entries) == []


def test_a_commit_names_the_kind_and_the_identity_of_its_source(lines: Lines) -> None:
    written = json.loads(merged(Ledger("uri"), lines).newest.commit.model_dump_json())
    assert written["source"] == {"kind": "lines", "identity": "first:/a"}
    assert written["stream"] == "the folder"
    assert written["ranges"][0] == {"partition": 0, "start": 0, "end": 3}
    for changes in ({"source": written["source"] | {"epoch": 1}}, {"ranges": [written["ranges"][0] | {"epoch": 1}]}):
        assert isinstance(said_in(json.dumps(written | changes)), NotUnderstood), "it would be dropped"


def test_what_is_gone_is_told_in_words_of_the_source_and_stepped_over(lines: Lines) -> None:
    ledger = merged(Ledger("uri"), lines)
    lines.write(0, *((number, b"{}") for number in range(3, 9)))
    lines.deleted[0] = 5
    del lines.files[7]
    plan = plan_next_of(ledger, lines.look(), ALL)
    assert plan.gap.ranges == (Range(0, 3, 5), Range(7, 1, 1))
    assert plan.gap.facts[1] == "Partition 7 is gone, with its records from position 1 on"
    behind = then(ledger, gap_commit(ledger, plan, "run"))
    assert "positions that are gone are stepped over, partition 0 3 to 5" in sentence(behind.entries[0])
    assert merged(behind, lines).progress == Progress(FIRST, {0: 9})


def test_a_folder_of_another_id_is_another_source_whose_positions_begin_again(lines: Lines) -> None:
    ledger = merged(Ledger("uri"), lines)
    lines.identity = "second"
    plan = plan_next_of(ledger, lines.look(), ALL)
    assert plan.gap.facts == (
        "Another source was merged: it was lines:first:/a and is lines:second; what was not merged of it is not here:"
        " partition 0 from position 3, partition 7 from position 1",
    )
    behind = merged(then(ledger, gap_commit(ledger, plan, "run")), lines)
    assert behind.reached == {"lines:first:/a": {0: 3, 7: 1}, "lines:second": {0: 3, 7: 1}}
    assert differences(behind.entries) == []


def test_a_topic_whose_id_is_that_of_a_folder_is_another_source() -> None:
    assert SourceId("kafka", "first:/a") != FIRST == SourceId.parse(FIRST.text)


@pytest.mark.parametrize("text", [None, "", "lines", "lines:", ":first"])
def test_a_text_without_a_kind_or_an_identity_names_no_source(text: str | None) -> None:
    with pytest.raises(LedgerError, match=r"names no source: .* RESTORE"):
        SourceId.parse(text)
