"""``lakehouse status`` shows what lags; ``--exit-code`` reports it to a script."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli import show
from lakehouse.cli.merge_verbs import NOTHING_TO_DO
from lakehouse.declaration import Export, StreamTable
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import TopicState
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.commits import Commit
from lakehouse.ledger.ledger import Ledger
from lakehouse.ledger.positions import HeldPart, SourceId
from lakehouse.operations import status as status_module
from lakehouse.operations.readers import DerivedStatus
from lakehouse.operations.status import status
from lakehouse.settings import Settings
from lakehouse.sources import table_sources
from lakehouse.storage.table_context import merged_ledger
from lakehouse_tests.helpers.commands import lakehouse_says, output_of, read_json_output
from lakehouse_tests.helpers.sensors import MERGED, write_log
from lakehouse_tests.helpers.tables.tables import redeclare

NOT_UP_TO_DATE = 4
HERE = SourceId("kafka", "c/t")
DERIVED = ("temperatures_changes", "temperatures_by_location")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home whose table has merged all ten records of a topic; its derived tables are up to date."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    home_settings = Settings(home=tmp_path)
    write_log(log(home_settings, "temperatures"), Commit(**MERGED, source=HERE, progress={0: 10}))
    for name in DERIVED:
        consume(home_settings, name, 0)
    end(monkeypatch, 10)
    monkeypatch.setattr(status_module, "bootstrap_servers", lambda _: "127.0.0.1:1")
    return home_settings


def log(settings: Settings, table: str) -> Path:
    return Path(settings.table_uri(table), "_delta_log")


def consume(settings: Settings, table: str, version: int) -> None:
    """Write the log of a table that has consumed this version of the merged one."""
    merged = merged_ledger(settings, temperatures)
    consumed = Consumed(table_id=merged.table_id, version=version)
    commit = Commit(kind="derived", number=1, attempt=table, table_version=-1, consumed=consumed)
    write_log(log(settings, table), commit, table)


def end(monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    """Let the topic end at this offset."""
    state = TopicState("temperatures", HERE, {0: 0}, {0: offset})
    monkeypatch.setattr(table_sources, "read_topics", lambda *_, **__: [state])


def words_of_outdated_status() -> str:
    """The words of ``status`` of tables that are not up to date: it fails only with ``--exit-code``."""
    assert lakehouse_says("status", "--exit-code").code == NOT_UP_TO_DATE
    return " ".join(output_of("status").split())


def test_status_exits_with_0_if_a_table_is_up_to_date(settings: Settings) -> None:
    assert not any(derived.lags for derived in status(settings, temperatures).derived)
    output_of("status", "--exit-code")


def test_json_names_the_broker_although_the_first_table_reads_files(capsys: pytest.CaptureFixture[str]) -> None:
    statuses: list[dict[str, Any]] = [
        {"bootstrap_servers": None},
        {"bootstrap_servers": "127.0.0.1:1"},
        {"bootstrap_servers": None},
    ]
    show._print_status_json(statuses, (), ())
    assert json.loads(capsys.readouterr().out)["bootstrap_servers"] == "127.0.0.1:1"


def test_a_table_is_not_up_to_date_if_an_enabled_export_never_ran(settings: Settings) -> None:
    export = Export("all_temperatures", of="temperatures")
    assert not status(settings, temperatures, [export]).is_up_to_date
    assert status(settings, temperatures, [replace(export, enabled=False)]).is_up_to_date


def test_status_exits_with_its_own_code_if_records_wait(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    end(monkeypatch, 11)
    assert words_of_outdated_status()


def test_status_exits_with_the_same_code_if_the_broker_is_down(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("LAKEHOUSE_HOME", str(settings.home))
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert words_of_outdated_status()


@pytest.mark.invariant("12.10")
def test_what_no_merge_can_read_is_shown_and_the_table_is_not_up_to_date(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_parts = [HeldPart(f"{number}\udce9.json", "waits for x.json") for number in range(502)]
    state = TopicState("temperatures", HERE, {0: 0}, {0: 10}, held_parts=tuple(held_parts))
    monkeypatch.setattr(table_sources, "read_topics", lambda *_, **__: [state])
    assert "Not read: 502 offsets: 0\\xe9.json (waits for x.json), 1\\xe9.json" in words_of_outdated_status()
    (table_status,) = read_json_output("status")["tables"]
    assert (table_status["lag"], table_status["held"], table_status["up_to_date"]) == (0, 502, False)
    assert table_status["held_text"].endswith("497 more of them.")


@pytest.mark.invariant("1.9")
def test_commits_of_other_programs_are_counted_and_the_newest_is_named(settings: Settings) -> None:
    for version in range(1, 100):
        info = {"commitInfo": {"timestamp": version * 1_000, "operation": "UPDATE"}}
        (log(settings, "temperatures") / f"{version:020}.json").write_text(json.dumps(info))
        if version == 1:
            output = output_of("status")
            assert "by another program: UPDATE, 1970-01-01 00:00:01" in output and "Before it" not in output
    (line,) = [line for line in output_of("status").splitlines() if "another program" in line]
    assert line.startswith("Version 99 was committed by another program: UPDATE")
    assert line.endswith("Before it: 98 such commits. See: lakehouse audit temperatures")
    assert len(read_json_output("status")["tables"][0]["foreign"]) == 99


def test_a_dry_run_reports_with_its_exit_code_that_there_is_nothing_to_merge(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.table_uri("temperatures")
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    output_of("merge", "--dry-run")
    assert lakehouse_says("merge", "--dry-run", "--fail-if-idle").code == NOTHING_TO_DO
    end(monkeypatch, 11)
    output_of("merge", "--dry-run", "--fail-if-idle")


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


@pytest.mark.invariant("9.7")
@pytest.mark.parametrize("kind", LOSSES)
def test_status_names_a_loss_that_stops_merges_and_the_table_is_not_up_to_date(
    kind: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, message, lag = LOSSES[kind]
    monkeypatch.setattr(table_sources, "read_topics", lambda *_, **__: [state])
    output = words_of_outdated_status()
    assert f"Loss: {message}" in output and "lakehouse repair gap temperatures" in output
    (table_status,) = read_json_output("status")["tables"]
    assert message in table_status["loss"]
    assert (table_status["up_to_date"], table_status["lag"], table_status["problem"]) == (False, lag, None)


@pytest.mark.invariant("9.7")
def test_status_names_an_accepted_loss_until_a_merge_has_recorded_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_sources, "read_topics", lambda *_, **__: [LOSSES["expired"][0]])
    table_status = status(settings, redeclare(temperatures, gaps="accept"))
    assert "temperatures accepts this loss" in (table_status.loss or "")
    assert not table_status.is_up_to_date


@pytest.mark.invariant("9.8")
def test_status_reports_a_recreated_topic_that_breaks_the_order_by_offset(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_sources, "read_topics", lambda *_, **__: [LOSSES["another topic"][0]])
    table_status = status(settings, redeclare(temperatures, order="offset"))
    assert "Offsets start again there" in (table_status.loss or "")


@pytest.mark.parametrize("name", DERIVED)
def test_status_names_a_feed_or_a_rollup_that_lags(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in log(settings, name).iterdir():
        file.unlink()
    log(settings, name).rmdir()
    lagging = {derived for derived in status(settings, temperatures).derived if derived.lags}
    assert lagging == {DerivedStatus(name, None, True)}
    advice = f"Out of date: {name} has read nothing of temperatures. Run: lakehouse merge temperatures"
    assert advice in words_of_outdated_status()


def test_status_exits_with_the_same_code_if_the_counts_of_a_commit_do_not_add_up(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:

    def wrong_ledger(settings: Settings, table: StreamTable) -> Ledger:
        ledger = merged_ledger(settings, table)
        (entry,) = ledger.entries
        commit = entry.commit.model_copy(update={"read": 7})
        return replace(ledger, entries=(replace(entry, commit=commit),))

    monkeypatch.setattr(status_module, "merged_ledger", wrong_ledger)
    assert "Counts do not add up: version 0" in words_of_outdated_status()
    result = lakehouse_says("status", "--json", "--exit-code")
    (table_status,) = json.loads(result.out)["tables"]
    assert result.code == NOT_UP_TO_DATE
    assert (table_status["unaccounted"], table_status["up_to_date"]) == ([0], False)
