"""Tables in the Data Catalog of AWS Glue, by boto3."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakehouse.catalogs.catalog import Catalog
from lakehouse.catalogs.hive_tables import INPUT_FORMAT, OUTPUT_FORMAT, SERDE, fit_to_hive, hive_properties
from lakehouse.catalogs.registration import TABLE_ID, RegisteredColumn, Registration
from lakehouse.errors import CatalogError, SetupError
from lakehouse.settings.store import Store

_LIMITS = {
    "connect_timeout": 3,
    "read_timeout": 10,
    "retries": {"total_max_attempts": 3, "mode": "standard"},
}  # seconds
_ADVICE = (
    "Nothing was registered; the table itself is not affected. Check the region, the credentials and the permissions"
    " glue:GetTable, glue:CreateTable and glue:UpdateTable, or run it again later."
)


class GlueCatalog(Catalog):
    """A database of Glue. Credentials and the address of the service are those that boto3 finds itself."""

    def __init__(self, region: str, database: str) -> None:
        try:
            import boto3  # noqa: PLC0415 - an optional package
            from botocore.config import Config  # noqa: PLC0415 - as above
        except ImportError:
            action = "Install it: pip install 'dagster-lakehouse[glue]'."
            raise SetupError("The package boto3 is missing, which connects to AWS Glue", action=action) from None
        self.place, self._region, self._database = f"glue://{region}/{database}", region, database
        with self._explained():
            self._client = boto3.session.Session().client("glue", region_name=region, config=Config(**_LIMITS))

    def fit(self, registration: Registration) -> Registration:
        """Return it with lower-case names and short comments; ``CatalogError`` if two names are then equal."""
        return fit_to_hive(registration, self.place)

    def read(self, name: str) -> Registration | None:
        """Return what Glue has under a name; ``None`` if it has no such table, or no such database."""
        table = self._read(name)
        if table is None:
            return None
        storage = table.get("StorageDescriptor", {})
        columns = (
            RegisteredColumn(c["Name"], c.get("Type", ""), c.get("Comment", "")) for c in storage.get("Columns", ())
        )
        return Registration(
            name,
            Store(storage.get("Location", "")).catalog_location,
            tuple(columns),
            table.get("Description", ""),
            table.get("Owner", ""),
            table.get("Parameters", {}).get(TABLE_ID, ""),
        )

    def create(self, registration: Registration) -> None:
        """Create the table; ``CatalogError`` says how to create its database if that is missing."""
        with self._explained():
            self._client.create_table(DatabaseName=self._database, TableInput=_table_input(registration))

    def replace(self, registration: Registration) -> None:
        """Update the table, without a copy of its former version; properties of other programs stay."""
        table_input = _table_input(registration)
        stored = self._read(registration.name) or {}
        table_input["Parameters"] = {**stored.get("Parameters", {}), **table_input["Parameters"]}
        with self._explained():
            self._client.update_table(DatabaseName=self._database, TableInput=table_input, SkipArchive=True)

    def _read(self, name: str) -> dict[str, Any] | None:
        with self._explained():
            try:
                table: dict[str, Any] = self._client.get_table(DatabaseName=self._database, Name=name)["Table"]
            except self._client.exceptions.EntityNotFoundException:
                return None
            return table

    @contextmanager
    def _explained(self) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - as above

        try:
            yield
        except ClientError as error:
            code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
            database = f"--region {self._region} --database-input Name={self._database}"
            is_missing = code == "EntityNotFoundException"
            action = f"Create the database: aws glue create-database {database}" if is_missing else _ADVICE
            raise CatalogError(f"AWS Glue answers {code}: {message}", where=self.place, action=action) from None
        except BotoCoreError as error:
            raise CatalogError(f"AWS Glue cannot be used: {error}", where=self.place, action=_ADVICE) from None


def _table_input(registration: Registration) -> dict[str, Any]:
    # no partition keys: the log of the table says what its partitions are
    return {
        "Name": registration.name,
        "Description": registration.doc,
        "Owner": registration.owner,
        "TableType": "EXTERNAL_TABLE",
        "PartitionKeys": [],
        "Parameters": hive_properties(registration),
        "StorageDescriptor": {
            "Columns": [{"Name": c.name, "Type": c.type, "Comment": c.comment} for c in registration.columns],
            "Location": registration.location,
            "InputFormat": INPUT_FORMAT,
            "OutputFormat": OUTPUT_FORMAT,
            "SerdeInfo": {"SerializationLibrary": SERDE, "Parameters": {"path": registration.location}},
        },
    }
