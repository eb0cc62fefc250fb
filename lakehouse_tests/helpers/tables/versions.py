"""Tables whose versions have chosen times."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from deltalake import write_deltalake


def write_versions(folder: Path, rows_by_time: Mapping[datetime, Any]) -> None:
    """Append rows in one version for each time, from version 0."""
    for version, (time, rows) in enumerate(rows_by_time.items()):
        write_deltalake(folder, rows, mode="append")
        put_commit_time(folder, version, time)


def put_commit_time(folder: Path, version: int, time: datetime) -> None:
    """Replace the time of a commit."""
    file = folder / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = int(time.timestamp() * 1000)
    file.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
