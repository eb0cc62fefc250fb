"""Tables in a Hive metastore, by its Thrift interface."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import time
from typing import Any

from lakehouse.catalogs.hive_tables import HiveTables
from lakehouse.errors import CatalogError, SetupError

_MILLISECONDS = 10_000  # for one answer
_ADVICE = "The table itself is not affected. Correct LAKEHOUSE_CATALOG or the metastore, or run it again later."
_COMMENT = "comment"  # the property that is the description


class HiveCatalog(HiveTables):
    """A database of a Hive metastore, which is reached without encryption and without a password."""

    def __init__(self, host: str, port: int, database: str) -> None:
        try:
            from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes  # noqa: PLC0415 - an optional package
        except ImportError:
            action = "Install it: pip install 'dagster-lakehouse[hive]'."
            raise SetupError("The package pymetastore is missing, which knows Hive's protocol", action=action) from None
        self.place, self._address, self._database = f"hive://{host}:{port}/{database}", (host, port), database
        self._types, self._client_class = ttypes, ThriftHiveMetastore.Client

    def get(self, name: str) -> Mapping[str, Any] | None:
        """Return a table by one request."""
        with self._connected() as client:
            try:
                table = client.get_table(self._database, name)
            except self._types.NoSuchObjectException:
                return None
        columns = [{"Name": column.name, "Type": column.type, "Comment": column.comment} for column in table.sd.cols]
        storage = {"Location": table.sd.location, "Columns": columns}
        facts = {"Description": table.parameters.get(_COMMENT), "Owner": table.owner, "Parameters": table.parameters}
        return {**facts, "StorageDescriptor": storage}

    def put(self, table: Mapping[str, Any], *, is_new: bool) -> None:
        """Create or change a table. Its files are never deleted.

        The metastore compares types by position, and refuses some changes of columns: then it is created again.
        """
        name, own_table = table["Name"], self._own_table(table)
        with self._connected() as client:
            if is_new:
                client.create_table(own_table)
                return
            try:
                client.alter_table(self._database, name, own_table)
            except self._types.InvalidOperationException:
                client.drop_table(self._database, name, deleteData=False)
                client.create_table(own_table)

    def _own_table(self, table: Mapping[str, Any]) -> Any:
        types, storage = self._types, table["StorageDescriptor"]
        columns = [types.FieldSchema(*column.values()) for column in storage["Columns"]]
        serde = types.SerDeInfo(None, *storage["SerdeInfo"].values())
        formats = (storage["InputFormat"], storage["OutputFormat"])
        descriptor = types.StorageDescriptor(columns, storage["Location"], *formats, False, -1, serde, [], [], {})
        return types.Table(
            tableName=table["Name"],
            dbName=self._database,
            owner=table["Owner"],
            createTime=int(time()),
            sd=descriptor,
            partitionKeys=table["PartitionKeys"],
            parameters={**table["Parameters"], _COMMENT: table["Description"]},
            tableType=table["TableType"],
        )

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # noqa: PLC0415 - an optional package
        from thrift.Thrift import TException  # noqa: PLC0415 - as above
        from thrift.transport import TSocket, TTransport  # noqa: PLC0415 - as above

        socket = TSocket.TSocket(*self._address)
        socket.setTimeout(_MILLISECONDS)
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
