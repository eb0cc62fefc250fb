"""A run of Dagster as a process of its own: its command, its log, and what it tells on the way."""

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

    ``config`` is the run configuration of each asset that needs one; ``on_step`` is called with the name
    and the duration of each step that is done. Raises ``LakehouseError`` where the run fails. Dagster's storage
    has to be there: ``migrate_dagster_storage``.
    """
    run_config = {"ops": {name: {"config": values} for name, values in config.items()}}
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "lakehouse.definitions"]
    command += ["--select", ",".join(assets), "--config-json", json.dumps(run_config)]
    log = settings.log_file("runs.log")
    environment = {**os.environ, "DAGSTER_HOME": str(prepare_dagster_home(settings))}
    with (
        log.open("a", encoding="utf-8") as written,
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
            cause = _listen(process.stdout or (), written, on_step)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise LakehouseError(f"The run of Dagster failed: {cause or 'no cause was told'}", where=str(log))


def _listen(lines: Iterable[str], log: TextIO, on_step: Callable[[str, str], None]) -> str:
    """Keep every line in the log, tell of each step that is done, and return the cause told last."""
    cause = ""
    for line in lines:
        log.write(line)
        step, failed = _FINISHED_STEP.search(line), _CAUSE.search(line)
        if step:
            on_step(step[1], step[2])
        cause = failed[1].strip() if failed else cause
    return cause
