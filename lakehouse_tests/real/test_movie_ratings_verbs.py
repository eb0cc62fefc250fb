"""The Avro example on the command line: created, published, merged, reported, redriven and audited."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakehouse.spark.sessions
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import read_json_output

pytestmark = pytest.mark.slow

PATIENT = """
from dataclasses import replace
from datetime import timedelta

import lakehouse.examples.tables.movie_ratings as example

movie_ratings = replace(example.movie_ratings, late=replace(example.movie_ratings.late, after=timedelta(days=100)))
"""


@pytest.fixture(scope="module")
def environment(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, registry: Settings
) -> Iterator[pytest.MonkeyPatch]:
    """The example with its own folder for tables; commands use the session that all tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEHOUSE_HOME", str(registry.home))
        patch.setenv("LAKEHOUSE_TABLES", str(tmp_path_factory.mktemp("tables")))
        patch.setenv("LAKEHOUSE_DECLARATIONS", "lakehouse.examples.tables.movie_ratings")
        patch.setattr(lakehouse.spark.sessions, "build_session", lambda _: spark)
        patch.setattr(lakehouse.spark.sessions, "stop_session", lambda *_: None)
        yield patch


@pytest.fixture(scope="module")
def outputs(environment: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The output of each command, in order; before the redrive, the limit for late ratings becomes a hundred days."""
    outputs = {
        "topics": read_json_output("topics", "--create", "--partitions", "2"),
        "stream": read_json_output("publish", "movie_ratings", "--generate", "stream"),
        "update": read_json_output("publish", "movie_ratings", "--generate", "update"),
        "merge": read_json_output("merge", "movie_ratings"),
        "rejected": read_json_output("rejected", "movie_ratings", "--limit", "1"),
        "status": read_json_output("status", "movie_ratings"),
        "idle redrive": read_json_output("redrive", "movie_ratings"),
    }
    folder: Path = tmp_path_factory.mktemp("declared") / "patient_ratings"
    folder.mkdir()
    (folder / "ratings.py").write_text(PATIENT)
    with environment.context() as patch:
        patch.setenv("LAKEHOUSE_DECLARATIONS", str(folder))
        outputs |= {
            "redrive": read_json_output("redrive", "movie_ratings"),
            "rejected then": read_json_output("rejected", "movie_ratings"),
            "status then": read_json_output("status", "movie_ratings"),
            "audit": read_json_output("audit", "movie_ratings"),
        }
    return outputs


def test_the_topic_is_created_and_receives_samples_of_two_schemas(outputs: dict[str, Any]) -> None:
    (topic,) = outputs["topics"]["topics"]
    assert (topic["topic"], topic["exists"], topic["partitions"]) == ("movie.ratings.v1", True, 2)
    assert [outputs[kind]["acknowledged"] for kind in ("stream", "update")] == [1090, 250]
    assert read_json_output("query", "SELECT count(*) AS schemas FROM movie_ratings_schemas") == [{"schemas": 2}]


@pytest.mark.invariant("8.13")
def test_samples_of_both_schemas_are_merged_in_one_batch_and_late_records_are_rejected(outputs: dict[str, Any]) -> None:
    (batch,) = outputs["merge"]["batches"]
    expected_counts = {"read": 1340, "rejected": 50, "superseded": 240, "inserted": 1050, "updated": 0, "stale": 0}
    assert {name: batch[name] for name in expected_counts} == expected_counts
    assert {part["name"] for part in outputs["merge"]["derived"]} == {"movie_ratings_changes", "movie_ratings_by_movie"}
    (table,) = outputs["rejected"]
    assert [(group["reason"], group["count"], len(group["samples"])) for group in table["reasons"]] == [("late", 50, 1)]
    (status,) = outputs["status"]["tables"]
    assert (status["rows"], status["lag"], status["totals"]["read"]) == (1050, 0, 1340)


@pytest.mark.invariant("8.12")
def test_late_ratings_are_redriven_after_the_limit_is_raised(outputs: dict[str, Any]) -> None:
    assert outputs["idle redrive"]["batches"] == []
    (batch,) = outputs["redrive"]["batches"]
    assert (batch["kind"], batch["read"], batch["inserted"]) == ("redrive", 50, 50)
    assert (outputs["rejected then"][0]["rejected"], outputs["status then"]["tables"][0]["rows"]) == (0, 1100)
    rows = (
        "SELECT count(*) AS rows, count(device) AS devices, sum(CAST(is_approved AS INT)) AS liked FROM movie_ratings"
    )
    groups = "SELECT sum(ratings) AS rows, sum(approved) AS liked FROM movie_ratings_by_movie"
    ((row_totals,), (group_totals,)) = read_json_output("query", rows), read_json_output("query", groups)
    assert (row_totals["rows"], row_totals["devices"]) == (1100, 250)
    assert {name: int(value) for name, value in group_totals.items()} == {
        "rows": 1100,
        "liked": int(row_totals["liked"]),
    }


def test_audit_proves_the_history_of_batch_and_redrive(outputs: dict[str, Any]) -> None:
    (table,) = outputs["audit"]
    assert table["complete"]
    assert [entry["kind"] for entry in reversed(table["entries"])] == ["batch", "redrive"]
    assert [finding["passed"] for finding in table["findings"]] == [True] * 4
    assert any("late" in change for declaration in table["declared"] for change in declaration["changes"])
