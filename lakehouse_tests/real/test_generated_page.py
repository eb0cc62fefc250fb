"""The page about generated records on the command line: key, newest value, change feed, maintenance, replay."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakehouse.spark.sessions
from lakehouse.declaration import Generated
from lakehouse.decoding.generated import value_writer
from lakehouse_tests.helpers.commands import lakehouse_says, read_json_output
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "generated.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[dict[str, Any]]:
    """The output of each command, in order; commands use the session that all tests share, and no broker runs."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("declared") / "tables"
    folder.mkdir()
    examples = "".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    # so that keys come again in the first seconds, and the backlog is merged in some seconds
    examples = examples.replace("Counter(modulo=1_000_000)", "Counter(modulo=1_000)").replace("=1_000_000", "=30_000")
    (folder / "hashes.py").write_text(examples)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEHOUSE_HOME", str(home))
        patch.setenv("LAKEHOUSE_DECLARATIONS", str(folder))
        patch.setattr(lakehouse.spark.sessions, "build_session", lambda _: spark)
        patch.setattr(lakehouse.spark.sessions, "stop_session", lambda *_: None)
        yield {
            "peek before": lakehouse_says("peek", "hashes"),
            "status before": read_json_output("status", "hashes"),
            "merge": read_json_output("merge", "hashes"),
            "merge more": read_json_output("merge", "hashes", "--max-records", "20000"),
            "peek": read_json_output("peek", "hashes", "--limit", "3"),
            "replay": read_json_output("replay", "hashes"),
            "rows": read_json_output("query", "SELECT * FROM hashes"),
            "changes": read_json_output("query", "SELECT change, count(*) AS n FROM hashes_changes GROUP BY change"),
            "maintain": read_json_output("maintain", "hashes"),
            "audit": read_json_output("audit", "hashes"),
            "status": read_json_output("status", "hashes"),
            "follow": lakehouse_says("follow", "million", "--max-records", "20000", "--idle-exit", "1"),
            "million": read_json_output("status", "million"),
            "publish": lakehouse_says("publish", "hashes", "--generate", "stream"),
        }


def test_each_hash_has_its_newest_value(outputs: dict[str, Any]) -> None:
    read = sum(batch["read"] for name in ("merge", "merge more") for batch in outputs[name]["batches"])
    assert read > 1_000
    rows = {row["hash"]: row["value"] for row in outputs["rows"]}
    assert sorted(rows) == list(range(1_000))
    assert all(value % 1_000 == key for key, value in rows.items())
    assert max(rows.values()) - min(rows.values()) < 2_000  # partitions end at nearly the same number


def test_changes_are_passed_on_and_a_replay_changes_nothing(outputs: dict[str, Any]) -> None:
    changes = {row["change"]: row["n"] for row in outputs["changes"]}
    assert changes["insert"] == 1_000
    assert changes["update"] > 0
    assert all(batch["inserted"] == batch["updated"] == 0 for batch in outputs["replay"]["batches"])
    (audit,) = outputs["audit"]
    assert all(finding["passed"] for finding in audit["findings"])


def test_peek_and_status_know_the_generator(outputs: dict[str, Any]) -> None:
    assert "has no records" in outputs["peek before"].out
    write = value_writer(Generated().fields, 0)
    for record in outputs["peek"]["records"]:
        number = record["position"] * 100 + record["partition"]
        assert record["value"].startswith(write(number).decode()[:50])
        assert record["row"]["value"] == number
    (before,), (after,) = outputs["status before"]["tables"], outputs["status"]["tables"]
    assert (before["lag"], before["counted"]) == (0, "record")
    assert after["lag"] > 0
    assert outputs["publish"].code == 2


def test_follow_ends_after_the_last_record_of_a_backlog(outputs: dict[str, Any]) -> None:
    (table,) = outputs["million"]["tables"]
    assert (outputs["follow"].code, table["lag"], table["totals"]["read"]) == (0, 0, 30_000)
