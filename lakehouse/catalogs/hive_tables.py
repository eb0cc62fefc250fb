"""What AWS Glue and a Hive metastore share: a table of Hive, in the words of Glue."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakehouse.catalogs.registration import TABLE_ID, Catalog, RegisteredColumn, Registration
from lakehouse.errors import CatalogError
from lakehouse.settings.store import Store

_MOST_CHARACTERS, _MOST_OF_DOC = 255, 2048  # of a comment, and of the description
# readers of Delta ignore the formats: these are what Spark writes
_FORMATS = {
    "InputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
}
_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
# by these, Athena, and Spark and Trino find that it is a table of Delta
_PROPERTIES = {"EXTERNAL": "TRUE", "table_type": "DELTA", "spark.sql.sources.provider": "delta"}
_TYPE = {"TableType": "EXTERNAL_TABLE", "PartitionKeys": list[Any]()}  # the log of the table says its partitions


class HiveTables(Catalog):
    """A database with tables of Hive, each of which is a mapping in the words of Glue."""

    @abstractmethod
    def get(self, name: str) -> Mapping[str, Any] | None:
        """Return a table; ``None`` if there is none, or no such database."""

    @abstractmethod
    def put(self, table: Mapping[str, Any], former: Mapping[str, Any] | None) -> str:
        """Create a table, or change the one that ``get`` returned; return what to do then."""

    def fit(self, registration: Registration) -> Registration:
        """Return it with lower-case names, short comments and no nullability.

        Raises ``CatalogError`` if columns differ only by the case of their names, or have control characters in them.
        """
        counts = Counter(column.name.lower() for column in registration.columns)
        if equal_names := [column.name for column in registration.columns if counts[column.name.lower()] > 1]:
            fact = f"Columns of {registration.name} differ only by case: {', '.join(equal_names)}"
            action = "The catalog has only lower-case names. Rename one of them."
            raise CatalogError(fact, where=self.place, action=action)
        if names := [column.name for column in registration.columns if min(column.name + column.type) < " "]:
            fact = f"Columns of {registration.name} have control characters in their names: {', '.join(names)}"
            raise CatalogError(fact, where=self.place, action="The catalog holds none. Rename them.")
        columns = (
            RegisteredColumn(
                column.name.lower(),
                column.type.replace("timestamp_ntz", "timestamp"),  # the only one that Hive has
                _short(column.comment, _MOST_CHARACTERS),
            )
            for column in registration.columns
        )
        return replace(registration, columns=tuple(columns), doc=_short(registration.doc, _MOST_OF_DOC))

    def read(self, name: str) -> Registration | None:
        """Return what the database has under a name; ``None`` if it has no such table, or does not exist."""
        table = self.get(name)
        if table is None:
            return None
        storage = table.get("StorageDescriptor", {})
        return Registration(
            name,
            Store(storage.get("Location") or "").catalog_location,
            tuple(
                RegisteredColumn(column["Name"], column.get("Type") or "", column.get("Comment") or "")
                for column in storage.get("Columns", ())
            ),
            table.get("Description") or "",
            table.get("Owner") or "",
            table.get("Parameters", {}).get(TABLE_ID, ""),
            _format(table),
            table,
        )

    def create(self, registration: Registration) -> None:
        """Create the table; ``CatalogError`` says how to create its database if that is missing."""
        self.put(_table(registration, {}), None)

    def replace(self, registration: Registration, stored_table: Registration) -> str:
        """Change the table; properties of other programs stay."""
        former = stored_table.answer
        return self.put(_table(registration, former.get("Parameters", {})), former)


def _table(registration: Registration, properties: Mapping[str, str]) -> dict[str, Any]:
    columns = [{"Name": column.name, "Type": column.type, "Comment": column.comment} for column in registration.columns]
    serde = {"SerializationLibrary": _SERDE, "Parameters": {"path": registration.location}}  # Spark and Trino read path
    return {
        "Name": registration.name,
        "Description": registration.doc,
        "Owner": registration.owner,
        **_TYPE,
        "Parameters": {**properties, **_PROPERTIES, TABLE_ID: registration.table_id},
        "StorageDescriptor": {"Columns": columns, "Location": registration.location, **_FORMATS, "SerdeInfo": serde},
    }


def _format(table: Mapping[str, Any]) -> str:
    """What of a table keeps readers from taking it for one of Delta; ``delta`` if nothing does."""
    storage = table.get("StorageDescriptor", {})
    wanted = {**_PROPERTIES, **_TYPE, "path": storage.get("Location")}
    facts = {**table.get("Parameters", {}), "path": storage.get("SerdeInfo", {}).get("Parameters", {}).get("path")}
    facts |= {name: table.get(name, value) for name, value in _TYPE.items()}
    return (
        ", ".join(f"{name} {facts.get(name)}" for name, value in wanted.items() if facts.get(name) != value) or "delta"
    )


def _short(text: str, length: int) -> str:
    units = text.encode("utf-16-le")  # which are what the catalogs count
    return text if len(units) <= 2 * length else f"{units[: 2 * (length - 3)].decode('utf-16-le', 'ignore')}..."
