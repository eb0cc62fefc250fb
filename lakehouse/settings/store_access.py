"""How a bucket of S3 is reached, as each program that reads or writes it needs to know.

The settings ``LAKEHOUSE_STORE_*`` say it for the bucket of the tables, else the variables ``AWS_*``.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from lakehouse.errors import SetupError

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_KEY, _SECRET, _TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
LOG_STORE = "lakehouse.ConditionalLogStore"
"""The class that writes logs in S3: Delta's own loses commits of two writers, without an error."""
LOG_STORES = "spark.delta.logStore."
_S3A = "spark.hadoop.fs.s3a."
_S3A_CONF = {
    # keys in settings of Hadoop, else those that the AWS SDK finds: variables, web identity, a profile, a role
    f"{_S3A}aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,"
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",  # the name that other readers have, too
    # a store that does not answer: by default, the file system and the SDK below it repeat each request for minutes
    f"{_S3A}attempts.maximum": "1",
    f"{_S3A}retry.limit": "2",
    f"{_S3A}connection.establish.timeout": "15s",
    f"{_S3A}connection.timeout": "15s",
    f"{LOG_STORES}s3.impl": LOG_STORE,
    f"{LOG_STORES}s3a.impl": LOG_STORE,
}


@dataclass(frozen=True)
class Access:
    """How an object store is reached; what is ``None`` comes from the provider's own chain.

    ``writers`` is ``one`` if a person vouches that nothing writes its tables at the same time. ``of_settings`` means
    that settings have the secret. ``settings`` names what settings can say.
    """

    settings: ClassVar[tuple[str, ...]] = ()

    endpoint: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    writers: str = "many"
    of_settings: bool = False

    @property
    def one_writer(self) -> bool:
        """Whether a person vouches that nothing writes the tables at the same time."""
        return self.writers == "one"

    @classmethod
    def of_environment(cls, bucket: str) -> Self:  # noqa: ARG003 - without a store there is nothing to read
        """Read the access to a bucket from the variables now."""
        return cls()

    def with_settings(self, values: Mapping[str, Any]) -> Self:
        """Return it with what settings say in place of the environment."""
        endpoint = (values.get("endpoint") or self.endpoint or "").rstrip("/") or None
        return replace(self, of_settings="secret_key" in values, **{**values, "endpoint": endpoint})

    def with_keys(self) -> Self:
        """Return it with the keys as they are now.

        Raises ``SetupError`` if there are none, or if clients would use those of another variable instead.
        """
        for name in filter(os.environ.get, self._stronger_variables):
            raise SetupError(
                f"{name} is set, and deltalake would use it before the secret or the address of the store",
                action=f"Unset it where the tables are used, or unset what {name} replaces.",
            )
        return self

    @property
    def _stronger_variables(self) -> tuple[str, ...]:
        """Variables that some client prefers to what is set here."""
        return ()

    @property
    def is_unencrypted(self) -> bool:
        """Whether the endpoint has no TLS."""
        return (self.endpoint or "").startswith("http://")

    @property
    def options(self) -> dict[str, str]:
        """The options of deltalake and obstore."""
        return {}

    def spark_conf(self, bucket: str) -> dict[str, str]:  # noqa: ARG002 - without a store there is nothing to set
        """The settings of Spark for tables in a bucket."""
        return {}

    @property
    def duckdb_secret(self) -> dict[str, str | bool]:
        """What a secret of DuckDB has."""
        return {}


