"""``python -m lakehouse.defs.daemon``: Dagster's daemon, with rest for sensors.

Dagster's own evaluates each sensor every five seconds. Here, a sensor of a table that has nothing to do rests until a
topic of the table grows, at most for half a minute: no topic shows, for example, what the command line commits.
"""

import json
import logging
import time
from collections.abc import Sequence

from dagster._core.remote_representation.external import RemoteSensor
from dagster._core.scheduler.instigation import InstigatorState, SensorInstigatorData
from dagster._daemon import sensor as sensor_daemon
from dagster._daemon.cli import main

from lakehouse.kafka.watch import POLL, WATCHED, TopicWatch

_REST = 30.0  # seconds


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
    return is_idle and time.time() - started_at < _REST and not watch.has_grown(topics, started_at)


if __name__ == "__main__":
    let_sensors_rest()
    main()
