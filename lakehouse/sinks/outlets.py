"""Opens what is declared to follow a table: an export or a sink."""

from collections.abc import Iterable

from lakehouse.declaration import StreamTable
from lakehouse.declaration.export import Export
from lakehouse.declaration.sink import ChangesTopic, DataExplorerTable, Outlet, Sink, row_identity
from lakehouse.exports.exporter import Exporter
from lakehouse.settings import Settings
from lakehouse.sinks.data_explorer import DataExplorerDelivery
from lakehouse.sinks.database import DatabaseDelivery
from lakehouse.sinks.delivery import Delivery
from lakehouse.sinks.topic import TopicDelivery


def runner_of(settings: Settings, outlet: Outlet, tables: Iterable[StreamTable]) -> Exporter | Delivery:
    """Return what runs an outlet in an environment; ``tables`` has the declaration of its table."""
    if isinstance(outlet, Export):
        return Exporter(settings, outlet)
    return delivery_of(settings, outlet, tables)


def delivery_of(settings: Settings, sink: Sink, tables: Iterable[StreamTable]) -> Delivery:
    """Return what runs a sink; ``tables`` has the declaration of its table."""
    (identity,) = filter(None, (row_identity(table, sink.of) for table in tables))
    if isinstance(sink.to, ChangesTopic):
        return TopicDelivery(settings, sink, identity)
    kind = DataExplorerDelivery if isinstance(sink.to, DataExplorerTable) else DatabaseDelivery
    return kind(settings, sink, identity)
