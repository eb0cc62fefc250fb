"""The parts a verb works with: settings, a broker, a Spark session; what it started, it stops."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakehouse.cli.output import busy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings


def load_settings() -> "Settings":
    """Read the settings from the environment and ``.env``."""
    from lakehouse.settings import Settings

    return Settings.load()


@contextmanager
def broker(settings: "Settings") -> Iterator[str]:
    """The broker of the settings; an embedded one that is not up is started, and stopped afterwards."""
    from lakehouse.local.broker import running_broker

    with busy("Looking for the broker") as status, running_broker(settings) as address:
        status.stop()
        yield address


@contextmanager
def spark(settings: "Settings") -> "Iterator[SparkSession]":
    """A Spark session, stopped afterwards."""
    from lakehouse.spark import build_session, stop_session

    with busy("Starting Spark"):
        session = build_session(settings)
    try:
        yield session
    finally:
        stop_session(session)
