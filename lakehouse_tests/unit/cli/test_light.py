"""A command does not load what it does not use: every call would wait for it and keep it in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_tests.helpers.commands import COMMAND_LINES
from lakehouse_tests.helpers.tables.logs import WrittenTable

SPARK = {"grpc", "pandas", "py4j", "pyspark"}
ARROW = {"numpy", "pyarrow"}
READERS = {"aiokafka", "deltalake", "duckdb"}
OF_SOME_COMMANDS = {"lakehouse.declaration", "rich.progress", "urllib.request"}
RUN = """
import json, sys
from lakehouse.cli import main
for arguments in json.loads(sys.argv[1]):
    main.run(arguments)
print(json.dumps(list(sys.modules)))
"""


def list_loaded_modules(home: Path, *command_lines: list[str]) -> set[str]:
    """Run commands in their own interpreter, without a broker; return the modules that it loaded."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEHOUSE_")}
    environment |= {"LAKEHOUSE_HOME": str(home), "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    command = [sys.executable, "-c", RUN, json.dumps(command_lines)]
    process = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=True)
    return set(json.loads(process.stdout.splitlines()[-1]))


def test_help_loads_no_heavy_modules(tmp_path: Path) -> None:
    modules = list_loaded_modules(tmp_path, ["--help"], *([*line, "--help"] for line in COMMAND_LINES))
    assert "typer.rich_utils" in modules  # help was shown
    assert modules & {"dagster", *SPARK, *ARROW, *READERS, *OF_SOME_COMMANDS} == set()


@pytest.mark.parametrize(
    ("arguments", "needed_modules", "forbidden_modules"),
    [
        (["status"], {"aiokafka", "deltalake"}, {*SPARK, *ARROW, "duckdb"}),
        (["audit"], {"deltalake"}, {*SPARK, *ARROW, "duckdb"}),
        (["rejected"], {"deltalake"}, SPARK),
        (["query", "SELECT count(*) FROM temperatures"], {"duckdb"}, {*SPARK, *ARROW, "aiokafka"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_that_only_reads_loads_no_spark(
    arguments: list[str], needed_modules: set[str], forbidden_modules: set[str], tmp_path: Path
) -> None:
    table = WrittenTable.create(tmp_path / "tables" / "temperatures")
    table.batches(2)
    modules = list_loaded_modules(tmp_path, arguments)
    assert modules >= needed_modules
    assert modules & {"dagster", *forbidden_modules} == set()
