"""How far a sink is: which version of its table the target has, and whether VACUUM waits for it. Without DuckDB.

The progress is a row of ``lakehouse_progress``, in the schema of the target.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lakehouse.declaration.sink import Outlet, PostgresTable, Sink
from lakehouse.errors import LakehouseError, LockedError, SettingsError, TableError, TopicError
from lakehouse.exports.progress import OutletStatus, export_status
from lakehouse.kafka import read_topic
from lakehouse.kafka.transactions import Marker, progress_topic, read_marker
from lakehouse.ledger.commit_values import Consumed
from lakehouse.ledger.consumption import Consumption
from lakehouse.ledger.ledger import ledger_of
from lakehouse.settings import Settings
from lakehouse.sinks.postgres_connection import connect_verified, hide_secrets, postgres_driver, require_readable_url

if TYPE_CHECKING:
    from psycopg import Connection

_PATIENCE = 120  # seconds to wait for another run of the sink
_SESSION = (
    f"SET LOCAL lock_timeout = '{_PATIENCE}s'",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL client_encoding = 'UTF8'",
    "SET LOCAL extra_float_digits = 1",  # rows are compared by the text of their values
)
PROGRESS = "lakehouse_progress"


class TargetProgress(NamedTuple):
    """What a target has: ``consumed`` is the version of the table, ``columns`` and ``identity`` are those written."""

    consumed: Consumed
    columns: Sequence[str]
    identity: Sequence[str]


@contextmanager
def open_connection(settings: Settings, sink: Sink, *, locked: bool) -> "Iterator[Connection[Any]]":
    """Open a transaction in the database of a sink, which is committed at the end, or rolled back after an error.

    It holds the lock of the target, or if it is not to be ``locked`` sees one moment. Raises ``SettingsError`` if no
    setting names the database, ``SetupError`` without the package psycopg, ``LockedError`` if another run holds the
    lock for more than two minutes, and ``TableError`` if the database refuses or does not respond.
    """
    url, place = _url_of(settings, sink), sink.to.place
    psycopg = postgres_driver()
    require_readable_url(psycopg, url)
    try:
        with connect_verified(psycopg, url) as connection:
            # after the lock, a run sees what the one before it committed, also if the server's default is stricter
            levels = psycopg.IsolationLevel
            connection.isolation_level = levels.READ_COMMITTED if locked else levels.REPEATABLE_READ
            connection.execute("; ".join(_SESSION).encode())
            if locked:
                lock_name = f"lakehouse {table_of(sink).full_name}"
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [lock_name])
            yield connection
    except psycopg.errors.LockNotAvailable:
        message = f"Sink {sink.name} was locked for {_PATIENCE} seconds: another transaction holds its target"
        raise LockedError(message, where=place, action="Run it again when that is done.") from None
    except psycopg.Error as error:
        action = "Nothing was written. Correct that, and run it again."
        message = f"Sink {sink.name}: the database refused: {hide_secrets(psycopg, url, error)}"
        raise TableError(message, where=place, action=action) from None


def _url_of(settings: Settings, sink: Sink) -> str:
    name = table_of(sink).database
    url = settings.sink_addresses.get(name)
    if url is None:
        message = f"Sink {sink.name} writes to {name}, which LAKEHOUSE_SINK_URLS does not name"
        raise SettingsError(message, action=f'Set it: {{"{name}": "postgresql://USER:PASSWORD@HOST/DATABASE"}}')
    return url


def table_of(sink: Sink) -> PostgresTable:
    """Return the target of a sink, if that is a table of PostgreSQL."""
    return cast("PostgresTable", sink.to)


def own_table(target: PostgresTable, name: str = PROGRESS) -> str:
    """Return the quoted name of a table that sinks have in the schema of a target, by default that of the progress."""
    return _quoted(target.full_name.partition(".")[0], name)


def _quoted(*names: str) -> str:
    from psycopg.sql import Identifier  # noqa: PLC0415 - an optional package

    return Identifier(*names).as_string(None)


def read_progress(connection: "Connection[Any]", sink: Sink) -> TargetProgress | None:
    """Read what a target has; ``None`` if it does not exist. ``TableError`` if it belongs to something else."""
    target = table_of(sink)
    names = [_quoted(*target.full_name.split(".")), own_table(target)]
    query = "SELECT to_regclass(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL"
    exists, has_progress = connection.execute(query, names).fetchone() or (False, False)
    place = names[1].replace("%", "%%")
    query = f"SELECT sink, table_id, version, commit_id, columns, identity FROM {place} WHERE target = %s"
    row = connection.execute(query.encode(), [target.full_name]).fetchone() if has_progress else None
    problem = "exists already, and no sink created it" if exists and not row else ""
    if row and row[0] != sink.name:
        problem = f"is written by the sink {row[0]}"
    if problem:
        action = f"Choose another name, or drop that table and its row in {PROGRESS}, if there is one."
        raise TableError(f"Sink {sink.name}: {sink.to.place} {problem}", action=action)
    if row is None or not exists:
        return None
    _, table_id, version, commit, columns, identity = row
    return TargetProgress(Consumed(table_id=table_id, version=version, commit=commit), columns, identity)


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
    if isinstance(sink.to, PostgresTable):
        with open_connection(settings, sink, locked=False) as connection:
            progress = read_progress(connection, sink)
        return progress.consumed if progress else None
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
