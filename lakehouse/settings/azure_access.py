"""How a container of an Azure storage account is reached, as each program that reads or writes it needs to know.

The settings ``LAKEHOUSE_STORE_*`` say it for the account of the tables, else the variables ``AZURE_STORAGE_*``.
"""

import os
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from lakehouse.errors import SetupError
from lakehouse.settings.store_access import Access

HOST = ".dfs.core.windows.net"
"""How the host of each account ends."""
_KEY, _ENDPOINT = "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ENDPOINT"
_ABFS = "spark.hadoop.fs.azure."
_ABFS_CONF = {
    # accounts without a hierarchical namespace: Hadoop's own choice would create files with more requests
    f"{_ABFS}fns.account.service.type": "BLOB",
    # the other HTTP client and OpenSSL need further jars
    f"{_ABFS}networking.library": "JDK_HTTP_URL_CONNECTION",
    f"{_ABFS}ssl.channel.mode": "Default_JSSE",
    # an account that does not answer: by default, each request is repeated for minutes
    f"{_ABFS}io.retry.max.retries": "3",
    f"{_ABFS}http.connection.timeout": "3000",
    f"{_ABFS}http.read.timeout": "15000",
}


@dataclass(frozen=True)
class AzureAccess(Access):
    """How the containers of an account are reached; ``key`` is its name, and ``secret`` its key.

    ``endpoint`` is unset for Azure itself, and else the address of the account for blobs: http(s)://HOST:PORT/ACCOUNT.
    """

    @classmethod
    def of_environment(cls, container: str) -> Self:
        """Read how the account of CONTAINER@ACCOUNT.dfs.core.windows.net is reached from the variables now."""
        account = container.partition("@")[2].removesuffix(HOST)
        return cls(os.environ.get(_ENDPOINT) or None, account, os.environ.get(_KEY) or None)

    def with_keys(self) -> Self:
        """Return it. Raises ``SetupError`` if there is no key."""
        if not self.secret:
            raise SetupError(
                f"There is no key for the storage account {self.key}",
                action=f"Set LAKEHOUSE_STORE_SECRET_KEY or {_KEY} to one of its two keys.",
            )
        return self

    @property
    def options(self) -> dict[str, str]:
        """The options of deltalake and obstore."""
        options = {"azure_storage_account_key": self.secret, "azure_storage_endpoint": self.endpoint}
        return {name: value for name, value in options.items() if value}

    def spark_conf(self, bucket: str) -> dict[str, str]:  # noqa: ARG002 - all containers of the account have its key
        """The settings of Spark, always with the key: its file system reads no variables."""
        conf = _ABFS_CONF | {f"{_ABFS}account.key.{self.key}{HOST}": self.with_keys().secret or ""}
        if self.endpoint is None:
            return conf
        place = {"abfs.endpoint": urlsplit(self.endpoint).netloc, "account.hns.enabled": "false"}
        place |= {"always.use.https": str(not self.is_unencrypted).lower()}
        return conf | {f"{_ABFS}{name}": value for name, value in place.items()}

    @property
    def duckdb_secret(self) -> dict[str, str | bool]:
        """What a secret of DuckDB has: one text with everything."""
        values = {"DefaultEndpointsProtocol": "http" if self.is_unencrypted else "https", "AccountName": self.key}
        values |= {"AccountKey": self.secret, "BlobEndpoint": self.endpoint}
        return {"CONNECTION_STRING": ";".join(f"{name}={value}" for name, value in values.items() if value)}
