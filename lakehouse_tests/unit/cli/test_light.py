"""What a verb does not use is not loaded: every call would wait for it and hold it in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_tests.helpers.tables.logs import Written
from lakehouse_tests.unit.cli.test_cli import VERBS

SPARK = {"grpc", "pandas", "py4j", "pyspark"}
ARROW = {"numpy", "pyarrow"}
READERS = {"aiokafka", "deltalake", "duckdb"}
OF_SOME_VERBS = {"lakehouse.declaration", "rich.progress", "urllib.request"}
RUN = """
import json, sys
from lakehouse.cli import main
for arguments in json.loads(sys.argv[1]):
    main.run(arguments)
print(json.dumps(list(sys.modules)))
"""


def loaded(home: Path, *command_lines: list[str]) -> set[str]:
    """Run verbs in an interpreter of their own, where no broker is: the modules that it loaded."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEHOUSE_")}
    environment |= {"LAKEHOUSE_HOME": str(home), "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    command = [sys.executable, "-c", RUN, json.dumps(command_lines)]
    told = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=True)
    return set(json.loads(told.stdout.splitlines()[-1]))


def test_the_help_of_no_verb_loads_what_verbs_work_with(tmp_path: Path) -> None:
    modules = loaded(tmp_path, ["--help"], *([verb, "--help"] for verb in VERBS))
    assert "typer.rich_utils" in modules  # help was shown
    assert modules & {"dagster", *SPARK, *ARROW, *READERS, *OF_SOME_VERBS} == set()


@pytest.mark.parametrize(
    ("arguments", "needed", "needless"),
    [
        (["status"], {"aiokafka", "deltalake"}, {*SPARK, *ARROW, "duckdb"}),
        (["audit"], {"deltalake"}, {*SPARK, *ARROW, "duckdb"}),
        (["rejected"], {"deltalake"}, SPARK),
        (["query", "SELECT count(*) FROM temperatures"], {"duckdb"}, {*SPARK, *ARROW, "aiokafka"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_verb_that_only_looks_loads_no_spark(
    arguments: list[str], needed: set[str], needless: set[str], tmp_path: Path
) -> None:
    table = Written.create(tmp_path / "tables" / "temperatures")
    table.batches(2)
    modules = loaded(tmp_path, arguments)
    assert modules >= needed
    assert modules & {"dagster", *needless} == set()
