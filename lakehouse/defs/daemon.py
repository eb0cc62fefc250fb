"""``python -m lakehouse.defs.daemon``: Dagster's daemon, with rest for sensors and code servers.

Dagster's own evaluates each sensor every five seconds, and starts the code servers again every minute. Here, a sensor
of a table that has nothing to do rests until a topic of the table grows, at most for half a minute: no topic shows, for
example, what the command line commits. A code server rests until a file of the project is edited.
"""

import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from dagster._core.remote_representation.external import RemoteSensor
from dagster._core.scheduler.instigation import InstigatorState, SensorInstigatorData
from dagster._daemon import sensor as sensor_daemon
from dagster._daemon.cli import main
from dagster._daemon.controller import RELOAD_WORKSPACE_INTERVAL, DagsterDaemonController

from lakehouse.errors import LakehouseError
from lakehouse.kafka.watch import POLL, WATCHED, TopicWatch
from lakehouse.settings import Settings
from lakehouse.settings.project import project_folder

_REST = 30.0  # seconds
_SOURCES = (".py", ".toml", ".yaml", ".yml", ".env", ".avsc", ".proto", ".json", ".sql")


def let_sensors_rest() -> None:
    """Let the daemon of this process evaluate the sensors of tables when their topics grow."""
    watch, is_early = TopicWatch(), sensor_daemon.is_under_min_interval

    def rests(state: InstigatorState, remote_sensor: RemoteSensor, *least_interval: int | None) -> bool:
        metadata = (remote_sensor.metadata and remote_sensor.metadata.standard_metadata) or {}
        is_resting = WATCHED in metadata and is_at_rest(watch, state, str(metadata[WATCHED].value).split())
        return is_resting or is_early(state, remote_sensor, *least_interval)

    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the sensors report what is wrong
    sensor_daemon.MIN_INTERVAL_LOOP_TIME = POLL  # type: ignore[assignment]
    sensor_daemon.is_under_min_interval = rests  # type: ignore[assignment]
    watch.start()


def is_at_rest(watch: TopicWatch, state: InstigatorState, topics: Sequence[str]) -> bool:
    """Whether the sensor of a table found nothing to do at its last tick, and none of these topics has grown since."""
    data = state.instigator_data
    if not isinstance(data, SensorInstigatorData) or not data.last_tick_success_timestamp:
        return False
    started_at = data.last_tick_start_timestamp or 0.0
    is_idle = bool(json.loads(data.cursor or "{}").get("is_idle"))
    return is_idle and 0 <= time.time() - started_at < _REST and not watch.has_grown(topics, started_at)


def let_code_servers_rest() -> None:
    """Let the daemon of this process start code servers again only after an edit, or if one ended or failed."""
    refresh, edits = DagsterDaemonController.check_workspace_freshness, _read_edits()

    def refresh_if_needed(self: DagsterDaemonController, last_workspace_update_time: float) -> float:
        nonlocal edits
        if time.time() - last_workspace_update_time <= RELOAD_WORKSPACE_INTERVAL:
            return last_workspace_update_time
        former_edits, edits = edits, _read_edits()
        entries = self._workspace_process_context.create_request_context().get_code_location_entries().values()
        servers = self._grpc_server_registry._active_entries if self._grpc_server_registry else ()
        is_current = (
            edits is not None
            and edits == former_edits
            and len(servers) == len(entries)
            and all(e.code_location for e in entries)
        )
        return time.time() if is_current else refresh(self, last_workspace_update_time)

    DagsterDaemonController.check_workspace_freshness = refresh_if_needed  # type: ignore[method-assign]


def _read_edits() -> set[tuple[str, int]] | None:
    """Return the edits; ``None`` if settings or files cannot be read, which the code server reports."""
    try:
        return {*_edits()}
    except (LakehouseError, OSError, ValueError):
        return None


def _edits() -> Iterator[tuple[str, int]]:
    """Each file of the project, and of declarations elsewhere, that definitions may come from, with its time."""
    settings, project = Settings.load(), project_folder()
    place = project / Path(settings.declarations or ".").expanduser()
    paths, home = [str(place)], str(settings.home_folder.resolve())
    for folder, folders, files in chain(os.walk(project.resolve()), os.walk(place.resolve())):
        folders[:] = [name for name in folders if name[0] not in "._" and f"{folder}/{name}" != home]
        paths += [f"{folder}/{name}" for name in files if name.endswith(_SOURCES)]
    for path in paths:
        with suppress(OSError):
            yield path, Path(path).stat().st_mtime_ns


if __name__ == "__main__":
    let_sensors_rest()
    let_code_servers_rest()
    main()
