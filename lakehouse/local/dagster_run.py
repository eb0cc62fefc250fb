"""A Dagster run in its own process: its command, its log and its progress."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

from lakehouse.errors import LakehouseError
from lakehouse.local.dagster_home import prepare_dagster_home
from lakehouse.settings import Settings
from lakehouse.settings.project import project_folder

_FINISHED_STEP = re.compile(r'STEP_SUCCESS - Finished execution of step "(\w+)" in ([^"]+?)\.?$')
_CAUSE = re.compile(r"\b[a-z_]+\.[\w.]*(?:Error|Failure|Exception): (.+)")


def materialize(
    settings: Settings, assets: Sequence[str], config: Mapping[str, Any], on_step: Callable[[str, str], None]
) -> None:
    """Materialize the assets in one run, in a new process, and wait for its end.

    ``config`` maps an asset to its run configuration. ``on_step`` gets the name and the duration of each finished
    step. Raises ``LakehouseError`` if the run fails. Call ``migrate_dagster_storage`` first.
    """
    run_config = {"ops": {name: {"config": values} for name, values in config.items()}}
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "lakehouse.definitions"]
    command += ["--select", ",".join(assets), "--config-json", json.dumps(run_config)]
    log = settings.log_file("runs.log")
    environment = {**os.environ, "DAGSTER_HOME": str(prepare_dagster_home(settings))}
    with (
        log.open("a", encoding="utf-8") as log_file,
        subprocess.Popen(
            command,
            cwd=project_folder(),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        try:
            cause = _read_output(process.stdout or (), log_file, on_step)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        message = f"The Dagster run failed: {cause or 'it reported no cause'}"
        raise LakehouseError(
            message, where=str(log), action="Read the end of that log. Then run the same command again."
        )


def _read_output(lines: Iterable[str], log: TextIO, on_step: Callable[[str, str], None]) -> str:
    """Copy every line to the log, call ``on_step`` for each finished step, and return the last error's text."""
    cause = ""
    for line in lines:
        log.write(line)
        step, error = _FINISHED_STEP.search(line), _CAUSE.search(line)
        if step:
            on_step(step[1], step[2])
        cause = error[1].strip() if error else cause
    return cause
