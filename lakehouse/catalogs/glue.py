"""Tables in the Data Catalog of AWS Glue, by boto3."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lakehouse.catalogs.hive_tables import HiveTables
from lakehouse.errors import CatalogError, CatalogUnreachableError, SetupError

_RETRIES = {"total_max_attempts": 3, "mode": "standard"}
_LIMITS = {"connect_timeout": 3, "read_timeout": 10, "retries": _RETRIES}  # seconds
_ADVICE = (
    "The table itself is not affected. Check the region, the credentials and the permissions glue:GetTable,"
    " glue:CreateTable and glue:UpdateTable, or run it again later."
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
                return dict(self._client.get_table(DatabaseName=self._database, Name=name)["Table"])
            except self._client.exceptions.EntityNotFoundException:
                return None

    def put(self, table: Mapping[str, Any], former: Mapping[str, Any] | None) -> str:
        """Create a table, or change this version of it without keeping a copy. Nothing is left to do."""
        options = {"DatabaseName": self._database, "TableInput": table}
        with self._explained(creates=former is None):
            if former is None:
                self._client.create_table(**options)
            else:
                version = {name: value for name, value in former.items() if name == "VersionId"}
                self._client.update_table(**options, **version, SkipArchive=True)
        return ""

    @contextmanager
    def _explained(self, *, creates: bool = False) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError  # noqa: PLC0415 - as above

        try:
            yield
        except ClientError as error:
            code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
            message = message.partition("\n")[0][:300]  # the next lines quote the request with its token
            database = f"--region {self._region} --database-input Name={self._database}"
            is_missing = creates and code == "EntityNotFoundException"
            action = f"Create the database: aws glue create-database {database}" if is_missing else _ADVICE
            raise CatalogError(f"AWS Glue answers {code}: {message}", where=self.place, action=action) from None
        except (BotoCoreError, ValueError) as error:  # all but the first are about the service, not about a table
            kind = CatalogError if isinstance(error, ParamValidationError) else CatalogUnreachableError
            fact = f"AWS Glue cannot be used: {str(error).partition('Invalid header')[0]}"  # a token would follow
            raise kind(fact, where=self.place, action=_ADVICE) from None
