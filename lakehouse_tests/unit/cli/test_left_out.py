"""What a table left out on purpose is a figure of its own in each command, without Spark."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli import merge_verbs, peek
from lakehouse.cli.facts import table_rows
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ingest import batches
from lakehouse.ingest.replay import find_merged_ranges, replay
from lakehouse.kafka import Record, TopicState
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import Plan, Range, SourceId
from lakehouse.operations import status as status_module
from lakehouse.operations.status import commit_fields
from lakehouse.settings import Settings
from lakehouse.sources import table_sources
from lakehouse.storage.table_context import TableContext, merged_ledger
from lakehouse_tests.helpers.commands import lakehouse_says, output_of, read_json_output
from lakehouse_tests.helpers.sensors import MERGED, write_log
from lakehouse_tests.helpers.tables.tables import redeclare

SOURCE = SourceId("kafka", "c/t")
STATE = TopicState("temperatures", SOURCE, {0: 100, 1: 0}, {0: 900, 1: 300})
LEFT_OUT = (Range(0, 100, 400), Range(1, 0, 300))
TEXT = "Left out on purpose, before the start of the table: 600 offsets (0:100-400 1:0-300)."
pytestmark = pytest.mark.invariant("2.6")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home whose table has recorded its start, and merged nothing yet."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    home_settings = Settings(home=tmp_path, _env_file=None)
    progress = {0: 400, 1: 300}
    commit = Commit(**{**MERGED, "kind": "start"}, source=SOURCE, progress=progress, left_out=LEFT_OUT)
    write_log(Path(home_settings.table_uri("temperatures"), "_delta_log"), commit)
    monkeypatch.setattr(status_module, "bootstrap_servers", lambda _: "127.0.0.1:1")
    monkeypatch.setattr(table_sources, "read_topic", lambda *_, **__: STATE)
    monkeypatch.setattr(table_sources, "read_topics", lambda *_, **__: [STATE])
    return home_settings


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("command", ["status", "audit"])
def test_a_command_shows_what_was_left_out(command: str) -> None:
    assert TEXT in " ".join(output_of(command).split())
    document = read_json_output(command)
    (table,) = document["tables"] if command == "status" else document
    assert table["left_out"] == {"0": [100, 400], "1": [0, 300]}
    if command == "status":
        assert (table["lag"], table["loss"]) == (500, None), "it does not wait, and is not lost"
    else:
        assert all(finding["passed"] for finding in table["findings"])


def test_only_the_commit_that_recorded_it_has_it_in_its_row(settings: Settings) -> None:
    ledger = merged_ledger(settings, temperatures)
    (entry,) = ledger.entries
    batch = replace(entry, commit=ledger.next_commit("batch", "run"))
    assert batch.commit.left_out == LEFT_OUT
    rows = table_rows([commit_fields(entry), commit_fields(batch)])
    assert [row["left_out"] for row in rows] == ["0:100-400 1:0-300", ""]
    assert "left_out" not in table_rows([commit_fields(batch)])[0]


def test_the_status_of_a_new_table_counts_its_lag_from_the_start(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(status_module, "merged_ledger", lambda *_: Ledger("t"))
    table = redeclare(temperatures, start={0: 400, 1: 300})
    assert [part.lag for part in status_module.status(settings, table).partitions] == [500, 0]
    wrong_table = redeclare(temperatures, start={0: 901})
    assert "ends at offset 900" in (status_module.status(settings, wrong_table).problem or "")


def test_a_dry_run_shows_what_the_first_merge_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan("temperatures", SOURCE, (Range(0, 400, 900), Range(1, 300, 300)), left_out=LEFT_OUT)
    monkeypatch.setattr(merge_verbs, "broker", lambda *_: nullcontext())
    monkeypatch.setattr(batches, "plan_next", lambda *_: plan)
    output = lakehouse_says("merge", "temperatures", "--dry-run")
    text = "temperatures is new and has a start: left out 600 offsets on purpose, partition 0 100 to 400,"
    assert text in " ".join(output.err.split())
    assert "would read 500 offsets" in " ".join(output.out.split())


def test_peek_shows_which_records_are_before_the_start(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr("lakehouse.kafka.read_topic", lambda *_: STATE)
    left_out = peek._find_left_out(settings, temperatures)
    rules = temperatures.rules()
    reasons = {
        (partition, offset): fields["reason"]
        for partition, offset in ((0, 399), (0, 400), (1, 0))
        for fields in peek._decode_record(Record(partition, offset, 0, None, b"x"), rules, left_out)
    }
    assert reasons == {(0, 399): "left_out", (0, 400): "invalid_json", (1, 0): "left_out"}
    fields: dict[str, Any] = {**dict.fromkeys(("partition", "offset", "time", "key", "value")), "row": None}
    row = peek._record_row({**fields, "reason": "left_out"})
    assert row["becomes"] == "no row: it is before the start of the table"
    table = replace(temperatures, base=None, checks=[], rows_from="items")
    (fields,) = peek._decode_record(Record(0, 399, 0, None, b"x"), table.rules(), left_out)
    assert (fields["reason"], fields["index"]) == ("left_out", None)
    (fields,) = peek._decode_record(Record(0, 400, 0, None, b'{"items": []}'), table.rules(), left_out)
    assert (fields["reason"], fields["index"]) == ("empty", None)
    recreated_state = replace(STATE, source=SourceId("kafka", "c/u"))
    monkeypatch.setattr("lakehouse.kafka.read_topic", lambda *_: recreated_state)
    assert peek._find_left_out(settings, temperatures) == ()


@pytest.mark.invariant("3.4")
def test_what_was_left_out_is_not_replayed(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    no_session: Any = None
    context = TableContext(no_session, settings, temperatures)
    monkeypatch.setattr(table_sources, "read_topic", lambda *_, **__: STATE)
    monkeypatch.setattr("lakehouse.ingest.replay.prepare", lambda _: None)
    assert find_merged_ranges(context)[1] == {0: Range(0, 400, 400), 1: Range(1, 300, 300)}
    expired_state = replace(STATE, earliest={0: 350, 1: 0})
    monkeypatch.setattr(table_sources, "read_topic", lambda *_, **__: expired_state)
    assert find_merged_ranges(context)[1][0] == Range(0, 400, 400)
    with pytest.raises(Exception, match=r"Offsets 350 to 400 of partition 0 cannot be replayed.*before the start that"):
        replay(context, [Range(0, 350, 400)])
