"""What AWS Glue and a Hive metastore share: a table of Hive, in the words of Glue."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakehouse.catalogs.registration import TABLE_ID, Catalog, RegisteredColumn, Registration, read_format
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
        counts, columns = Counter(column.name.lower() for column in registration.columns), list[RegisteredColumn]()
        equal_names = [column.name for column in registration.columns if counts[column.name.lower()] > 1]
        control_names = [column.name for column in registration.columns if min(column.name + column.type) < " "]
        for fact, names in ("differ only by case", equal_names), ("have control characters", control_names):
            if names:
                what = f"Columns of {registration.name} {fact}: {', '.join(names)}"
                action = "The catalog has only lower-case names in one line. Rename them."
                raise CatalogError(what, where=self.place, action=action)
        for column in registration.columns:
            type_ = column.type.replace("timestamp_ntz", "timestamp")  # the only one that Hive has
            columns.append(RegisteredColumn(column.name.lower(), type_, _short(column.comment, _MOST_CHARACTERS)))
        return replace(registration, columns=tuple(columns), doc=_short(registration.doc, _MOST_OF_DOC))

    def read(self, name: str) -> Registration | None:
        """Return what the database has under a name; ``None`` if it has no such table, or does not exist."""
        table = self.get(name)
        if table is None:
            return None
        storage, id_ = table.get("StorageDescriptor", {}), table.get("Parameters", {}).get(TABLE_ID, "")
        location, owner = Store(storage.get("Location") or "").catalog_location, table.get("Owner") or ""
        columns = tuple(
            RegisteredColumn(column["Name"], column.get("Type") or "", column.get("Comment") or "")
            for column in storage.get("Columns", ())
        )
        path = storage.get("SerdeInfo", {}).get("Parameters", {}).get("path")
        facts = {**_TYPE, **table, **table.get("Parameters", {}), "path": path}
        format_ = read_format(facts, {**_PROPERTIES, **_TYPE, "path": location})
        return Registration(name, location, columns, table.get("Description") or "", owner, id_, format_, table)

    def create(self, registration: Registration) -> None:
        """Create the table; ``CatalogError`` says how to create its database if that is missing."""
        self.put(_table(registration, {}), None)

    def replace(self, registration: Registration, stored_table: Registration) -> str:
        """Change the table; properties of other programs stay."""
        return self.put(_table(registration, stored_table.answer.get("Parameters", {})), stored_table.answer)


def _table(registration: Registration, properties: Mapping[str, str]) -> dict[str, Any]:
    columns = [{"Name": column.name, "Type": column.type, "Comment": column.comment} for column in registration.columns]
    serde = {"SerializationLibrary": _SERDE, "Parameters": {"path": registration.location}}  # Spark and Trino read path
    storage = {"Columns": columns, "Location": registration.location, **_FORMATS, "SerdeInfo": serde}
    facts = {"Name": registration.name, "Description": registration.doc, "Owner": registration.owner, **_TYPE}
    properties = {**properties, **_PROPERTIES, TABLE_ID: registration.table_id}
    return {**facts, "Parameters": properties, "StorageDescriptor": storage}


def _short(text: str, length: int) -> str:
    units = text.encode("utf-16-le")  # which are what the catalogs count
    return text if len(units) <= 2 * length else f"{units[: 2 * (length - 3)].decode('utf-16-le', 'ignore')}..."
