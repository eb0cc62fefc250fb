"""How far a sink is: which version of its table the target has, and whether VACUUM waits for it. Without DuckDB.

The progress is a row of ``lakehouse_progress``, in the schema of the target.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from lakehouse.declaration.sink import DatabaseTable, DataExplorerTable, Outlet, PostgresTable, Sink
from lakehouse.errors import LakehouseError, TopicError
from lakehouse.exports.progress import OutletStatus, export_status
from lakehouse.kafka import read_topic
from lakehouse.kafka.transactions import Marker, progress_topic, read_marker
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import ledger_of
from lakehouse.settings import Settings
from lakehouse.sinks.data_explorer_cluster import open_cluster
from lakehouse.sinks.database_session import DatabaseSession
from lakehouse.sinks.postgres_session import open_postgres
from lakehouse.sinks.sql_server_session import open_sql_server


@contextmanager
def open_session(settings: Settings, sink: Sink, *, locked: bool) -> Iterator[DatabaseSession]:
    """Open a transaction in the database of a sink; under the lock of the target, or only to read."""
    open_database = open_postgres if isinstance(sink.to, PostgresTable) else open_sql_server
    with open_database(settings, sink, locked=locked) as session:
        yield session


def sink_status(settings: Settings, sink: Sink, retention: timedelta) -> OutletStatus:
    """Read how far a target is; ``retention`` is that of the table. A target that refuses is part of the state."""
    state = OutletStatus(sink.name, sink.of, sink.enabled, None, None, None, sink.enabled, target=sink.to.place)
    try:
        consumed = _read_consumed(settings, sink)
    except LakehouseError as error:
        return replace(state, problem=str(error))
    consumption = Consumption(ledger_of(settings, sink.of), consumed)
    holds_vacuum = sink.enabled and consumption.has_source and consumption.is_overdue(retention)
    return replace(state, source_version=consumption.version, lag=consumption.lag, holds_vacuum=holds_vacuum)


def _read_consumed(settings: Settings, sink: Sink) -> Consumed | None:
    if isinstance(sink.to, DatabaseTable):
        with open_session(settings, sink, locked=False) as session:
            progress = session.progress
        return progress.consumed if progress else None
    if isinstance(sink.to, DataExplorerTable):
        with open_cluster(settings, sink) as cluster:
            return cluster.read_ranges().consumed
    marker = find_marker(settings, sink.to.name)
    if marker and marker["topic"] != topic_facts(settings, sink.to.name)["topic"]:
        fact, action = f"The {sink.to.place} is not the one that was sent to", f"Run: lakehouse export {sink.name}"
        raise TopicError(fact, action=action)
    return marker_progress(marker)


def find_marker(settings: Settings, topic: str) -> Marker | None:
    """Read the progress of the sender of a topic; ``None`` if its topic of progress does not exist."""
    try:
        read_topic(settings, progress_topic(topic))
    except TopicError:
        return None
    return read_marker(settings, topic)


def topic_facts(settings: Settings, topic: str) -> Marker:
    """Return what a marker has of its topic: the identity, which another one of its name does not have, and its size.

    Both are empty if the topic is missing.
    """
    try:
        state = read_topic(settings, topic)
    except TopicError:
        return {"topic": "", "partitions": 0}
    return {"topic": f"{state.source.kind}:{state.source.identity}", "partitions": len(state.end)}


def marker_progress(marker: Marker | None) -> Consumed | None:
    """Return the version of the table that a topic has; ``None`` if it has none as a whole."""
    return Consumed.model_validate(marker["consumed"]) if marker and marker["consumed"] else None


def outlet_status(settings: Settings, outlet: Outlet, retention: timedelta) -> OutletStatus:
    """Read the state of an outlet; ``retention`` is that of its table."""
    if isinstance(outlet, Sink):
        return sink_status(settings, outlet, retention)
    return export_status(settings, outlet, retention)


def reason_to_wait(settings: Settings, outlet: Outlet, retention: timedelta) -> str | None:
    """Why VACUUM of the table has to wait for an outlet; ``None`` if it need not."""
    status, name = outlet_status(settings, outlet, retention), f"{type(outlet).__name__.lower()} {outlet.name}"
    if not status.holds_vacuum:
        return None
    if status.source_version is None:
        return f"It is unknown what {name} has read: {status.problem}"
    progress = f"{name} has read {outlet.of} only up to version {status.source_version}"
    return f"{progress}. Run: lakehouse export {outlet.name}"
