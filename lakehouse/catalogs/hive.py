"""Tables in a Hive metastore, by its Thrift interface."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import time
from typing import Any

from lakehouse.catalogs.hive_tables import HiveTables
from lakehouse.catalogs.registration import RECREATED, TABLE_ID
from lakehouse.errors import CatalogError, CatalogUnreachableError, SetupError

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
        serde = {"Parameters": getattr(table.sd.serdeInfo, "parameters", None) or {}}
        storage = {"Location": table.sd.location, "Columns": columns, "SerdeInfo": serde}
        facts = {"Description": table.parameters.get(_COMMENT), "Owner": table.owner, "Parameters": table.parameters}
        kind = {"TableType": table.tableType, "PartitionKeys": [key.name for key in table.partitionKeys or ()]}
        return {**facts, **kind, "StorageDescriptor": storage}

    def put(self, table: Mapping[str, Any], former: Mapping[str, Any] | None) -> str:
        """Create a table, or change it if it still has the former id, which metastores before 2.3.10 do not compare.

        The metastore compares types by position, and refuses some changes of columns: then it creates the table again.
        """
        name, own_table = table["Name"], self._own_table(table)
        with self._connected() as client:
            if former is None:
                client.create_table(own_table)
                return ""
            id_ = {"expected_parameter_key": TABLE_ID, "expected_parameter_value": former["Parameters"][TABLE_ID]}
            context = self._types.EnvironmentContext(id_)
            try:
                client.alter_table_with_environment_context(self._database, name, own_table, context)
                return ""
            except self._types.InvalidOperationException:
                former_table = client.get_table(self._database, name)
                client.drop_table(self._database, name, deleteData=False)
            try:
                client.create_table(own_table)
            except self._types.TException:
                client.create_table(former_table)
                raise
        return RECREATED

    def _own_table(self, table: Mapping[str, Any]) -> Any:
        types, storage = self._types, table["StorageDescriptor"]
        columns = [types.FieldSchema(*column.values()) for column in storage["Columns"]]
        serde = types.SerDeInfo(None, *storage["SerdeInfo"].values())
        formats = (storage["InputFormat"], storage["OutputFormat"])
        descriptor = types.StorageDescriptor(columns, storage["Location"], *formats, False, -1, serde, [], [], {})
        properties = {**table["Parameters"], _COMMENT: table["Description"]}
        facts = (table["Name"], self._database, table["Owner"], int(time()), None, None, descriptor)
        return types.Table(*facts, table["PartitionKeys"], properties, tableType=table["TableType"])

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol  # noqa: PLC0415 - an optional package
        from thrift.transport import TSocket, TTransport  # noqa: PLC0415 - as above

        socket = TSocket.TSocket(*self._address)
        socket.setTimeout(_MILLISECONDS)
        transport = TTransport.TBufferedTransport(socket)
        try:
            transport.open()
            yield self._client_class(TBinaryProtocol(transport))
        except (self._types.TException, OSError, EOFError, ValueError) as error:
            fact = f"The Hive metastore fails: {getattr(error, 'message', None) or error}"
            is_missing = isinstance(error, self._types.InvalidObjectException) and "Invalid column" not in fact
            action = f"Create the database there: CREATE DATABASE {self._database}" if is_missing else _ADVICE
            is_away = isinstance(error, (TTransport.TTransportException, OSError, EOFError))
            kind = CatalogUnreachableError if is_away else CatalogError
            raise kind(fact, where=self.place, action=action) from None
        finally:
            transport.close()
