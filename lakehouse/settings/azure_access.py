"""How a container of an Azure storage account is reached, as each program that reads or writes it needs to know.

The settings ``LAKEHOUSE_STORE_*`` say it for the account of the tables, else the variables ``AZURE_STORAGE_*``.
"""

import os
import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from lakehouse.errors import SetupError
from lakehouse.settings.store_access import Access

HOST = ".dfs.core.windows.net"
"""How the host of each account ends."""
_ENDPOINT = "AZURE_STORAGE_ENDPOINT"
_KEY, _SIGNATURE = "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"
_EMULATOR = "devstoreaccount1"  # the account of Azurite; any other has an address of its own
_EMULATOR_ENDPOINT = re.compile(rf"https?://[^:/@\[\]]+:\d+/{_EMULATOR}")
_SIGNATURE_VALUE = re.compile(r"(^|[?&])sig=[^=]")  # a key can end with sig==
_STRONGER = (
    *("AZURE_STORAGE_TOKEN", "AZURE_SKIP_SIGNATURE", "AZURE_ENDPOINT", "AZURE_STORAGE_USE_EMULATOR"),
    *("AZURE_USE_EMULATOR", "AZURE_USE_FABRIC_ENDPOINT", "AZURE_STORAGE_USE_FABRIC_ENDPOINT"),
)
"""What deltalake prefers to a key: other secrets, and other places, to which a signature would be sent."""
_STRONGER_THAN_SIGNATURE = (
    *(_KEY, "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY"),
    *("AZURE_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"),
)
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
    """How a container of an account is reached; ``secret_key`` is the key of the account or a signature (SAS).

    ``endpoint`` is unset for Azure itself, and the address of a server of Azurite: http(s)://HOST:PORT/devstoreaccount1.
    """

    settings = ("endpoint", "secret_key", "writers")

    account: str = ""

    @classmethod
    def of_environment(cls, container: str) -> Self:
        """Read how the account of CONTAINER@ACCOUNT.dfs.core.windows.net is reached from the variables now."""
        account = container.partition("@")[2].removesuffix(HOST)
        secret = os.environ.get(_KEY) or os.environ.get(_SIGNATURE) or None
        return cls(endpoint=os.environ.get(_ENDPOINT, "").rstrip("/") or None, secret_key=secret, account=account)

    @property
    def _is_signature(self) -> bool:
        return bool(_SIGNATURE_VALUE.search(self.secret_key or ""))

    def with_keys(self) -> Self:
        """Return it. Raises ``SetupError`` also for an endpoint that a client would not use.

        Hadoop ignores one without a port, and DuckDB one of another account.
        """
        if self.endpoint and not (_EMULATOR_ENDPOINT.fullmatch(self.endpoint) and self.account == _EMULATOR):
            raise SetupError(  # its value may have a signature
                f"LAKEHOUSE_STORE_ENDPOINT or {_ENDPOINT} is not the address of a server of Azurite with the account"
                f" {self.account}",
                action=f"Write http(s)://HOST:PORT/{_EMULATOR}, or unset it: an account of Azure has its own address.",
            )
        if not self.secret_key or self.secret_key.startswith("http") or re.search(r"[;\s]", self.secret_key):
            raise SetupError(
                f"There is no key or signature for the storage account {self.account}",
                action=f"Set LAKEHOUSE_STORE_SECRET_KEY, {_KEY} or {_SIGNATURE}. A connection string is none, and an"
                " identity is not supported.",
            )
        return super().with_keys()

    @property
    def _stronger_variables(self) -> tuple[str, ...]:
        return (*_STRONGER, *(_STRONGER_THAN_SIGNATURE if self._is_signature else ()))

    @property
    def options(self) -> dict[str, str]:
        """The options of deltalake and obstore."""
        secret_name = "azure_storage_sas_token" if self._is_signature else "azure_storage_account_key"
        options = {secret_name: self.secret_key, "azure_storage_endpoint": self.endpoint}
        return {name: value for name, value in options.items() if value}

    def spark_conf(self, bucket: str) -> dict[str, str]:
        """The settings of Spark, always with the secret: its file system reads no variables."""
        secret_name, account = "sas.fixed.token" if self._is_signature else "account.key", bucket.partition("@")[2]
        conf = _ABFS_CONF | {f"{_ABFS}{secret_name}.{account}": self.with_keys().secret_key or ""}
        conf[f"{_ABFS}account.auth.type.{account}"] = "SAS" if self._is_signature else "SharedKey"
        # several writers are refused elsewhere; for one, the file system asks the account
        conf |= {} if self.one_writer else {f"{_ABFS}account.hns.enabled": "false"}
        if self.endpoint is None:
            return conf
        place = {"abfs.endpoint": urlsplit(self.endpoint).netloc, "account.hns.enabled": "false"}
        place |= {"always.use.https": str(not self.is_unencrypted).lower()}
        return conf | {f"{_ABFS}{name}": value for name, value in place.items()}

    @property
    def duckdb_secret(self) -> dict[str, str | bool]:
        """What a secret of DuckDB has: one text with everything."""
        secret_name = "SharedAccessSignature" if self._is_signature else "AccountKey"
        protocol = "http" if self.is_unencrypted else "https"
        values = {"DefaultEndpointsProtocol": protocol, "AccountName": self.account}
        values |= {secret_name: self.secret_key or "", "BlobEndpoint": self.endpoint or ""}
        return {"CONNECTION_STRING": ";".join(f"{name}={value}" for name, value in values.items() if value)}
