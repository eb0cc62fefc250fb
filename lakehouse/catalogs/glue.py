"""Tables in the Data Catalog of AWS Glue, by boto3."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lakehouse.catalogs.hive_tables import HiveTables
from lakehouse.errors import CatalogError, SetupError

_LIMITS = {
    "connect_timeout": 3,
    "read_timeout": 10,
    "retries": {"total_max_attempts": 3, "mode": "standard"},
}  # seconds
_ADVICE = (
    "Nothing was registered; the table itself is not affected. Check the region, the credentials and the permissions"
    " glue:GetTable, glue:CreateTable and glue:UpdateTable, or run it again later."
)


class GlueCatalog(HiveTables):
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

    def get(self, name: str) -> Mapping[str, Any] | None:
        """Return a table by one request."""
        with self._explained():
            try:
                table: Mapping[str, Any] = self._client.get_table(DatabaseName=self._database, Name=name)["Table"]
            except self._client.exceptions.EntityNotFoundException:
                return None
            return table

    def put(self, table: Mapping[str, Any], *, is_new: bool) -> None:
        """Create a table, or change it without a copy of its former version."""
        with self._explained():
            if is_new:
                self._client.create_table(DatabaseName=self._database, TableInput=table)
            else:
                self._client.update_table(DatabaseName=self._database, TableInput=table, SkipArchive=True)

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
