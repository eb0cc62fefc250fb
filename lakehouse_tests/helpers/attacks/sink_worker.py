"""A run of a sink in a process of its own, which may be ordered to die at a chosen statement.

``python -m lakehouse_tests.helpers.attacks.sink_worker HOME URL [WHEN NTH]`` runs the sink once and prints its result
as JSON. It kills itself before or after the nth statement (from 0); the last one is COMMIT.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings
from lakehouse.sinks.database import DatabaseDelivery
from lakehouse_tests.helpers.tables.delivered import BY_ID, SALES, Target

Moment = tuple[str, int]
"""``before`` or ``after``, and which statement."""


def start(target: Target, moment: Moment | None = None) -> "subprocess.Popen[str]":
    """Start a run in a process of its own."""
    command = [sys.executable, "-m", "lakehouse_tests.helpers.attacks.sink_worker"]
    command += [str(target.settings.home_folder), target.settings.sink_addresses["postgres"], *map(str, moment or ())]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def inject(when: str, nth: int) -> None:
    """Let this process die at a statement of its connections."""
    calls = count()

    def dying(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            is_due = next(calls) == nth
            if is_due and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*arguments, **options)
            if is_due:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for holder, name in ((psycopg.Connection, "execute"), (psycopg.Copy, "write"), (psycopg.Connection, "commit")):
        setattr(holder, name, dying(getattr(holder, name)))


def main() -> None:
    home, url, *moment = sys.argv[1:]
    if moment:
        inject(moment[0], int(moment[1]))
    settings = Settings(home=Path(home), sync=False, sink_urls=json.dumps({"postgres": url}))
    try:
        sys.stdout.write(json.dumps(asdict(DatabaseDelivery(settings, SALES, BY_ID).update())))
    except LakehouseError as error:
        sys.stdout.write(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main()
