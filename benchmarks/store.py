"""Tables in an object store and on the local disk: seconds and requests of a batch with feed and rollup.

The store answers each request 20 ms later than it could, as one in the same region does.
"""

import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.turns import Measurement
from benchmarks.world import World
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.log_copies import look_once
from lakehouse.local.servers import running_broker
from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.spark.sessions import build_session, stop_session
from lakehouse_tests.helpers.tables.azurite import RUNNING
from lakehouse_tests.helpers.tables.proxy_server import Fault
from lakehouse_tests.helpers.tables.store_proxy import StoreProxy, running_proxy
from lakehouse_tests.helpers.tables.tables import redeclare

ROWS, SIZES = 24_000, (0, 5, 5_000)
_DELAY = 0.02  # seconds
_WARM_UP_ROUNDS = 3


def run(turns: int) -> list[dict[str, object]]:
    """Measure a batch of each size in turns; return a row for each kind of store and size."""
    return [row for kind in RUNNING for row in _measure_sizes(kind, turns)]


def _measure_sizes(kind: str, turns: int) -> list[dict[str, object]]:
    with _prepared_worlds(kind) as (worlds, proxy):
        for world in worlds.values():
            world.fill(ROWS)
            world.derive()
        for _ in range(_WARM_UP_ROUNDS):
            _run_round(worlds, proxy, 5, {}, [])
        proxy.add_fault(Fault("delay", seconds=_DELAY))
        return [{"protocol": kind, **_measure(worlds, proxy, size, turns)} for size in SIZES]


def _measure(worlds: Mapping[str, World], proxy: StoreProxy, size: int, turns: int) -> dict[str, object]:
    measurements, requests = dict[str, Measurement](), list[int]()
    for _ in range(turns):
        _run_round(worlds, proxy, size, measurements, requests)
    on_disk, in_store = (measurements[name].median for name in worlds)
    return {
        "records": f"{size:,}",
        "disk, seconds": f"{on_disk:.2f}",
        "store, seconds": f"{in_store:.2f}",
        "store / disk": f"{in_store / on_disk:.2f}",
        "requests": f"{statistics.median(requests):.0f}",
        "at most": max(requests),
    }


def _run_round(
    worlds: Mapping[str, World], proxy: StoreProxy, size: int, measurements: dict[str, Measurement], requests: list[int]
) -> None:
    for name, world in worlds.items():
        if size:
            world.publish(size)
        proxy.reset()
        with measurements.setdefault(name, Measurement()).turn(), look_once():
            world.merge()
            world.derive()
    requests.append(len(proxy.requests()))


@contextmanager
def _prepared_worlds(kind: str) -> Iterator[tuple[dict[str, World], StoreProxy]]:
    """Yield a home with tables on the disk and one with tables in a store, which share a broker and a session."""
    with tempfile.TemporaryDirectory() as folder, RUNNING[kind]() as store, running_proxy(store) as proxy:
        homes = {name: Path(folder) / name for name in ("disk", "store")}
        broker_settings = Settings(home=Path(folder))
        with running_broker(broker_settings):
            servers = bootstrap_servers(broker_settings)
            disk = Settings(home=homes["disk"], kafka_bootstrap_servers=servers)
            in_store = Settings(
                home=homes["store"],
                tables=f"{store.root}/lake",
                kafka_bootstrap_servers=servers,
                spark_master="local[2]",
            )
            spark = build_session(in_store)
            try:
                settings = {"disk": disk, "store": in_store}
                yield {n: World(s, spark, table=redeclare(temperatures, topic=n)) for n, s in settings.items()}, proxy
            finally:
                stop_session(spark)
