"""``lakehouse status`` tells what lags, and ``--exit-code`` tells a script."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.cli import main
from lakehouse.declaration import StreamTable
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import TopicState
from lakehouse.ledger.commits import Commit, Consumed
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import SourceId
from lakehouse.operations import status as looked
from lakehouse.operations.status import DerivedStatus, status
from lakehouse.settings import Settings
from lakehouse.storage.table_context import merged_ledger
from lakehouse_tests.helpers.sensors import MERGED, write_log

NOT_UP_TO_DATE = 4
HERE = SourceId("kafka", "c/t")
DERIVED = ("temperatures_changes", "temperatures_by_location")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home whose table has merged all ten records of a topic, and what derives from it has seen them."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    given = Settings(home=tmp_path)
    write_log(log(given, "temperatures"), Commit(**MERGED, source=HERE, progress={0: 10}))
    for name in DERIVED:
        consume(given, name, 0)
    end(monkeypatch, 10)
    monkeypatch.setattr(looked, "bootstrap_servers", lambda _: "127.0.0.1:1")
    return given


def log(settings: Settings, table: str) -> Path:
    return Path(settings.table_uri(table), "_delta_log")


def consume(settings: Settings, table: str, version: int) -> None:
    """Write the log of a table that has consumed this version of the merged one."""
    merged = merged_ledger(settings, temperatures)
    seen = Consumed(table_id=merged.table_id, version=version)
    commit = Commit(kind="derived", number=1, attempt=table, table_version=-1, consumed=seen)
    write_log(log(settings, table), commit, table)


def end(monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    """Let the topic end at this offset."""
    state = TopicState("temperatures", HERE, {0: 0}, {0: offset})
    monkeypatch.setattr(looked, "look", lambda *_, **__: state)


def exit_code() -> int:
    assert main.run(["status"]) == 0
    return main.run(["status", "--exit-code"])


def test_a_table_that_is_up_to_date_ends_with_0(settings: Settings) -> None:
    assert not any(each.lags for each in status(settings, temperatures).derived)
    assert exit_code() == 0


def test_records_that_wait_end_with_a_code_of_their_own(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    end(monkeypatch, 11)
    assert exit_code() == NOT_UP_TO_DATE


def test_a_broker_that_is_down_ends_with_the_same_code(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("LAKEHOUSE_HOME", str(settings.home))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert exit_code() == NOT_UP_TO_DATE


LOSSES = {
    "another topic": (
        TopicState("temperatures", SourceId("kafka", "c/other"), {0: 0}, {0: 6}),
        "Another topic was merged",
        6,
    ),
    "a partition gone": (TopicState("temperatures", HERE, {}, {}), "Partition 0 no longer exists", 0),
    "cut off at its end": (TopicState("temperatures", HERE, {0: 0}, {0: 4}), "Partition 0 ends at 4", 4),
    "expired": (
        TopicState("temperatures", HERE, {0: 12}, {0: 12}),
        "Partition 0: records from 10 to 11 were deleted",
        2,
    ),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_a_loss_that_stops_merges_is_named_and_is_not_up_to_date(
    kind: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state, said, lag = LOSSES[kind]
    monkeypatch.setattr(looked, "look", lambda *_, **__: state)
    assert exit_code() == NOT_UP_TO_DATE
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Loss: {said}" in shown
    assert "lakehouse accept-gap temperatures" in shown
    assert main.run(["status", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["tables"]
    assert said in told["loss"]
    assert (told["up_to_date"], told["lag"], told["problem"]) == (False, lag, None)


def test_a_loss_that_the_declaration_accepts_is_told_until_a_merge_has_recorded_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looked, "look", lambda *_, **__: LOSSES["expired"][0])
    found = status(settings, replace(temperatures, gaps="accept"))
    assert "temperatures accepts that" in (found.loss or "")
    assert not found.is_up_to_date


def test_an_order_by_offset_alone_that_another_topic_breaks_is_told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looked, "look", lambda *_, **__: LOSSES["another topic"][0])
    found = status(settings, replace(temperatures, order="offset"))
    assert "Offsets begin again there" in (found.loss or "")


@pytest.mark.parametrize("name", DERIVED)
def test_a_feed_or_a_rollup_that_lags_is_named(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in log(settings, name).iterdir():
        file.unlink()
    log(settings, name).rmdir()
    lagging = {each for each in status(settings, temperatures).derived if each.lags}
    assert lagging == {DerivedStatus(name, None, True)}
    assert exit_code() == NOT_UP_TO_DATE
    assert f"Lags: {name} has read nothing yet of temperatures" in capsys.readouterr().out


def test_a_commit_that_does_not_add_up_ends_with_the_same_code(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def wrong(settings: Settings, table: StreamTable) -> Ledger:
        ledger = merged_ledger(settings, table)
        (entry,) = ledger.entries
        commit = entry.commit.model_copy(update={"read": 7})
        return replace(ledger, entries=(replace(entry, commit=commit),))

    monkeypatch.setattr(looked, "merged_ledger", wrong)
    assert exit_code() == NOT_UP_TO_DATE
    assert "Does not add up: version 0" in capsys.readouterr().out
    assert main.run(["status", "--json", "--exit-code"]) == NOT_UP_TO_DATE
    (told,) = json.loads(capsys.readouterr().out)["tables"]
    assert (told["unaccounted"], told["up_to_date"]) == ([0], False)
