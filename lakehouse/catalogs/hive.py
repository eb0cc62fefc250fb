"""Tables in a Hive metastore, by its Thrift interface."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import time
from typing import Any

from lakehouse.catalogs.catalog import Catalog
from lakehouse.catalogs.hive_tables import INPUT_FORMAT, OUTPUT_FORMAT, SERDE, fit_to_hive, hive_properties
from lakehouse.catalogs.registration import TABLE_ID, RegisteredColumn, Registration
from lakehouse.errors import CatalogError, SetupError
from lakehouse.settings.store import Store

_SECONDS = 10.0  # for one answer
_ADVICE = "The table itself is not affected. Correct LAKEHOUSE_CATALOG or the metastore, or run it again later."


class HiveCatalog(Catalog):
    """A database of a Hive metastore, which is reached without encryption and without a password."""

    def __init__(self, host: str, port: int, database: str) -> None:
        try:
            from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes  # noqa: PLC0415 - an optional package
        except ImportError:
            action = "Install it: pip install 'dagster-lakehouse[hive]'."
            raise SetupError("The package pymetastore is missing, which knows Hive's protocol", action=action) from None
        self.place, self._address, self._database = f"hive://{host}:{port}/{database}", (host, port), database
        self._types, self._client_class = ttypes, ThriftHiveMetastore.Client

    def fit(self, registration: Registration) -> Registration:
        """Return it with lower-case names and short comments; ``CatalogError`` if two names are then equal."""
        return fit_to_hive(registration, self.place)

    def read(self, name: str) -> Registration | None:
        """Return what the metastore has under a name; ``None`` if it has no such table, or no such database."""
        with self._connected() as client:
            try:
                table = client.get_table(self._database, name)
            except self._types.NoSuchObjectException:
                return None
        parameters = table.parameters or {}
        return Registration(
            name,
            Store(table.sd.location or "").catalog_location,
            tuple(RegisteredColumn(column.name, column.type, column.comment or "") for column in table.sd.cols),
            parameters.get("comment", ""),
            table.owner or "",
            parameters.get(TABLE_ID, ""),
        )

    def create(self, registration: Registration) -> None:
        """Create the table; ``CatalogError`` says how to create its database if that is missing."""
        with self._connected() as client:
            client.create_table(self._table(registration))

    def replace(self, registration: Registration) -> None:
        """Change the table; properties of other programs stay. Its files are never deleted.

        The metastore compares types by position, and refuses some changes of columns: then it is created again.
        """
        table = self._table(registration)
        with self._connected() as client:
            stored = client.get_table(self._database, registration.name)
            table.parameters = {**stored.parameters, **table.parameters}
            try:
                client.alter_table(self._database, registration.name, table)
            except self._types.InvalidOperationException:
                client.drop_table(self._database, registration.name, deleteData=False)
                client.create_table(table)

    def _table(self, registration: Registration) -> Any:
        types = self._types
        storage = types.StorageDescriptor(
            cols=[types.FieldSchema(column.name, column.type, column.comment) for column in registration.columns],
            location=registration.location,
            inputFormat=INPUT_FORMAT,
            outputFormat=OUTPUT_FORMAT,
            serdeInfo=types.SerDeInfo(serializationLib=SERDE, parameters={"path": registration.location}),
            numBuckets=-1,
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
        return types.Table(
            tableName=registration.name,
            dbName=self._database,
            owner=registration.owner,
            createTime=int(time()),
            sd=storage,
            partitionKeys=[],  # the log of the table says what its partitions are
            parameters={**hive_properties(registration), "comment": registration.doc},
            tableType="EXTERNAL_TABLE",
        )

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # noqa: PLC0415 - an optional package
        from thrift.Thrift import TException  # noqa: PLC0415 - as above
        from thrift.transport import TSocket, TTransport  # noqa: PLC0415 - as above

        socket = TSocket.TSocket(*self._address)
        socket.setTimeout(_SECONDS * 1000)  # milliseconds
        transport = TTransport.TBufferedTransport(socket)
        try:
            transport.open()
            yield self._client_class(TBinaryProtocol(transport))
        except (TException, OSError, EOFError) as error:
            fact = f"The Hive metastore fails: {getattr(error, 'message', None) or error}"
            is_missing = isinstance(error, self._types.InvalidObjectException)
            action = f"Create the database there: CREATE DATABASE {self._database}" if is_missing else _ADVICE
            raise CatalogError(fact, where=self.place, action=action) from None
        finally:
            transport.close()
