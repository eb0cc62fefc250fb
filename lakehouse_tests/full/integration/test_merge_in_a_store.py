"""Tables in a real object store: an address and keys are all that the commands need, on a machine without them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse_tests.helpers.attacks import log_store_races
from lakehouse_tests.helpers.attacks.log_store_races import OTHERS, OURS
from lakehouse_tests.helpers.tables.seaweed import SeaweedStore, running_store

_PROGRAM = "from lakehouse.cli.main import main; main()"
_DECLARATION = """
from lakehouse import Column, Measure, Rollup, StreamTable, Topic

items = StreamTable(
    name="items",
    source=Topic("items", partitions=1),
    doc="Items.",
    file=__file__,
    key=["id"],
    columns=[Column("id", "BIGINT", required=True, doc="Id."), Column("place", "STRING", doc="Place.")],
    rollups=[Rollup("by_place", ["place"], {"items": Measure("count(*)", "BIGINT", "How many.")}, "By place.")],
)
"""


@pytest.fixture(scope="module")
def seaweed() -> Iterator[SeaweedStore]:
    with running_store() as store:
        yield store


class Commands:
    """Commands in an environment whose tables are in a store."""

    def __init__(self, folder: Path, root: str) -> None:
        (folder / "items.py").write_text(_DECLARATION)
        self.folder = folder
        self.variables = {
            "LAKEHOUSE_HOME": str(folder / "home"),
            "LAKEHOUSE_TABLES": root,
            "LAKEHOUSE_DECLARATIONS": str(folder / "items.py"),
            "LAKEHOUSE_REVIEWED": "true",
        }

    def run(self, *arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEHOUSE_")}
        command = [sys.executable, "-c", _PROGRAM, *arguments]
        result = subprocess.run(
            command, env=environment | self.variables, capture_output=True, text=True, timeout=400, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def publish(self, places: dict[int, str]) -> None:
        lines = (json.dumps({"id": number, "place": place}) for number, place in places.items())
        (self.folder / "items.jsonl").write_text("\n".join(lines))
        self.run("publish", "items", str(self.folder / "items.jsonl"))

    def query(self, sql: str) -> list[list[object]]:
        return [list(row.values()) for row in json.loads(self.run("query", sql, "--json"))]


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_records_are_merged_into_a_store_and_queried_from_it(
    seaweed: SeaweedStore, tmp_path: Path, scheme: str
) -> None:
    commands = Commands(tmp_path, f"{scheme}://bucket/{scheme}")
    assert "jars (s3)" in commands.run("doctor")
    commands.publish({number: f"p{number % 3}" for number in range(300)})
    commands.run("merge", "items")
    commands.publish(dict.fromkeys(range(10), "moved"))
    commands.run("merge", "items")
    assert commands.query("SELECT count(*), count(*) FILTER (place = 'moved') FROM items") == [[300, 10]]
    assert commands.query("SELECT sum(items) FROM by_place") == [[300]]
    assert "passed" in commands.run("audit", "items")


def test_spark_never_replaces_a_commit_of_another_writer(seaweed: SeaweedStore) -> None:
    empty_table = pa.table({"writer": pa.array([], pa.int32()), "row": pa.array([], pa.int32())})
    write_deltalake("s3://bucket/races/rows", empty_table)
    command = [sys.executable, "-m", log_store_races.__name__, "s3://bucket/races/rows", "10"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    outcome = json.loads(result.stdout.splitlines()[-1])
    refusal = "java.nio.file.FileAlreadyExistsException"
    assert outcome["answers"] == {
        "new": ["created", OURS],
        "taken": [refusal, OTHERS],
        "own": ["created", OURS],
        "raced": [refusal, OTHERS],
    }
    assert outcome["rows"] == [[writer, 10] for writer in range(4)]
