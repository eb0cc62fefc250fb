"""Dagster's code server starts runs in processes that have imported what a run needs."""

import subprocess
import sys
from pathlib import Path

_CODE = """
import sys
from dagster._grpc.server import DagsterApiServer
from lakehouse.defs.warm_runs import keep_runs_warm

def run():
    sys.exit("lakehouse.spark.connect" in sys.modules)

if __name__ == "__main__":
    keep_runs_warm()
    keep_runs_warm()
    server = object.__new__(DagsterApiServer)
    server._mp_ctx = None  # as its start sets it
    process = server._mp_ctx.Process(target=run)
    process.start()
    process.join()
    print(process.exitcode)
"""


def test_a_run_starts_with_everything_imported(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_CODE)
    command = [sys.executable, str(program)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["1"]
