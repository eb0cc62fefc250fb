"""A topic whose tables are in an object store behind a proxy, and a warm process that writes them."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest

import lakehouse.errors
from lakehouse.kafka import create_topic, read_topic
from lakehouse.ledger.audit import audit
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse_tests.helpers.attacks.reliability import Target
from lakehouse_tests.helpers.attacks.worker import Job
from lakehouse_tests.helpers.attacks.workers import Worker
from lakehouse_tests.helpers.brokers.streams import delete, hour, record, send
from lakehouse_tests.helpers.tables.azurite import RUNNING, AnyStore
from lakehouse_tests.helpers.tables.rows import hour_of, rows_of
from lakehouse_tests.helpers.tables.store_proxy import StoreProxy, running_proxy
from lakehouse_tests.helpers.tables.tables import Tables
from lakehouse_tests.helpers.waiting import wait_until

_DELETED_SHARE = 0.25  # of the records
_HOURS = range(12)
_STEPS = ("merge", "refresh")  # what the command lakehouse merge does


@dataclass(frozen=True)
class StoreWorld:
    """A broker, a store and its proxy; settings with tables in the store."""

    settings: Settings
    store: AnyStore
    proxy: StoreProxy

    @property
    def target(self) -> Target:
        """What an attack on these tables is counted as."""
        return Target.AZURE if self.settings.store.kind == "azure" else Target.S3


@contextmanager
def running_world(broker: Settings, kind: str) -> Iterator[StoreWorld]:
    """Provide a new store behind a proxy; workers that start inside the block have their tables in it."""
    with RUNNING[kind]() as store, running_proxy(store) as proxy, pytest.MonkeyPatch.context() as patch:
        root = f"{store.root}/attacks"
        patch.setenv("LAKEHOUSE_TABLES", root)
        home, servers = broker.home_folder, bootstrap_servers(broker)
        settings = Settings(home=home, tables=root, kafka_bootstrap_servers=servers, _env_file=None)
        yield StoreWorld(settings, store, proxy)


@dataclass
class StoreScene:
    """A topic with its tables in a store, and the expected rows; a worker writes them."""

    world: StoreWorld
    job: Job
    rng: random.Random
    rows: dict[str, float | None] = field(default_factory=dict)
    sent_count: int = 0

    @classmethod
    def create(cls, world: StoreWorld, seed: int, max_records: int | None = None) -> "StoreScene":
        name = f"o_{uuid4().hex[:12]}"
        job = Job("merge", name, name, max_records)
        create_topic(world.settings, job.table)
        return cls(world, job, random.Random(seed))

    @property
    def tables(self) -> Tables:
        return Tables(self.world.settings, self.job.table)

    def send(self, count: int) -> None:
        """Send rows, updates, deletes and malformed records; all records of a key go to one partition."""
        for partition in range(3):
            values: list[bytes | None] = [b"{"] * self.rng.randrange(2)
            for _ in range(count // 3):
                time = hour(self.rng.choice(_HOURS[partition::3]))
                if self.rng.random() < _DELETED_SHARE:
                    values.append(delete(time))
                    self.rows.pop(time, None)
                    continue
                value = self.rng.choice([None, *(round(self.rng.uniform(-20, 40), 1) for _ in range(4))])
                values.append(record(time=time, temperature_2m=value))
                self.rows[time] = self.rows.get(time) if value is None else value
            send(self.world.settings, self.job.topic, values, partition)
            self.sent_count += len(values)

    def merge(self, worker: Worker) -> list[dict[str, Any]]:
        """Merge and refresh; return the answers until the first error."""
        answers = []
        for step in _STEPS:
            answers.append(worker.do(replace(self.job, do=step)))
            if "error" in answers[-1]:
                break
        return answers

    def assert_right_after(self, worker: Worker) -> None:
        """Merge without faults; check the tables, and that a replay changes nothing."""
        self.world.proxy.clear_faults()
        answers = self.merge(worker)
        assert all("done" in answer for answer in answers), answers
        self.assert_right()
        rows_before = self.stored_rows()
        answer = worker.do(replace(self.job, do="read_again", max_records=None))
        assert "done" in answer, answer
        assert self.stored_rows() == rows_before
        assert not [finding for finding in audit(self.tables.ledger()) if not finding.passed]

    def stored_rows(self) -> list[str]:
        return sorted(map(str, rows_of(self.world.settings, self.job.name)))

    def assert_right(self) -> None:
        """Everything sent is merged exactly once, and the feed and the rollup say the same as the table."""
        ledger, rows = self.tables.ledger(), rows_of(self.world.settings, self.job.name)
        assert sorted((hour_of(row), row["temperature_2m"]) for row in rows) == sorted(self.rows.items())
        assert ledger.totals.read == self.sent_count
        assert ledger.progress and ledger.progress.positions == read_topic(self.world.settings, self.job.topic).end
        assert not [finding for finding in audit(ledger) if not finding.passed]
        self.tables.deletes()  # raises if a row is older than its delete
        assert self.rows_of_feed() == self.rows
        months = Counter(f"{row['observed_at']:%Y-%m}" for row in rows)
        rollup = rows_of(self.world.settings, self.job.table.rollups[0].name)
        assert {f"{row['observed_month']:%Y-%m}": row["rows"] for row in rollup} == months

    def rows_of_feed(self) -> dict[str, float | None]:
        """The rows after all changes of the feed; no version is recorded twice."""
        changes = defaultdict(list)
        for row in rows_of(self.world.settings, self.job.table.changes_name):
            changes[hour_of(row)].append((row["number"], row["source_version"], row))
        assert all(len(rows) == len({row[:2] for row in rows}) for rows in changes.values()), "a change has two rows"
        newest = {time: max(rows, key=lambda row: row[:2])[2] for time, rows in changes.items()}
        return {time: row["temperature_2m_after"] for time, row in newest.items() if row["change"] != "delete"}


class Writers:
    """Warm processes that write tables in a store; one that was killed is replaced when the next is needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._workers: list[Worker] = []

    def take(self, count: int = 1) -> list[Worker]:
        """Return this many that are ready; more than that are stopped."""
        self.stop(count)
        new_workers = [Worker(self._settings) for _ in range(count - len(self._workers))]
        self._workers += new_workers
        for worker in new_workers:
            worker.wait_ready()
        return [*self._workers]

    def kill(self, worker: Worker) -> None:
        """Kill a process together with its JVM."""
        self._workers.remove(worker)
        worker.stop()

    def stop(self, remaining_count: int = 0) -> None:
        for worker in self._workers[remaining_count:]:
            self.kill(worker)


def await_request(world: StoreWorld, method: str, path: str) -> None:
    """Wait until the store got such a request since the last reset; ``path`` is a regular expression for a part."""

    def has_request() -> bool:
        return any(request.method == method and re.search(path, request.path) for request in world.proxy.requests())

    assert wait_until(has_request, 120)


def fault_count(world: StoreWorld) -> int:
    """The number of requests since the last reset that got an injected fault."""
    return sum(bool(request.fault) for request in world.proxy.requests())


def unanswered_count(world: StoreWorld) -> int:
    """The number of requests since the last reset that the store did not answer."""
    return sum(request.status == 0 for request in world.proxy.requests())


def assert_clear(answer: dict[str, Any]) -> None:
    """An error is a sentence of lakehouse, without the trace of another program."""
    if "error" in answer:
        assert issubclass(getattr(lakehouse.errors, answer["error"], type(None)), lakehouse.errors.LakehouseError)
        assert "\n\tat " not in answer["text"], answer
