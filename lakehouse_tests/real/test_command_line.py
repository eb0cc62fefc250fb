"""The command line on a real broker, Spark and Delta: from records to tables, with the errors on the way."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakehouse.spark.sessions
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.kafka import create_topic, delete_topic
from lakehouse.local.servers import running_broker
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import lakehouse_says, read_json_output
from lakehouse_tests.helpers.places import DATA
from lakehouse_tests.helpers.waiting import wait_until

RECORDS = str(DATA / "stream.jsonl")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Settings]:
    """A new home with a running broker; commands use the session that all tests share."""
    home = tmp_path_factory.mktemp("flow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEHOUSE_HOME", str(home))
        patch.setattr(lakehouse.spark.sessions, "build_session", lambda _: spark)
        patch.setattr(lakehouse.spark.sessions, "stop_session", lambda *_: None)
        settings = Settings(home=home, _env_file=None)
        with running_broker(settings):
            yield settings


@pytest.fixture(scope="module")
def outputs(settings: Settings) -> dict[str, Any]:
    """The output of each command of a usual day, in order."""
    return {
        "publish": read_json_output("publish", "temperatures", RECORDS, "--partitions", "3", "--force"),
        "status before": read_json_output("status"),
        "plan": read_json_output("merge", "--dry-run", "--max-records", "10"),
        "base": read_json_output("load-base", "temperatures", str(DATA / "base")),
        "merge": read_json_output("merge", "temperatures", "--max-records", "10"),
        "idle": lakehouse_says("merge", "--fail-if-idle"),
        "replay": read_json_output("replay"),
        "rejected": read_json_output("rejected", "--limit", "1"),
        "redrive": read_json_output("redrive"),
        "status": read_json_output("status"),
        "audit": read_json_output("audit"),
        "maintain": read_json_output("maintain"),
        "maintain again": lakehouse_says("maintain"),
    }


def test_publish_counts_what_the_broker_acknowledged(outputs: dict[str, Any]) -> None:
    assert outputs["publish"]["acknowledged"] == 23


def test_status_reports_the_lag_before_the_table_exists(outputs: dict[str, Any]) -> None:
    (table,) = outputs["status before"]["tables"]
    assert (table["exists"], table["lag"], len(table["partitions"])) == (False, 23, 3)
    assert outputs["status before"]["bootstrap_servers"] == outputs["publish"]["bootstrap_servers"]


def test_a_dry_run_shows_the_next_batch_and_merges_nothing(outputs: dict[str, Any]) -> None:
    assert [*outputs["plan"]] == ["stream", "source", "ranges", "gap", "left_out"]
    assert outputs["plan"]["source"]["kind"] == "kafka"
    assert sum(part["end"] - part["start"] for part in outputs["plan"]["ranges"]) == 10


def test_load_base_counts_files_and_rows(outputs: dict[str, Any]) -> None:
    assert (outputs["base"]["files"], outputs["base"]["rows"], outputs["base"]["inserted"]) == (2, 336, 336)


def test_merge_writes_base_rows_first_and_then_bounded_batches(outputs: dict[str, Any]) -> None:
    batches = outputs["merge"]["batches"]
    assert [(batch["kind"], batch["read"]) for batch in batches] == [
        ("base", 336),
        ("batch", 10),
        ("batch", 10),
        ("batch", 3),
    ]
    assert batches[-1]["lag_after"] == 0
    assert {part["name"] for part in outputs["merge"]["derived"]} == {
        "temperatures_changes",
        "temperatures_by_location",
    }


def test_merge_with_fail_if_idle_exits_with_3_if_there_is_nothing_to_merge(outputs: dict[str, Any]) -> None:
    assert outputs["idle"].code == 3
    assert "Nothing to do" in outputs["idle"].out


def test_replay_reads_everything_again_and_changes_nothing(outputs: dict[str, Any]) -> None:
    batches = outputs["replay"]["batches"]
    assert sum(batch["read"] for batch in batches) == 23
    assert sum(batch["inserted"] + batch["updated"] for batch in batches) == 0


def test_maintain_reports_what_it_did_and_that_nothing_changed_since(outputs: dict[str, Any]) -> None:
    results = {result["name"]: result for result in outputs["maintain"]}
    assert set(results) == {f"temperatures{part}" for part in ("", "_rejected", "_base", "_changes", "_by_location")}
    result = results["temperatures"]
    assert (result["idle"], result["removed"], result["kept"]) == (False, 0, None)
    assert result["files_before"] >= result["files_after"] == 2, "one file for each month"
    second_run = outputs["maintain again"]
    assert (second_run.code, second_run.out.count("no change since the last time")) == (0, len(results))


def test_status_reports_rows_lag_and_last_commit(outputs: dict[str, Any]) -> None:
    (table,) = outputs["status"]["tables"]
    assert (table["exists"], table["lag"], table["rows"], table["problem"]) == (True, 0, 344, None)
    assert table["totals"]["read"] == 23
    assert table["last_commit"]["kind"] == "replay"


def test_rejected_records_are_listed_and_stay_rejected_under_the_same_declaration(outputs: dict[str, Any]) -> None:
    (table,) = outputs["rejected"]
    assert table["rejected"] == sum(reason["count"] for reason in table["reasons"]) == 12
    assert {len(reason["samples"]) for reason in table["reasons"]} == {1}
    assert outputs["redrive"]["batches"] == []
    assert len(outputs["redrive"]["derived"]) == 2


def test_audit_proves_the_history(outputs: dict[str, Any]) -> None:
    (table,) = outputs["audit"]
    assert table["complete"]
    assert [entry["kind"] for entry in reversed(table["entries"])] == ["base", "batch", "batch", "batch", "replay"]
    assert [finding["passed"] for finding in table["findings"]] == [True] * 5


def test_the_text_output_shows_the_same(outputs: dict[str, Any]) -> None:
    status, audit = lakehouse_says("status"), lakehouse_says("audit")
    assert "344 rows" in status.out
    assert "Lag: 0 offsets." in status.out
    assert audit.out.count("passed") == 5


def test_query_reads_every_table(outputs: dict[str, Any]) -> None:
    for table, rows in (("temperatures", 344), ("temperatures_rejected", 12), ("temperatures_base", 336)):
        assert read_json_output("query", f"SELECT count(*) AS rows FROM {table}") == [{"rows": rows}]


def test_doctor_finds_broker_and_topic(outputs: dict[str, Any]) -> None:
    parts = {part["part"]: part["state"] for part in read_json_output("doctor")}
    assert parts["broker (embedded)"] == "ok"
    assert parts["topic temperatures"] == "ok"


def test_follow_ends_when_the_topic_was_idle(outputs: dict[str, Any]) -> None:
    read_json_output("publish", "temperatures", RECORDS, "--force")
    result = lakehouse_says("follow", "--idle-exit", "1")
    assert result.code == 0
    assert "Batches merged: 1." in result.out
    assert read_json_output("status")["tables"][0]["lag"] == 0


@pytest.mark.invariant("3.4")
def test_a_replay_beyond_the_progress_is_refused(outputs: dict[str, Any]) -> None:
    result = lakehouse_says("replay", "temperatures", "0:0-100000")
    assert result.code == 1
    assert "cannot be replayed" in result.err


@pytest.mark.invariant("9.1", "9.6")
def test_a_recreated_topic_stops_the_merge_until_a_person_accepts_the_gap(
    outputs: dict[str, Any], settings: Settings
) -> None:
    rows = read_json_output("query", "SELECT count(*) AS rows FROM temperatures")
    delete_topic(settings, "temperatures")
    assert wait_until(lambda: not read_json_output("topics")["topics"][0]["exists"])
    create_topic(settings, temperatures)
    result = lakehouse_says("merge")
    assert result.code == 1
    assert len(result.err.strip().splitlines()) == 2  # the start of Spark, and the error
    assert "lakehouse repair gap temperatures" in result.err

    assert "Recorded in version" in lakehouse_says("repair", "gap", "--yes").out
    assert "no gap to accept" in lakehouse_says("repair", "gap").out
    read_json_output("publish", "temperatures", RECORDS, "--force")
    assert read_json_output("merge")["batches"][-1]["lag_after"] == 0
    assert read_json_output("query", "SELECT count(*) AS rows FROM temperatures") == rows
