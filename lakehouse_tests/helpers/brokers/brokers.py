"""Brokers that fail: nodes of a cluster that are killed and started again, and a broker that is restarted."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from aiokafka.admin import AIOKafkaAdminClient
from pyspark.sql import DataFrame

from lakehouse.kafka import Record, read, read_records
from lakehouse.kafka.newest_records import to_record
from lakehouse.local.embedded import broker_answers, draw_ports
from lakehouse.local.process import Child
from lakehouse.local.servers import Kafka, new_cluster_id
from lakehouse.settings import Settings
from lakehouse.settings.addresses import LOOPBACK, Ports
from lakehouse.sources import table_sources
from lakehouse_tests.helpers.brokers.clients import with_client
from lakehouse_tests.helpers.waiting import wait_until

NODE = """
node.id={number}
controller.quorum.voters={voters}
controller.quorum.election.timeout.ms=500
controller.quorum.fetch.timeout.ms=1000
default.replication.factor=3
min.insync.replicas=2
log.cleaner.backoff.ms=200
"""


class Node:
    """A process that is one broker and controller of a cluster."""

    def __init__(self, folder: Path, number: int) -> None:
        folder.mkdir()
        self._folder = folder
        self.number = number
        self.ports: Ports = draw_ports(folder)
        self._command: list[str] = []
        self._child: Child | None = None

    def prepare(self, voters: str, cluster_id: str) -> None:
        command = Kafka(Settings(_env_file=None), self._folder).command(self.ports)
        properties = Path(command[-1])
        properties.write_text(properties.read_text() + NODE.format(number=self.number, voters=voters))
        self._command = ["-Xmx256m" if part.startswith("-Xmx") else part for part in command]
        format_command = [*self._command[:-2], "kafka.tools.StorageTool", "format", "--cluster-id", cluster_id]
        subprocess.run([*format_command, "--config", str(properties)], check=True, capture_output=True)

    def start(self) -> None:
        self._child = Child(self._command, self._folder / "log")

    def kill(self) -> None:
        assert self._child
        self._child.kill()

    def stop(self) -> None:
        if self._child:
            self._child.stop(2.0)

    def answers(self) -> bool:
        return broker_answers(self.ports.broker)


class Cluster:
    """Three nodes. A partition has three replicas, and two of them must store a record."""

    def __init__(self, folder: Path) -> None:
        self.nodes = {number: Node(folder / str(number), number) for number in (1, 2, 3)}
        voters = ",".join(f"{n}@{LOOPBACK}:{node.ports.controller}" for n, node in self.nodes.items())
        servers = ",".join(node.ports.address for node in self.nodes.values())
        self.settings = Settings(home=folder / "home", kafka_bootstrap_servers=servers, _env_file=None)
        cluster_id = new_cluster_id()
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda node: node.prepare(voters, cluster_id), self.nodes.values()))

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()
        assert wait_until(lambda: all(node.answers() for node in self.nodes.values()), 60)

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()

    def partitions(self, topic: str) -> dict[int, tuple[int, list[int]]]:
        """Return the leader and the in-sync replicas of every partition."""
        (description,) = with_client(AIOKafkaAdminClient, self.settings, lambda admin: admin.describe_topics([topic]))
        return {
            partition["partition"]: (partition["leader"], partition["isr"]) for partition in description["partitions"]
        }

    @contextmanager
    def leader_killed(self, topic: str) -> Iterator[Callable[[], None]]:
        """Yield a function that kills the leader of partition 0; afterwards bring the node back in sync."""
        leader = self.nodes[self.partitions(topic)[0][0]]
        try:
            yield leader.kill
        finally:
            leader.kill()
            leader.start()
            assert wait_until(lambda: self._is_in_sync(topic), 60)

    def _is_in_sync(self, topic: str) -> bool:
        return all(node.answers() for node in self.nodes.values()) and all(
            len(in_sync) == len(self.nodes) for _, in_sync in self.partitions(topic).values()
        )


class Interference:
    """Interferes once with the next batch that is merged."""

    def __init__(self, monkeypatch: Any, folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self._folder = folder

    def before_reading(self, action: Callable[[], object]) -> None:
        """Run an action between the plan and the read of the batch."""

        def read_after_action(*arguments: Any) -> DataFrame:
            self._monkeypatch.setattr(table_sources, "read_records", read_records)
            action()
            return read_records(*arguments)

        self._monkeypatch.setattr(table_sources, "read_records", read_after_action)

    def while_reading(self, pid: int, number: signal.Signals) -> Path:
        """Send a signal to a process when Spark reads the first partition; return a file that exists from then on."""
        signal_file = self._folder / uuid4().hex
        self._monkeypatch.setattr(read, "FEW_POSITIONS", 0)

        def send_signal(rows: Iterator[Any]) -> Iterator[Any]:
            for batch in rows:
                with suppress(FileExistsError):
                    signal_file.touch(exist_ok=False)
                    os.kill(pid, number)
                yield batch

        def read_with_signal(*arguments: Any) -> DataFrame:
            self._monkeypatch.setattr(table_sources, "read_records", read_records)
            frame = read_records(*arguments)
            return frame.mapInArrow(send_signal, frame.schema)

        self._monkeypatch.setattr(table_sources, "read_records", read_with_signal)
        return signal_file

    def while_one_client_reads(self, pid: int, number: signal.Signals) -> Path:
        """Like ``while_reading``, when one client has read the first record."""
        signal_file = self._folder / uuid4().hex

        def send_signal(message: Any) -> Record:
            if not signal_file.exists():
                signal_file.touch()
                os.kill(pid, number)
            return to_record(message)

        self._monkeypatch.setattr(read, "to_record", send_signal)
        return signal_file