@dataclass(frozen=True)
class S3Access(Access):
    """How a bucket of S3 is reached."""

    settings = ("endpoint", "region", "access_key", "secret_key", "path_style", "writers")

    access_key: str | None = field(default=None, repr=False)
    region: str | None = None
    path_style: bool = True
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of_environment(cls, bucket: str = "") -> Self:  # noqa: ARG003 - all buckets have the same variables
        """Read the variables ``AWS_*`` now. Raises ``SetupError`` if the endpoint is not an address."""
        name = next((name for name in _ENDPOINTS if os.environ.get(name)), None)
        if name and not os.environ[name].startswith(("http://", "https://")):
            raise SetupError(f"{name} is not the address of a store", action=f"Write {name}=https://host:port.")
        return cls(
            endpoint=os.environ[name] if name else None,
            region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
            access_key=os.environ.get(_KEY) or None,
            secret_key=os.environ.get(_SECRET) or None,
            token=os.environ.get(_TOKEN) or None,
            path_style=os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() != "true",
        )

    def with_keys(self) -> Self:
        """Return it with keys: if it has none, those of a profile or a role, as they are now.

        Without the package that finds them, each client asks for itself.
        """
        super().with_keys()
        if self.access_key or os.environ.get("AWS_SKIP_SIGNATURE") or not find_spec("botocore"):
            return self
        keys = _find_keys()
        return replace(self, access_key=keys.access_key, secret_key=keys.secret_key, token=keys.token)

    def with_settings(self, values: Mapping[str, Any]) -> Self:
        """Return it with what settings say; the token of the environment does not belong to keys of settings."""
        access = super().with_settings(values)
        return replace(access, token=None) if access.of_settings else access

    @property
    def _stronger_variables(self) -> tuple[str, ...]:
        return (_TOKEN,) if self.of_settings else ()

    @property
    def options(self) -> dict[str, str]:
        """The options of deltalake and obstore."""
        options = {
            "aws_endpoint": self.endpoint,
            "aws_region": self.region,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "aws_session_token": self.token,
            "aws_virtual_hosted_style_request": str(not self.path_style).lower() if self.endpoint else None,
        }
        return {name: value for name, value in options.items() if value is not None}

    def spark_conf(self, bucket: str) -> dict[str, str]:
        """The settings of Spark: keys only if they are of settings, since Spark finds others itself."""
        keys = {"access.key": self.access_key, "secret.key": self.secret_key} if self.of_settings else {}
        values = {f"{_S3A}{name}": value for name, value in S3Access.of_environment()._place_conf.items()}
        values |= {f"{_S3A}bucket.{bucket}.{name}": value for name, value in {**self._place_conf, **keys}.items()}
        return _S3A_CONF | {name: value for name, value in values.items() if value}

    @property
    def _place_conf(self) -> dict[str, str | None]:
        path_style = str(self.path_style).lower() if self.endpoint else None
        return {"endpoint": self.endpoint, "endpoint.region": self.region, "path.style.access": path_style}

    @property
    def duckdb_secret(self) -> dict[str, str | bool]:
        """What a secret of DuckDB has: keys, the region, and the endpoint of another store than AWS."""
        values = {
            "KEY_ID": self.access_key,
            "SECRET": self.secret_key,
            "SESSION_TOKEN": self.token,
            "REGION": self.region,
        }
        options: dict[str, str | bool] = {name: value for name, value in values.items() if value}
        if self.endpoint is None:
            return options
        address, style = urlsplit(self.endpoint), "path" if self.path_style else "vhost"
        place = {"ENDPOINT": f"{address.netloc}{address.path.rstrip('/')}", "URL_STYLE": style}
        return options | place | {"USE_SSL": address.scheme != "http"}


def _find_keys() -> Any:
    """Return the keys of a profile or a role as they are now."""
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - slow to import, and rarely needed

    action = f"Set {_KEY} and {_SECRET}, or AWS_PROFILE, or give the machine a role."
    try:
        variables = tuple(item for item in os.environ.items() if item[0].startswith("AWS_"))
        return _find_credentials(variables).get_frozen_credentials()
    except LookupError:
        raise SetupError("There are no keys for the object store", action=action) from None
    except BotoCoreError as error:
        raise SetupError(f"The keys for the object store cannot be read: {error}", action=action) from None


@lru_cache(maxsize=4)  # they renew keys that expire; that there are none is not cached
def _find_credentials(variables: tuple[tuple[str, str], ...]) -> Any:  # noqa: ARG001 - others lead to other keys
    from botocore.session import Session  # noqa: PLC0415 - as above

    credentials = Session().get_credentials()
    if credentials is None:
        raise LookupError
    return credentials
