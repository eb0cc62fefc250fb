"""Start the engine of a home and inspect its statements."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import grpc

from lakehouse.settings import Settings
from lakehouse.settings.addresses import bootstrap_servers
from lakehouse.spark.connect import open_channel
from lakehouse.spark.engine import EngineProcess
from lakehouse.spark.orphans import SessionWork
from lakehouse.spark.sessions import engine_conf, fingerprint
from lakehouse.storage.lock import Writer


def home_of_workers(home: Path, broker: Settings) -> Settings:
    """Return the settings of a worker of this home."""
    return Settings(
        home=home,
        kafka_bootstrap_servers=bootstrap_servers(broker),
        spark_master="local[1]",
        spark_driver_memory="640m",
        _env_file=None,
    )


@contextmanager
def running_engine(settings: Settings) -> Iterator[EngineProcess]:
    """Start the engine of a home, which may not answer yet; a command that attaches waits for it."""
    engine = EngineProcess(settings, engine_conf(settings), fingerprint(settings))
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


def writer_of(settings: Settings, name: str) -> Writer | None:
    """Return the writer that is recorded for a table."""
    note = Path(settings.table_uri(name)).parent / ".locks" / f"{name}.writer"
    return Writer(**json.loads(note.read_text())) if note.exists() else None


def runs(writer: Writer | None) -> bool:
    """Whether a statement of this writer is running on its engine."""
    if writer is None:
        return False
    channel = open_channel(Path(writer.engine), writer.session)
    assert channel, "the engine does not answer"
    try:
        return bool(SessionWork(channel, writer.session, time.monotonic() + 10).list_running())
    except grpc.RpcError as error:
        if "INVALID_HANDLE" in (error.details() or ""):  # the engine has closed the session
            return False
        raise


def page(url: str) -> str:
    """Read a page of the Spark UI of an engine."""
    with urlopen(url, timeout=60) as response:  # noqa: S310 - an address on loopback
        text: str = response.read().decode()
    return text
