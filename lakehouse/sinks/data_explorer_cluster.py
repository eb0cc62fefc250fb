"""Opens a database of Azure Data Explorer, reads and records the progress of a sink there, and hides its secrets.

Without DuckDB, as ``lakehouse status`` needs it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from io import BytesIO
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lakehouse.declaration.sink import DataExplorerTable, Sink
from lakehouse.errors import SettingsError, SetupError, TableError
from lakehouse.ledger.commit_values import Consumed
from lakehouse.settings import Settings
from lakehouse.sinks import data_explorer_kql as kql
from lakehouse.sinks.data_explorer_kql import Range

if TYPE_CHECKING:
    from azure.kusto.data import KustoClient, KustoConnectionStringBuilder
    from azure.kusto.ingest import QueuedIngestClient

_LONGEST_PAUSE = 16  # seconds between two calls
_SECONDS_TO_ANSWER = 300
_FORM = "Data Source=https://CLUSTER.REGION.kusto.windows.net;Initial Catalog=DATABASE;..."
_OWN_TABLE = re.compile(r"lakehouse:(\w+):(\d+)")
_URL_WITH_SECRET = re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\"]*")
_SECRETS = ("application_key", "application_token", "application_certificate", "user_token", "password")


class TargetRanges(NamedTuple):
    """What a target has: the newest complete range, and the one that is ``pending``, if a run did not end.

    ``generation`` is the ordinal of the range that the table was created for; ``None`` if the table is missing.
    ``leftovers`` are the tables of other ranges of all rows, by name, with their ordinals. ``has_rivals``: two runs
    recorded the same range for the table, so parts of both may be in it, or still arrive.
    """

    generation: int | None = None
    complete: Range | None = None
    pending: Range | None = None
    leftovers: Mapping[str, int] = {}
    has_rivals: bool = False

    @property
    def consumed(self) -> Consumed | None:
        """The version that the target has as a whole; ``None`` also if a new table is there, and not yet complete."""
        if self.complete is None or self.generation is None or self.complete.ordinal < self.generation:
            return None
        return self.complete.consumed

    @property
    def newest_ordinal(self) -> int:
        """The ordinal of the newest range; 0 if there is none."""
        return max(self.generation or 0, *(range_.ordinal for range_ in (self.complete, self.pending) if range_), 0)


@dataclass(frozen=True)
class Cluster:
    """The database of a sink. Each call ends with ``TableError`` if the service refuses or does not respond."""

    sink: Sink
    builder: "Callable[[], KustoConnectionStringBuilder]"

    @cached_property
    def database(self) -> str:
        """The name of the database."""
        return str(self.builder().initial_catalog or "")

    @cached_property
    def client(self) -> "KustoClient":
        """The client of the engine."""
        from azure.kusto.data import KustoClient  # noqa: PLC0415 - an optional package

        return KustoClient(self.builder())

    @cached_property
    def ingestion(self) -> "QueuedIngestClient":
        """The client that queues blobs at the ingestion endpoint of the cluster."""
        from azure.kusto.ingest import QueuedIngestClient  # noqa: PLC0415 - an optional package

        client = QueuedIngestClient(self.builder())
        client._MAX_RETRIES = 1  # the next one would send the rest of the stream, which is empty
        return client

    def run(self, text: str) -> list[dict[str, Any]]:
        """Run a command or a query; return its rows."""
        from azure.kusto.data import ClientRequestProperties  # noqa: PLC0415 - an optional package

        properties = ClientRequestProperties()  # type: ignore[no-untyped-call]
        limit = timedelta(seconds=_SECONDS_TO_ANSWER)
        properties.set_option(ClientRequestProperties.request_timeout_option_name, limit)
        properties.set_option("queryconsistency", "strongconsistency")  # a cluster may prefer older rows
        result = self.call(lambda: self.client.execute(self.database, text, properties))
        return [row.to_dict() for row in result.primary_results[0]]

    def call(self, call: Callable[[], Any]) -> Any:
        """Call the library again while the service is busy, or away, for about half a minute."""
        from azure.core.exceptions import AzureError  # noqa: PLC0415 - an optional package
        from azure.kusto.data.exceptions import KustoError  # noqa: PLC0415 - an optional package

        pause = 1
        while True:
            try:
                return call()
            except (KustoError, AzureError, OSError, LookupError, ValueError) as error:  # the last two: other answers
                if pause > _LONGEST_PAUSE or not _is_passing(error):
                    reason = self.hide_secrets(getattr(error, "inner", error))  # of a blob, whose error has no text
                    message = f"Sink {self.sink.name}: the service refused: {reason}"
                    action = "Nothing is lost: the next run continues. Correct that, and run it again."
                    raise TableError(message, where=self.sink.to.place, action=action) from None
            sleep(pause)
            pause *= 2

    def read_ranges(self) -> TargetRanges:
        """Read what the target has. ``TableError`` if it belongs to something else."""
        target = self.sink.to.name
        rows = self.run(kql.show_tables(target))
        owners = {row["TableName"]: _OWN_TABLE.fullmatch(row["DocString"] or "") for row in rows}
        ordinals = {name: int(own[2]) for name, own in owners.items() if own and own[1] == self.sink.name}
        if target in owners.keys() - ordinals.keys():
            own = owners[target]
            problem = f"is written by the sink {own[1]}" if own else "exists already, and no sink created it"
            action = "Choose another name, or drop that table."
            raise TableError(f"Sink {self.sink.name}: {self.sink.to.place} {problem}", action=action)
        generation = ordinals.pop(target, None)
        rows = self.run(kql.newest_progress(target, generation or 0)) if kql.PROGRESS in owners else []
        newest = {row["state"]: Range(**{field: row[field] for field in Range._fields}) for row in rows}
        complete, sending = newest.get(kql.COMPLETE), newest.get(kql.SENDING)
        is_pending = sending and (complete is None or sending.ordinal > complete.ordinal)
        has_rivals = any((row["copies"] or 0) > 1 for row in rows)
        return TargetRanges(generation, complete, sending if is_pending else None, ordinals, has_rivals)

    def record(self, row: Range) -> TargetRanges:
        """Add a row to the progress, unless there is one of its ordinal and state; read again what the target has.

        The service may report a row that is there as an error, so only what is there decides.
        """
        failure = None
        try:
            self.run(kql.append_progress(row))
        except TableError as error:
            failure = error
        ranges = self.read_ranges()
        newest = ranges.complete if row.state == kql.COMPLETE else ranges.pending or ranges.complete
        if newest is None or newest.ordinal < row.ordinal:
            raise failure or TableError(f"Sink {self.sink.name}: its progress is missing", action="Run it again.")
        return ranges

    def drop_leftovers(self, ranges: TargetRanges) -> None:
        """Drop tables that runs left, as old as that of the target: their rows may have been erased."""
        names = [name for name, ordinal in ranges.leftovers.items() if ordinal <= (ranges.generation or 0)]
        if names:
            self.run(kql.drop_tables(names))

    def require_no_views(self) -> None:
        """Raise ``TableError`` if the table has a materialized view: it would not follow a new table."""
        for row in self.run(kql.show_views(self.sink.to.name)):
            message = (
                f"Sink {self.sink.name} has to send all rows into a new table, which the view {row['Name']} hinders"
            )
            action = f"Run .drop materialized-view {row['Name']}, run the sink, and create the view again."
            raise TableError(message, where=self.sink.to.place, action=action)

    def queue(self, range_: Range, mapping: str, number: int, lines: bytes) -> str:
        """Queue a part of a range, to be ingested alone and at once; return the id that its blob has in its name."""
        from azure.kusto.data.data_format import DataFormat  # noqa: PLC0415 - an optional package
        from azure.kusto.ingest import IngestionProperties  # noqa: PLC0415 - an optional package

        tags = [f"{range_.tag_prefix}{number}"]
        properties = IngestionProperties(
            self.database,
            range_.table,
            DataFormat.JSON,
            ingestion_mapping_reference=mapping,
            ingest_by_tags=tags,
            ingest_if_not_exists=tags,
            flush_immediately=True,  # blobs of one batch are ingested together, also if their tags are equal
        )
        return str(self.call(lambda: self.ingestion.ingest_from_stream(BytesIO(lines), properties)).source_id)

    def close(self) -> None:
        """Close the clients that were opened."""
        for name in {"client", "ingestion"} & self.__dict__.keys():
            self.__dict__[name].close()

    def hide_secrets(self, reason: object) -> str:
        """Return a message without keys, and without the parameters of URLs, which are keys too."""
        message = " ".join(str(reason).split()) or type(reason).__name__
        builder = self.builder()
        for secret in filter(None, (getattr(builder, name, None) for name in _SECRETS)):
            message = message.replace(str(secret), "***")
        return _URL_WITH_SECRET.sub(r"\1?***", message)


@contextmanager
def open_cluster(settings: Settings, sink: Sink) -> Iterator[Cluster]:
    """Open the database of a sink.

    Raises ``SettingsError`` if no setting has its connection string, and ``SetupError`` without the package.
    """
    name = cast("DataExplorerTable", sink.to).database
    connection = settings.sink_addresses.get(name)
    if connection is None or not connection.lower().startswith("data source="):
        message = f"Sink {sink.name} writes to {name}, of which LAKEHOUSE_SINK_URLS has no connection string"
        raise SettingsError(message, action=f'Set it: {{"{name}": "{_FORM}"}}')
    cluster = Cluster(sink, lambda: _builder_of(connection))
    if not cluster.database:
        raise SettingsError(f"The connection string of {name} cannot be read", action=f"Write {_FORM}")
    try:
        yield cluster
    finally:
        cluster.close()


def _builder_of(connection: str) -> "KustoConnectionStringBuilder":
    try:
        from azure.kusto.data import KustoConnectionStringBuilder as Builder  # noqa: PLC0415 - an optional package
    except ImportError:
        action = "Install it: pip install 'dagster-lakehouse[data-explorer]'."
        raise SetupError("The package azure-kusto-ingest is missing", action=action) from None
    try:
        builder = Builder(connection.rstrip("; "))
    except (KeyError, ValueError):  # its text has the secret
        raise SettingsError("The connection string of a sink cannot be read", action=f"Write {_FORM}") from None
    source, database = str(builder.data_source), builder.initial_catalog
    if not source.lower().startswith("https://"):  # the settings allow that for this machine alone
        builder = Builder.with_no_authentication(source)
    elif any(getattr(builder, name, None) for name in _SECRETS):
        builder["AAD Federated Security"] = True  # else no token is sent
    else:
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - an optional package

        credential = DefaultAzureCredential(managed_identity_client_id=builder.application_client_id)
        builder = Builder.with_azure_token_credential(source, credential)
    builder.initial_catalog = str(database or "")
    return builder


def _is_passing(error: Exception) -> bool:
    """Whether the service may accept the same call later."""
    from azure.kusto.data.exceptions import (  # noqa: PLC0415 - an optional package
        KustoBlobError,
        KustoNetworkError,
        KustoThrottlingError,
    )
    from azure.kusto.ingest import KustoQueueError  # noqa: PLC0415 - an optional package

    status = getattr(getattr(error, "http_response", None), "status_code", 0)
    passing = (KustoNetworkError, KustoThrottlingError, KustoBlobError, KustoQueueError)
    return isinstance(error, passing) or status >= 500
