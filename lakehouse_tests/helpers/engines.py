"""The engine of a home as the tests start it, and what runs on it."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import grpc

from lakehouse.settings import Settings
from lakehouse.settings.broker_address import bootstrap_servers
from lakehouse.spark.connect.channel import open_channel
from lakehouse.spark.connect.orphans import Work
from lakehouse.spark.engine import EngineProcess
from lakehouse.spark.sessions import engine_conf, fingerprint
from lakehouse.storage.writer_note import Writer


def home_of_workers(home: Path, broker: Settings) -> Settings:
    """The settings that a worker of this home has."""
    return Settings(
        home=home,
        kafka_bootstrap_servers=bootstrap_servers(broker),
        spark_master="local[1]",
        spark_driver_memory="640m",
        _env_file=None,
    )


@contextmanager
def running_engine(settings: Settings) -> Iterator[EngineProcess]:
    """The engine of a home, which may not answer yet; whoever attaches waits for it."""
    engine = EngineProcess(settings, engine_conf(settings), fingerprint(settings))
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


def writer_of(settings: Settings, name: str) -> Writer | None:
    """Who is noted as the writer of a table."""
    note = Path(settings.table_uri(name)).parent / ".locks" / f"{name}.writer"
    return Writer(**json.loads(note.read_text())) if note.exists() else None


def runs(writer: Writer | None) -> bool:
    """Whether a statement of this writer runs on its engine."""
    if writer is None:
        return False
    channel = open_channel(Path(writer.engine), writer.session)
    assert channel, "the engine does not answer"
    try:
        return bool(Work(channel, writer.session, time.monotonic() + 10).running())
    except grpc.RpcError as error:
        if "INVALID_HANDLE" in (error.details() or ""):  # the engine has given the session up
            return False
        raise


def page(url: str) -> str:
    """What Spark shows at this address of an engine."""
    with urlopen(url, timeout=60) as answer:  # noqa: S310 - an address of our own
        text: str = answer.read().decode()
    return text
