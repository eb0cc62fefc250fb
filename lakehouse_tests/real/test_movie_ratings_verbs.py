"""The example in Avro by the command line: made, sent, merged, told, redriven and proved as any other table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakehouse.spark.sessions
from lakehouse.settings import Settings
from lakehouse_tests.helpers.commands import read_json_output

pytestmark = [pytest.mark.invariant(4, 7, 8, 10), pytest.mark.slow]

PATIENT = """
from dataclasses import replace
from datetime import timedelta

import lakehouse.examples.tables.movie_ratings as example

movie_ratings = replace(example.movie_ratings, late=replace(example.movie_ratings.late, after=timedelta(days=100)))
"""


@pytest.fixture(scope="module")
def declared(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, registry: Settings
) -> Iterator[pytest.MonkeyPatch]:
    """The example, with a root of its own for its tables; verbs get the session that all tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEHOUSE_HOME", str(registry.home))
        patch.setenv("LAKEHOUSE_TABLES", str(tmp_path_factory.mktemp("tables")))
        patch.setenv("LAKEHOUSE_DECLARATIONS", "lakehouse.examples.tables.movie_ratings")
        patch.setattr(lakehouse.spark.sessions, "build_session", lambda _: spark)
        patch.setattr(lakehouse.spark.sessions, "stop_session", lambda *_: None)
        yield patch


@pytest.fixture(scope="module")
def story(declared: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the verbs said, in order; before the redrive, ratings are declared to be late after a hundred days."""
    said = {
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
    with declared.context() as patch:
        patch.setenv("LAKEHOUSE_DECLARATIONS", str(folder))
        said |= {
            "redrive": read_json_output("redrive", "movie_ratings"),
            "rejected then": read_json_output("rejected", "movie_ratings"),
            "status then": read_json_output("status", "movie_ratings"),
            "audit": read_json_output("audit", "movie_ratings"),
        }
    return said


def test_the_topic_is_made_and_takes_samples_by_two_schemas(story: dict[str, Any]) -> None:
    (topic,) = story["topics"]["topics"]
    assert (topic["topic"], topic["exists"], topic["partitions"]) == ("movie.ratings.v1", True, 2)
    assert [story[kind]["acknowledged"] for kind in ("stream", "update")] == [1090, 250]
    assert read_json_output("query", "SELECT count(*) AS schemas FROM movie_ratings_schemas") == [{"schemas": 2}]


def test_samples_of_both_schemas_are_merged_in_one_batch_and_what_is_late_is_told(story: dict[str, Any]) -> None:
    (batch,) = story["merge"]["batches"]
    counted = {"read": 1340, "rejected": 50, "duplicate": 240, "inserted": 1050, "updated": 0, "stale": 0}
    assert {name: batch[name] for name in counted} == counted
    assert {part["name"] for part in story["merge"]["derived"]} == {"movie_ratings_changes", "movie_ratings_by_movie"}
    (listed,) = story["rejected"]
    assert [(each["reason"], each["count"], len(each["samples"])) for each in listed["reasons"]] == [("late", 50, 1)]
    (found,) = story["status"]["tables"]
    assert (found["rows"], found["lag"], found["totals"]["read"]) == (1050, 0, 1340)


def test_late_ratings_are_redriven_once_they_are_declared_not_to_be_late(story: dict[str, Any]) -> None:
    assert story["idle redrive"]["batches"] == []
    (batch,) = story["redrive"]["batches"]
    assert (batch["kind"], batch["read"], batch["inserted"]) == ("redrive", 50, 50)
    assert (story["rejected then"][0]["rejected"], story["status then"]["tables"][0]["rows"]) == (0, 1100)
    rows = "SELECT count(*) AS rows, count(device) AS told, sum(CAST(is_approved AS INT)) AS liked FROM movie_ratings"
    groups = "SELECT sum(ratings) AS rows, sum(approved) AS liked FROM movie_ratings_by_movie"
    ((of_rows,), (of_groups,)) = read_json_output("query", rows), read_json_output("query", groups)
    assert (of_rows["rows"], of_rows["told"]) == (1100, 250)
    assert {name: int(value) for name, value in of_groups.items()} == {"rows": 1100, "liked": int(of_rows["liked"])}


def test_audit_proves_the_history_of_batch_and_redrive(story: dict[str, Any]) -> None:
    (table,) = story["audit"]
    assert table["complete"]
    assert [entry["kind"] for entry in reversed(table["entries"])] == ["batch", "redrive"]
    assert [finding["passed"] for finding in table["findings"]] == [True] * 4
    assert any("late" in change for each in table["declared"] for change in each["changes"])
