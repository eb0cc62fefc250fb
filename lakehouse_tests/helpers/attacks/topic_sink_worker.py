"""A run of a sink to a topic in a process of its own, which may be ordered to die at a chosen call of the producer.

``python -m lakehouse_tests.helpers.attacks.topic_sink_worker HOME SERVERS TOPIC [CALL WHEN NTH]`` runs the sink once
and prints its result as JSON. It kills itself before or after the nth call (from 0) of a method of the producer.
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

from aiokafka import AIOKafkaProducer

from lakehouse.declaration import ChangesTopic, Sink
from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings
from lakehouse.sinks.topic import TopicDelivery
from lakehouse_tests.helpers.tables.delivered import BY_ID

Moment = tuple[str, str, int]
"""A method of the producer, ``before`` or ``after``, and which of its calls."""


def delivery_of(home: Path, servers: str, topic: str) -> TopicDelivery:
    """The sink of a table of sales to a topic."""
    settings = Settings(home=home, sync=False, kafka_bootstrap_servers=servers)
    return TopicDelivery(settings, Sink("sales_in_topic", of="sales", to=ChangesTopic(topic)), BY_ID)


def start(delivery: TopicDelivery, moment: Moment | None = None) -> "subprocess.Popen[str]":
    """Start a run in a process of its own."""
    settings = delivery.settings
    command = [sys.executable, "-m", "lakehouse_tests.helpers.attacks.topic_sink_worker", str(settings.home_folder)]
    command += [str(settings.kafka_bootstrap_servers), delivery.sink.to.name, *map(str, moment or ())]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def inject(method: str, when: str, nth: int) -> None:
    """Let this process die at a call of its producer."""
    original: Callable[..., Any] = getattr(AIOKafkaProducer, method)
    calls = count()

    async def call(*arguments: Any, **options: Any) -> Any:
        is_due = next(calls) == nth
        if is_due and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = await original(*arguments, **options)
        if is_due:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(AIOKafkaProducer, method, call)


def main() -> None:
    home, servers, topic, *moment = sys.argv[1:]
    if moment:
        inject(moment[0], moment[1], int(moment[2]))
    try:
        sys.stdout.write(json.dumps(asdict(delivery_of(Path(home), servers, topic).update())))
    except LakehouseError as error:
        sys.stdout.write(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main()
